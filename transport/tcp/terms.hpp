// What the two ends of a connection know when they have met.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "transport/backends.hpp"
#include "transport/tcp/introduction.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace verbena::transport::tcp {

struct Terms {
  std::uint32_t credits = 1;  ///< those that the peer gives
  ConnectionId id{};
  std::string peer;  ///< for people
  // Of a connector:
  std::uint32_t most_streams = 1;                           ///< that the listener takes
  std::optional<sockaddr_storage> listener = std::nullopt;  ///< nullopt: this end is the listener
};

/// Over how many the bulk of a connection travels at most, for a listener with these options.
inline std::uint32_t most_streams(const TcpOptions& options) {
  return options.streams == 0 ? kMostStreams : options.streams;
}

}  // namespace verbena::transport::tcp
