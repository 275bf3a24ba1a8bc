// Who starts many processes and does not let them find each other.
#pragma once

#include "absl/status/status.h"
#include "job/environment.hpp"

namespace verbena::job {

/// INVALID_ARGUMENT, with what to do, where srun, mpiexec or the like has started several processes that
/// cannot find each other, so that each would be a job of its own.
absl::Status check_started_apart(const Environment& variable = own_environment);
/// INVALID_ARGUMENT where several processes were started of a command that is to be one.
absl::Status check_started_once(const Environment& variable = own_environment);

}  // namespace verbena::job
