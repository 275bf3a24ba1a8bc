// "HOST:PORT"
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace verbena::transport {

struct HostPort {
  std::string host;  ///< may be empty; IPv6 addresses without brackets
  std::uint16_t port = 0;
};

/// An IPv6 address must be in brackets. INVALID_ARGUMENT if `text` is not of that form.
absl::StatusOr<HostPort> parse_host_port(std::string_view text);
std::string to_string(const HostPort& place);

}  // namespace verbena::transport
