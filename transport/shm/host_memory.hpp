// How much memory this process can still get, and how much of that has been promised to it and to others.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::transport::shm {

struct FreeMemory {
  std::uint64_t bytes = UINT64_MAX;
  std::string limit = "nothing known";  ///< what sets this bound, for an error message
};

/// The smallest amount that the host and each control group above this process can still give. A value that
/// the system does not report sets no limit. The roots differ in tests only.
FreeMemory free_memory(const std::string& proc = "/proc", const std::string& cgroups = "/sys/fs/cgroup");

/// What is free, and how much of that is promised: bytes of memory files of this name that processes of this
/// user hold and that nobody has touched yet, so that the system counts them as free. For each limit, only
/// processes under the same limit count; the result is for the limit that leaves least. Looks at every
/// process: some milliseconds if there are hundreds.
struct PromisedMemory {
  FreeMemory free;
  std::uint64_t promised_bytes = 0;
};
PromisedMemory promised_memory(const std::string& file_name, const std::string& proc = "/proc",
                               const std::string& cgroups = "/sys/fs/cgroup");

/// Does the host refuse to promise memory that it does not have (vm.overcommit_memory = 2)?
bool overcommit_forbidden(const std::string& proc = "/proc");

}  // namespace verbena::transport::shm
