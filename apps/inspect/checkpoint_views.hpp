// What is in checkpoints, for people and for programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/file_system.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/verify.hpp"

namespace verbena::apps::inspect {

struct SeenTable {
  std::uint32_t number = 0;
  std::string name;
  nlohmann::json description;  ///< as the manifest has it
  std::uint64_t rows = 0;      ///< that were saved
  std::uint64_t removed = 0;   ///< of an increment: rows of its base that are there no more
  std::uint64_t bytes = 0;     ///< of their chunks
};

struct SeenPart {
  std::string name;
  std::size_t files = 0;
  std::uint64_t bytes = 0;
  std::vector<checkpoint::Blob> blobs;
};

/// What the manifest of a checkpoint says.
struct SeenCheckpoint {
  std::string path;
  std::uint64_t clock = 0;
  std::optional<std::uint64_t> since;  ///< an increment: the clock of its base (checkpoint/layers.hpp)
  std::string written;
  std::string program;
  std::uint64_t bytes = 0;  ///< of its data files
  nlohmann::json options;   ///< an object
  std::vector<SeenTable> tables;
  std::vector<SeenPart> parts;
};

struct SeenFolder {
  std::string path;
  std::vector<SeenCheckpoint> complete;  ///< these three as in checkpoint::Folder::Listing
  std::vector<checkpoint::Folder::Damaged> damaged;
  std::vector<std::string> unfinished;
};

struct VerifiedCheckpoint {
  std::string path;
  std::uint64_t bytes = 0;  ///< that its data files should have
  std::vector<checkpoint::Damage> damages;
};

/// The path of the checkpoint that is meant: `path` itself, or the newest one that is complete in the folder
/// of checkpoints there. NOT_FOUND: there is none. DATA_LOSS: there are some, and all are damaged; the
/// message names them. INVALID_ARGUMENT: `path` is no folder.
absl::StatusOr<std::string> find_checkpoint(checkpoint::FileSystem& files, const std::string& path);

/// The checkpoints in a folder of them; of each only the manifest is read. Errors as find_checkpoint(), but
/// there may be no checkpoint.
absl::StatusOr<SeenFolder> look_at_folder(checkpoint::FileSystem& files, const std::string& path);
/// That of find_checkpoint(path). Errors also as checkpoint::read_manifest().
absl::StatusOr<SeenCheckpoint> look_at_checkpoint(checkpoint::FileSystem& files, const std::string& path);

/// How many of how many bytes of which checkpoint have been examined.
using VerifyProgress =
    absl::FunctionRef<void(const std::string& path, std::uint64_t bytes, std::uint64_t all_bytes)>;
/// Reads all of the checkpoint at `path`, or of each one in the folder of checkpoints there, the newest
/// first. Errors as find_checkpoint(); damage is none.
absl::StatusOr<std::vector<VerifiedCheckpoint>> verify_checkpoints(checkpoint::FileSystem& files,
                                                                   const std::string& path,
                                                                   VerifyProgress progress);

[[nodiscard]] std::string to_text(const SeenFolder& folder);
[[nodiscard]] nlohmann::json to_json(const SeenFolder& folder);
[[nodiscard]] std::string to_text(const SeenCheckpoint& seen);
[[nodiscard]] nlohmann::json to_json(const SeenCheckpoint& seen);
/// Each damage with what can be done.
[[nodiscard]] std::string to_text(std::span<const VerifiedCheckpoint> verified);
/// DATA_LOSS: some are damaged; the message says how many.
absl::Status check_whole(std::span<const VerifiedCheckpoint> verified);

}  // namespace verbena::apps::inspect
