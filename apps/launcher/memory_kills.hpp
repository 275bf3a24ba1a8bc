// Whether the kernel may have ended a process for want of memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace verbena::apps {

/// Processes so ended, ever; nullopt where the kernel does not tell.
struct MemoryKills {
  std::optional<std::uint64_t> in_group;  ///< of this process's control group
  std::optional<std::uint64_t> on_host;
};
/// `root`: of the file system, another one in tests.
MemoryKills count_memory_kills(const std::filesystem::path& root = "/");

/// Of a process that died of a SIGKILL which was not ours, what it died of and what to do, to stand after
/// that.
std::string guess_at_kill(const MemoryKills& before, const MemoryKills& after);

}  // namespace verbena::apps
