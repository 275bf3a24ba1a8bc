// Tells whether the kernel may have killed a process because memory ran out.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace verbena::apps {

/// How many processes the kernel has ever killed for this reason; nullopt if the kernel does not tell.
struct MemoryKills {
  std::optional<std::uint64_t> in_group;  ///< of this process's control group
  std::optional<std::uint64_t> on_host;
};
/// `root` is the root of the file system; another folder in tests.
MemoryKills count_memory_kills(const std::filesystem::path& root = "/");

/// For a process that died of a SIGKILL that we did not send: the likely cause and what to do. The text
/// continues the error message.
std::string guess_at_kill(const MemoryKills& before, const MemoryKills& after);

}  // namespace verbena::apps
