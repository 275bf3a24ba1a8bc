#include "transport/shm/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace verbena::transport::shm {

namespace {

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The number after `name` in a file of "NAME NUMBER" lines.
std::optional<std::uint64_t> read_field(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t number = 0;
  while (file >> word) {
    if (word == name && file >> number) return number;
    file.clear();
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

void limit_to(FreeMemory& least, std::uint64_t bytes, std::string limit) {
  if (bytes < least.bytes) least = {bytes, std::move(limit)};
}

struct GroupFiles {
  const char* limit;
  const char* usage;
};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current"};

/// The group at root + path and all above it; each limits the ones below.
void limit_to_groups(FreeMemory& least, const std::string& root, std::string path, const GroupFiles& files) {
  while (true) {
    const std::string folder = root + path;
    const auto limit = read_number(folder + '/' + files.limit);  // "max" is no number and no limit
    const auto usage = read_number(folder + '/' + files.usage);
    if (limit && usage) {
      // The page cache counts as used, but gives way.
      const std::string statistics = folder + "/memory.stat";
      const std::uint64_t cache = read_field(statistics, "inactive_file").value_or(0) +
                                  read_field(statistics, "active_file").value_or(0);
      const std::uint64_t used = *usage - std::min(*usage, cache);
      limit_to(least, *limit - std::min(*limit, used), fmt::format("the control group {}", folder));
    }
    if (path.empty()) return;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

}  // namespace

FreeMemory free_memory(const std::string& proc, const std::string& cgroups) {
  FreeMemory least;
  if (const auto kib = read_field(proc + "/meminfo", "MemAvailable:")) {
    limit_to(least, *kib * 1024, "the host's free memory");
  }
  std::ifstream groups(proc + "/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // ID:CONTROLLERS:PATH
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) limit_to_groups(least, cgroups, path, kVersion2);
    if (controllers == "memory") limit_to_groups(least, cgroups + "/memory", path, kVersion1);
  }
  return least;
}

bool overcommit_forbidden(const std::string& proc) {
  return read_number(proc + "/sys/vm/overcommit_memory") == 2U;
}

}  // namespace verbena::transport::shm
