#include "transport/host_port.hpp"

#include <fmt/format.h>

#include <charconv>

namespace verbena::transport {

absl::StatusOr<HostPort> parse_host_port(std::string_view text) {
  const absl::Status refused =
      absl::InvalidArgumentError(fmt::format("HOST:PORT is expected, not \"{}\"", text));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refused;
  HostPort place;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, place.port);
  if (error != std::errc() || rest != end) return refused;
  place.host = text.substr(0, colon);
  const bool bracketed = place.host.starts_with('[') && place.host.ends_with(']');
  if (!bracketed && place.host.find(':') != std::string::npos) return refused;
  if (bracketed) place.host = place.host.substr(1, place.host.size() - 2);
  if (place.host.find_first_of("[]") != std::string::npos) return refused;
  return place;
}

std::string to_string(const HostPort& place) {
  const bool brackets = place.host.find(':') != std::string::npos;
  return fmt::format("{}{}{}:{}", brackets ? "[" : "", place.host, brackets ? "]" : "", place.port);
}

}  // namespace verbena::transport
