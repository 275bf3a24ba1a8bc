// Where the store of a host is found.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"

namespace verbena::cluster {

// Stream sockets with names that are in no file system, and disappear with the process. A name is that of
// this user, in this network namespace. INVALID_ARGUMENT: it is empty or too long.

/// ALREADY_EXISTS: another process listens there.
absl::StatusOr<base::FileDescriptor> listen_at_name(const std::string& name);
/// Whether a process of this user is at the other end: names protect nothing.
bool is_of_this_user(const base::FileDescriptor& accepted);
/// Does not wait. UNAVAILABLE: nobody listens there, or too many are waiting.
absl::StatusOr<base::FileDescriptor> connect_to_name(const std::string& name);

}  // namespace verbena::cluster
