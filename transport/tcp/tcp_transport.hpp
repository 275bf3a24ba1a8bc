// The transport over TCP: between any hosts, without a device.
//
// Addresses are "tcp:HOST:PORT"; HOST is a name or an address (IPv6 in brackets). For listen() HOST may be
// empty, which means this host alone (127.0.0.1), and PORT may be 0, which means any that is free;
// listening_address() then says which. "tcp:0.0.0.0:PORT" listens at all addresses of the host.
//
// Reads are answered and writes placed by the owner's thread while it polls or waits, and by a thread of the
// transport's own while it does not (io_thread.hpp). No memory is mapped, also between processes of one host.
//
// The transport accepts a peer that has the secret given in the transport's options; if there is none, any
// peer (introduction.hpp). What follows is neither encrypted nor signed, unless `tls` is set (tls.hpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/secret.hpp"
#include "transport/transport.hpp"

namespace verbena::transport {

struct TcpOptions {
  /// What a peer must prove to have. nullptr: nothing; any peer that reaches the listener is accepted.
  std::shared_ptr<const Secret> secret = nullptr;

  /// What travels between two processes that have met is encrypted, and what was changed on the way ends the
  /// connection. The same at both ends. It needs a secret.
  bool tls = false;

  /// The longest time that wait() may look for work before it blocks; it adapts the time up to this bound.
  /// Longer: a peer that answers within it costs no system call to sleep. Shorter: less processor taken from
  /// others. Not used if this process has a single processor.
  std::chrono::microseconds spin{20};

  /// How many requests of each connection may be posted and not completed. More: a longer burst before
  /// post() takes fewer; some 100 bytes each.
  std::uint32_t send_depth = 4096;

  /// How many notifications and messages a peer may have under way that this side has not polled; from 2 to
  /// 2^20. More: a longer burst before its post() takes fewer; a message takes its own size.
  std::uint32_t receive_depth = 1024;

  /// The longest message, in bytes, from 64 to 1 MiB. Equal at both ends of a connection.
  std::uint32_t max_message_bytes = 4096;

  /// Over how many streams what is long of a connection may travel, from 1 to kMostStreams; 0: 1 within a
  /// host; 4 between hosts, once there has been much of it. More: more than one flow may carry, where the
  /// network limits each or loses of it. Fewer: fewer sockets. The smaller number of the two ends counts.
  std::uint32_t streams = 0;

  /// From how many bytes on a payload is long, at least 16. Pieces have up to four times as many.
  std::uint32_t long_bytes = std::uint32_t{32} << 10U;

  /// A peer's host that has acknowledged nothing for so long counts as gone; a connection that has been
  /// silent for a quarter of this time is tested. Shorter: noticed sooner. Longer: survives longer losses of
  /// the network. A process that is merely stopped is not gone: its kernel acknowledges.
  std::chrono::milliseconds peer_timeout{5000};

  /// How long closing a connection waits until the kernel has what was posted, and then for the peer to
  /// have received it.
  std::chrono::milliseconds linger{500};
};

/// INVALID_ARGUMENT for impossible options; RESOURCE_EXHAUSTED or another error from the system.
absl::StatusOr<std::unique_ptr<Transport>> make_tcp_transport(const TcpOptions& options = {});

struct Backend;

namespace tcp {
/// The backend that transport/backends.hpp lists.
Backend backend();
}  // namespace tcp

}  // namespace verbena::transport
