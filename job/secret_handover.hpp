// How a job's secret gets to the processes of the job: as the first bytes on a socket that a process
// inherits, or as a value of the rendezvous, unless all have it who can come there. It is nowhere else, not
// on a command line or in the environment, because others can read these.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/rendezvous.hpp"
#include "transport/secret.hpp"

namespace verbena::job {

/// Writes the secret to an empty socket. The socket has room for it, so this does not wait.
absl::Status hand_over(const transport::Secret& secret, int descriptor);

/// UNAVAILABLE if the other end closes before the secret comes, or if it does not come because another
/// process has taken it.
absl::StatusOr<std::shared_ptr<const transport::Secret>> take_over_secret(int descriptor);

/// Rank 0 calls it, for all; before a fence. A fresh one, if the processes have none in common yet.
absl::Status put_secret(Rendezvous& rendezvous);
/// What rank 0 had put, or what they have in common.
absl::StatusOr<std::shared_ptr<const transport::Secret>> get_secret(Rendezvous& rendezvous);

}  // namespace verbena::job
