#include "apps/launcher/memory_kills.hpp"

#include <charconv>
#include <fstream>
#include <string_view>

namespace verbena::apps {
namespace {

namespace fs = std::filesystem;

/// The number after `name` in a file of "NAME NUMBER" lines.
std::optional<std::uint64_t> count_in(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t blank = line.find(' ');
    if (blank == std::string::npos || std::string_view(line).substr(0, blank) != name) continue;
    std::uint64_t count = 0;
    const char* const end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + blank + 1, end, count);
    return error == std::errc() && stop == end ? std::optional(count) : std::nullopt;
  }
  return std::nullopt;
}

/// The group in the line "NUMBER:CONTROLLERS:PATH"; `controllers` is empty for version 2.
std::optional<std::string> group_of(const fs::path& root, std::string_view controllers) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (std::string_view(line).substr(first + 1, second - first - 1) == controllers) {
      return line.substr(second + 2);  // a path within the mount, without its slash
    }
  }
  return std::nullopt;
}

std::optional<std::uint64_t> count_in_group(const fs::path& root) {
  constexpr const char* kCount = "oom_kill";
  if (const auto group = group_of(root, "memory")) {
    return count_in(root / "sys/fs/cgroup/memory" / *group / "memory.oom_control", kCount);
  }
  const auto group = group_of(root, "");
  return group ? count_in(root / "sys/fs/cgroup" / *group / "memory.events", kCount) : std::nullopt;
}

bool rose(const std::optional<std::uint64_t>& before, const std::optional<std::uint64_t>& after) {
  return after && *after > before.value_or(0);
}

}  // namespace

MemoryKills count_memory_kills(const fs::path& root) {
  return {.in_group = count_in_group(root), .on_host = count_in(root / "proc/vmstat", "oom_kill")};
}

std::string guess_at_kill(const MemoryKills& before, const MemoryKills& after) {
  constexpr const char* kLess =
      "fewer workers, threads or servers, a smaller model, or smaller data need less memory";
  if (rose(before.in_group, after.in_group)) {
    return std::string(
               ": the kernel ended it, or another process of its control group, for want of memory; "
               "give the group more (docker run --memory, Slurm's --mem), or ") +
           kLess;
  }
  if (rose(before.on_host, after.on_host)) {
    return std::string(
               ": the kernel ended some process for want of memory just then, most likely this one "
               "(dmesg has its name); ") +
           kLess;
  }
  if (!after.in_group && !after.on_host) {
    return std::string(": someone sent that, or the kernel, for want of memory (dmesg tells); then ") + kLess;
  }
  return ": someone sent that, or a limit on its processor time (ulimit -t); the kernel has ended none for "
         "want of memory "
         "meanwhile";
}

}  // namespace verbena::apps
