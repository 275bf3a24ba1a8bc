// What the system's and the device's errors say to a user.
#pragma once

#include <infiniband/verbs.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "transport/transport.hpp"

namespace verbena::transport::verbs {

/// "`what`: ENOMEM (Cannot allocate memory)".
std::string errno_text(int error, std::string_view what);
/// The same under the code that fits.
absl::Status errno_status(int error, std::string_view what);

/// How an operation ended that the device completed with `status`.
OperationResult result_of(ibv_wc_status status);

/// The reason of a connection that ended by it, for its status: what happened and what may be done.
absl::Status status_of(ibv_wc_status status, std::string_view peer);

}  // namespace verbena::transport::verbs
