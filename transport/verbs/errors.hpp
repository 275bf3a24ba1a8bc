// Texts and codes for errors of the system and of the device.
#pragma once

#include <infiniband/verbs.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "transport/transport.hpp"

namespace verbena::transport::verbs {

/// "`what`: ENOMEM (Cannot allocate memory)".
std::string errno_text(int error, std::string_view what);
/// The same text in a status with the code that fits.
absl::Status errno_status(int error, std::string_view what);

/// The result of an operation that the device completed with `status`.
OperationResult result_of(ibv_wc_status status);

/// The status of a connection that failed with `status`: what happened and what the user can do.
absl::Status status_of(ibv_wc_status status, std::string_view peer);

}  // namespace verbena::transport::verbs
