// "verbs:HOST:PORT"
#pragma once

#include <sys/socket.h>

#include <string>

#include "absl/status/statusor.h"
#include "transport/host_port.hpp"

namespace verbena::transport::verbs {

using Address = HostPort;

absl::StatusOr<Address> parse_address(const std::string& text);
std::string to_string(const Address& address);

/// The first address of the host; for an empty host, the address that means any.
absl::StatusOr<sockaddr_storage> resolve(const Address& address);

/// The address as text, without its port.
std::string host_of(const sockaddr& address);
bool is_loopback(const sockaddr& address);

}  // namespace verbena::transport::verbs
