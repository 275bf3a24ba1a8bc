#include "base/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

namespace verbena::base {

namespace fs = std::filesystem;

std::uint32_t cores_to_run_on() {
  cpu_set_t cores;
  return ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? static_cast<std::uint32_t>(CPU_COUNT(&cores))
                                                           : 0;
}

fs::path control_group(const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  constexpr std::string_view kPrefix = "0::/";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kPrefix)) return root / "sys/fs/cgroup" / line.substr(kPrefix.size());
  }
  return root / "sys/fs/cgroup";
}

std::optional<double> core_quota(const fs::path& root) {
  std::optional<double> least;
  const fs::path top = root / "sys/fs/cgroup";
  for (fs::path group = control_group(root);; group = group.parent_path()) {
    double quota_us = 0;
    double period_us = 0;
    // "max 100000" means no quota.
    if (std::ifstream file(group / "cpu.max"); file >> quota_us >> period_us && period_us > 0) {
      const double cores = quota_us / period_us;
      least = least ? std::min(*least, cores) : cores;
    }
    if (group == top || group.parent_path() == group) return least;
  }
}

std::uint32_t cores_at_hand(const fs::path& root) {
  std::uint32_t cores = cores_to_run_on();
  if (cores == 0) cores = std::thread::hardware_concurrency();  // the mask is longer than the kernel's usual
  const std::optional<double> quota = core_quota(root);
  if (quota && *quota < cores) cores = static_cast<std::uint32_t>(*quota);
  return std::max(cores, 1U);
}

}  // namespace verbena::base
