// Addresses of hosts as the system's sockets have them.
#pragma once

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/host_port.hpp"

namespace verbena::transport {

/// The addresses of the host, at least one; for an empty host, the IPv4 address that means any. NOT_FOUND,
/// with `address` as the user knows it, if the system knows no such host.
absl::StatusOr<std::vector<sockaddr_storage>> resolve_all(const HostPort& place, std::string_view address);
/// The first of them.
absl::StatusOr<sockaddr_storage> resolve(const HostPort& place, std::string_view address);

/// The address as text, without its port.
std::string host_of(const sockaddr& address);
bool is_loopback(const sockaddr& address);
/// Whether sockets of this host can have it.
bool is_of_this_host(const sockaddr_storage& address);

/// The address of this host from which it sends to that one, as text. Empty: there is no way there, or none
/// that leaves this host.
std::string own_address_towards(const sockaddr_storage& place);
/// An address under which other hosts know this one, as text: of the interface that the default route leads
/// through; without such a route, of the first interface that is up. NOT_FOUND if there is none.
absl::StatusOr<std::string> own_address();

}  // namespace verbena::transport
