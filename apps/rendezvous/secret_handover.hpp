// A job's secret on its way from who starts a process to that process: the first bytes on a socket that it
// inherits, and nowhere else, not on a command line or in the environment, which others can read.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/secret.hpp"

namespace verbena::apps {

/// To an empty socket, which has room for it: does not wait.
absl::Status hand_over(const transport::Secret& secret, int descriptor);

/// Waits for it; UNAVAILABLE when the other end closes before.
absl::StatusOr<std::shared_ptr<const transport::Secret>> take_over_secret(int descriptor);

}  // namespace verbena::apps
