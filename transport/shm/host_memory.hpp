// How much memory this process can still have, and what it and others have been promised of it.
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

/// What is free, and how much of that is promised: bytes of memory files of this name that processes of this
/// user hold and that nobody has touched yet, so that the system counts them as free. Of each limit those
/// count that it limits, too; the limit is the one that leaves least. Takes a look at every process: some
/// milliseconds where there are hundreds.
struct PromisedMemory {
  FreeMemory free;
  std::uint64_t promised_bytes = 0;
};
PromisedMemory promised_memory(const std::string& file_name, const std::string& proc = "/proc",
                               const std::string& cgroups = "/sys/fs/cgroup");

/// Does the host refuse to promise memory that it has not got (vm.overcommit_memory = 2)?
bool overcommit_forbidden(const std::string& proc = "/proc");

}  // namespace verbena::transport::shm
