// A job's secret on its way to the processes of the job: the first bytes on a socket that a process inherits,
// or a value of the rendezvous, and nowhere else, not on a command line or in the environment, which others
// can read.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/rendezvous.hpp"
#include "transport/secret.hpp"

namespace verbena::job {

/// To an empty socket, which has room for it: does not wait.
absl::Status hand_over(const transport::Secret& secret, int descriptor);

/// UNAVAILABLE when the other end closes before it, and where it does not come: another has taken it.
absl::StatusOr<std::shared_ptr<const transport::Secret>> take_over_secret(int descriptor);

/// Of one process, for all; before a fence.
absl::Status put_secret(Rendezvous& rendezvous);
/// What rank 0 had put.
absl::StatusOr<std::shared_ptr<const transport::Secret>> get_secret(Rendezvous& rendezvous);

}  // namespace verbena::job
