// How much memory this process can still have.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::transport::shm {

struct FreeMemory {
  std::uint64_t bytes = UINT64_MAX;
  std::string limit = "nothing known";  ///< what sets it, for an error message
};

/// The least of what the host and each control group above this process has to give. What the system does not
/// tell sets no limit. The roots differ in tests only.
FreeMemory free_memory(const std::string& proc = "/proc", const std::string& cgroups = "/sys/fs/cgroup");

/// Does the host refuse to promise memory that it has not got (vm.overcommit_memory = 2)?
bool overcommit_forbidden(const std::string& proc = "/proc");

}  // namespace verbena::transport::shm
