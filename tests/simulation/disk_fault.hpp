// What goes wrong with the disk of a simulated job.
#pragma once

#include <cstdint>

namespace verbena::simulation {

struct DiskFault {
  enum class What : std::uint8_t {
    kFails,      ///< the operation fails
    kIsFull,     ///< there is no room: `length` operations that need some fail
    kUserDies,   ///< the process that has asked for the operation dies; half of a write has happened
    kPowerFails  ///< for all processes: what is on the disk is what may be found after that
  };
  What what = What::kFails;
  std::uint64_t operation = 0;  ///< that changes the disk, counted from the beginning of the job
  std::uint64_t length = 1;
};

}  // namespace verbena::simulation
