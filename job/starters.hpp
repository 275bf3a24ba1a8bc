// Programs that start many processes and do not let them find each other.
#pragma once

#include "absl/status/status.h"
#include "job/environment.hpp"

namespace verbena::job {

/// INVALID_ARGUMENT, with what to do, if srun, mpiexec or the like has started several processes that cannot
/// find each other, so that each would be a job of its own.
absl::Status check_started_apart(const Environment& variable = own_environment);
/// INVALID_ARGUMENT if several processes of a command were started that must be one process.
absl::Status check_started_once(const Environment& variable = own_environment);

}  // namespace verbena::job
