#include "transport/shm/host_memory.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

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

/// A limit of the host, or of a control group.
struct Limit {
  FreeMemory free;
  std::string controllers;   ///< as /proc/PID/cgroup names the groups' hierarchy
  std::string group;         ///< in it: limits all groups that begin with this
  bool is_of_group = false;  ///< else it limits all processes
};

struct Group {
  std::string controllers;
  std::string path;
};

std::vector<Group> groups_of(const std::string& process) {
  std::vector<Group> groups;
  std::ifstream file(process + "/cgroup");
  for (std::string line; std::getline(file, line);) {  // ID:CONTROLLERS:PATH
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    groups.push_back({line.substr(first + 1, second - first - 1), line.substr(second + 1)});
  }
  return groups;
}

bool concerns(const Limit& limit, const std::vector<Group>& groups) {
  return !limit.is_of_group || std::any_of(groups.begin(), groups.end(), [&](const Group& group) {
    const bool is_below = group.path.size() == limit.group.size() || limit.group.empty() ||
                          (group.path.size() > limit.group.size() && group.path[limit.group.size()] == '/');
    return group.controllers == limit.controllers && group.path.starts_with(limit.group) && is_below;
  });
}

struct GroupFiles {
  const char* limit;
  const char* usage;
};
constexpr GroupFiles kVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes"};
constexpr GroupFiles kVersion2 = {"memory.max", "memory.current"};

/// The group at root + path and all above it; each limits the ones below.
void add_groups(std::vector<Limit>& limits, const std::string& root, Group group, const GroupFiles& files) {
  std::string& path = group.path;
  while (true) {
    const std::string folder = root + path;
    const auto limit = read_number(folder + '/' + files.limit);  // "max" is not a number and no limit
    const auto usage = read_number(folder + '/' + files.usage);
    if (limit && usage) {
      // The page cache counts as used, but the kernel frees it on demand.
      const std::string statistics = folder + "/memory.stat";
      const std::uint64_t cache = read_field(statistics, "inactive_file").value_or(0) +
                                  read_field(statistics, "active_file").value_or(0);
      const std::uint64_t used = *usage - std::min(*usage, cache);
      limits.push_back(
          {.free = {*limit - std::min(*limit, used), fmt::format("the control group {}", folder)},
           .controllers = group.controllers,
           .group = path == "/" ? "" : path,
           .is_of_group = true});
    }
    if (path.empty()) return;
    path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

std::vector<Limit> limits_here(const std::string& proc, const std::string& cgroups) {
  std::vector<Limit> limits;
  if (const auto kib = read_field(proc + "/meminfo", "MemAvailable:"))
    limits.push_back({.free = {*kib * 1024, "the host's free memory"}, .controllers = {}, .group = {}});
  for (const Group& group : groups_of(proc + "/self")) {
    if (group.controllers.empty()) add_groups(limits, cgroups, group, kVersion2);
    if (group.controllers == "memory") add_groups(limits, cgroups + "/memory", group, kVersion1);
  }
  return limits;
}

/// The untouched bytes of the memory files with that name that the process has open and that are not in
/// `known`.
std::uint64_t promised_to(const std::filesystem::path& process, const std::string& file_name,
                          std::set<std::pair<dev_t, ino_t>>& known) {
  const std::string target = fmt::format("/memfd:{} (deleted)", file_name);
  std::uint64_t bytes = 0;
  std::error_code error;  // the process belongs to another user, or has ended
  for (std::filesystem::directory_iterator file(process / "fd", error), end; !error && file != end;
       file.increment(error)) {
    std::error_code no_link;
    if (std::filesystem::read_symlink(file->path(), no_link) != target) continue;
    struct stat info {};
    if (::stat(file->path().c_str(), &info) != 0 || !known.emplace(info.st_dev, info.st_ino).second) continue;
    const auto size = static_cast<std::uint64_t>(info.st_size);
    bytes +=
        size - std::min(size, static_cast<std::uint64_t>(info.st_blocks) * 512);  // the unit of st_blocks
  }
  return bytes;
}

}  // namespace

FreeMemory free_memory(const std::string& proc, const std::string& cgroups) {
  FreeMemory least;
  for (Limit& limit : limits_here(proc, cgroups)) {
    if (limit.free.bytes < least.bytes) least = std::move(limit.free);
  }
  return least;
}

PromisedMemory promised_memory(const std::string& file_name, const std::string& proc,
                               const std::string& cgroups) {
  const std::vector<Limit> limits = limits_here(proc, cgroups);
  std::vector<std::uint64_t> promised(limits.size());
  std::set<std::pair<dev_t, ino_t>> known;
  std::error_code error;
  for (std::filesystem::directory_iterator process(proc, error), end; !error && process != end;
       process.increment(error)) {
    const std::string number = process->path().filename();
    if (number.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::uint64_t bytes = promised_to(process->path(), file_name, known);
    if (bytes == 0) continue;
    const std::vector<Group> groups = groups_of(process->path());
    for (std::size_t i = 0; i < limits.size(); ++i) {
      if (concerns(limits[i], groups)) promised[i] += bytes;
    }
  }
  PromisedMemory least;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    // Signed: what is left may be negative.
    const auto left = [](std::uint64_t free, std::uint64_t taken) {
      return static_cast<std::int64_t>(std::min<std::uint64_t>(free, INT64_MAX)) -
             static_cast<std::int64_t>(taken);
    };
    if (left(limits[i].free.bytes, promised[i]) < left(least.free.bytes, least.promised_bytes))
      least = {limits[i].free, promised[i]};
  }
  return least;
}

bool overcommit_forbidden(const std::string& proc) {
  return read_number(proc + "/sys/vm/overcommit_memory") == 2U;
}

}  // namespace verbena::transport::shm
