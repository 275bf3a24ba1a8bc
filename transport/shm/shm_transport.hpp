// The transport of one host: regions are memory files that peers map; notifications and messages go through a
// ring in shared memory; a futex wakes a sleeping peer.
//
// Addresses are "shm:NAME"; NAME is any text that the job chooses: the same for all its processes, and
// different from the NAME of any other job. Processes of one user and one network namespace meet there, if
// they have the same secret or none; other processes are refused before they get anything. Nothing is ever
// created in a file system.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/secret.hpp"
#include "transport/transport.hpp"

namespace verbena::transport {

struct ShmOptions {
  /// What a peer must prove to have. nullptr: it only needs to be a process of the same user, which the
  /// kernel reports.
  std::shared_ptr<const Secret> secret = nullptr;

  /// The longest time that wait() may look for work before it yields its processor once and then blocks; it
  /// adapts the time up to this bound. Longer: a peer that answers within it costs no system call. Shorter:
  /// less processor taken from others. Not used if this process has a single processor.
  std::chrono::microseconds spin{20};

  /// How often the transport looks for connecting peers and for peers that died, whether it is busy or
  /// asleep. Shorter: noticed sooner. Longer: fewer wake-ups of an idle process (one system call or two
  /// each).
  std::chrono::milliseconds socket_check_interval{10};

  /// How long connect() waits for a listener that is there but has not answered; the connection then goes on
  /// establishing itself in poll(), and requests that are posted in the meantime are carried out when it is
  /// established.
  std::chrono::milliseconds answer_patience{200};

  /// Notifications and messages, not yet polled by the peer, that a connection holds in each direction; a
  /// power of two, at most 2^20. More: a longer burst before post() takes fewer; 8 bytes each.
  /// Equal at both ends of a connection.
  std::uint32_t event_capacity = 1024;

  /// How many of these may be messages; each takes max_message_bytes. Equal at both ends of a connection.
  std::uint32_t message_capacity = 64;

  /// The longest message, in bytes, at most 1 MiB. Equal at both ends of a connection.
  std::uint32_t max_message_bytes = 4096;

  /// How many completions of a connection may wait to be polled; beyond that post() takes fewer. 24 bytes
  /// each.
  std::uint32_t completion_capacity = 4096;

  /// Refuse a region that does not fit into the free memory of the host or of the control group; without this
  /// check the kernel would kill a process when the region is filled. Memory that processes of this user have
  /// been promised in regions and have not touched yet counts as taken. Off: for users who know better, for
  /// example who have swap space to use.
  bool check_free_memory = true;
};

/// INVALID_ARGUMENT for impossible options; RESOURCE_EXHAUSTED or another error from the system.
absl::StatusOr<std::unique_ptr<Transport>> make_shm_transport(const ShmOptions& options = {});

struct Backend;

namespace shm {
/// The backend that transport/backends.hpp lists.
Backend backend();
}  // namespace shm

}  // namespace verbena::transport
