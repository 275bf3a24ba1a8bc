// Names of checkpoints in a folder of them (checkpoint/folder.hpp says what they mean).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::checkpoint {

inline constexpr std::string_view kWhole;
inline constexpr std::string_view kTmp = ".tmp";
inline constexpr std::string_view kOld = ".old";
inline constexpr std::string_view kGone = ".gone";

/// "ckpt-20.tmp"
[[nodiscard]] std::string checkpoint_name(std::uint64_t clock, std::string_view ending);

struct CheckpointName {
  std::uint64_t clock = 0;
  std::string_view ending;
};
/// nullopt: it is not ours.
[[nodiscard]] std::optional<CheckpointName> parse_checkpoint_name(std::string_view name);

/// Of a file or folder; "." if the path does not say.
[[nodiscard]] std::string folder_above(const std::string& path);
/// The folder in which the checkpoint at `path` is, whichever way that was written: "saved/ckpt-20/", ".", or
/// a link to it. Looks at the host's file system if `path` does not end in a checkpoint's name.
[[nodiscard]] std::string folder_of_checkpoint(const std::string& path);

}  // namespace verbena::checkpoint
