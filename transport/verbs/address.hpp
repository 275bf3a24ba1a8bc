// "verbs:HOST:PORT"
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace verbena::transport::verbs {

struct Address {
  std::string host;  ///< may be empty; IPv6 addresses without brackets
  std::uint16_t port = 0;
};

absl::StatusOr<Address> parse_address(const std::string& text);
std::string to_string(const Address& address);

/// The host's first address; of an empty host the one that means any.
absl::StatusOr<sockaddr_storage> resolve(const Address& address);

/// Without its port.
std::string host_of(const sockaddr& address);
bool is_loopback(const sockaddr& address);

}  // namespace verbena::transport::verbs
