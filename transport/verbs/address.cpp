#include "transport/verbs/address.hpp"

#include <fmt/format.h>

#include <string_view>

namespace verbena::transport::verbs {

namespace {

constexpr std::string_view kPrefix = "verbs:";

}  // namespace

absl::StatusOr<Address> parse_address(const std::string& text) {
  if (text.starts_with(kPrefix)) {
    absl::StatusOr<Address> address = parse_host_port(std::string_view(text).substr(kPrefix.size()));
    if (address.ok()) return address;
  }
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is no address of this transport; expected verbs:HOST:PORT", text));
}

std::string text_of(const Address& address) {
  return fmt::format("{}{}", kPrefix, transport::to_string(address));
}

}  // namespace verbena::transport::verbs
