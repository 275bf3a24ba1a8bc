// Programs that start many processes, and tell each in variables which of how many it is.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "job/environment.hpp"

namespace verbena::job {

struct StartedAs {
  std::optional<std::uint32_t> rank;  ///< nullopt: that is not said
  std::uint32_t processes = 1;        ///< more than one
};
/// As what torchrun, srun, mpiexec or the like has started this process. nullopt: as the only one, or none of
/// them has.
std::optional<StartedAs> started_as(const Environment& variable = own_environment);

/// INVALID_ARGUMENT, with what to do, if one of them has started several processes that cannot find each
/// other, so that each would be a job of its own.
absl::Status check_started_apart(const Environment& variable = own_environment);
/// INVALID_ARGUMENT if several processes of a command were started that must be one process.
absl::Status check_started_once(const Environment& variable = own_environment);

}  // namespace verbena::job
