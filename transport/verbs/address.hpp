// "verbs:HOST:PORT"
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "transport/host_port.hpp"

namespace verbena::transport::verbs {

using Address = HostPort;

absl::StatusOr<Address> parse_address(const std::string& text);
std::string text_of(const Address& address);

}  // namespace verbena::transport::verbs
