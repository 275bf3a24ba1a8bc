// How a connection is asked for.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/tcp/channel.hpp"
#include "transport/tcp/introduction.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace verbena::transport::tcp {

struct Met {
  Channel channel;
  Challenge listener;  ///< what it has said
  sockaddr_storage place;
};

/// Connects to the listener at one of `places`, which it tries by turns, and introduces itself. Tries again
/// until `deadline` while nobody listens there; DEADLINE_EXCEEDED then names `address`. PERMISSION_DENIED and
/// FAILED_PRECONDITION: who listens there is not of this job. `tls`: nullptr if nothing is to be encrypted.
/// For the owner's thread; blocks it.
absl::StatusOr<Met> meet_listener(const std::string& address, const std::vector<sockaddr_storage>& places,
                                  TimePoint deadline, const TcpOptions& options, const TlsContext* tls);

}  // namespace verbena::transport::tcp
