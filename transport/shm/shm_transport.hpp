// The transport of one host: regions are memory files that peers map, notifications and messages go through
// a ring in shared memory, a futex wakes a sleeping peer.
//
// Addresses are "shm:NAME"; NAME is any text that the job chooses, the same for all its processes and unlike
// any other job's. Processes of one user and one network namespace meet there, if they have the same secret
// or none; others are refused before they are given anything. Nothing is ever created in a file system.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "transport/secret.hpp"
#include "transport/transport.hpp"

namespace verbena::transport {

struct ShmOptions {
  /// What a peer must prove to have. nullptr: nothing but that it is a process of the same user, as the
  /// kernel says.
  std::shared_ptr<const Secret> secret = nullptr;

  /// How long wait() may look for work before it yields its processor once and then blocks, at most; it
  /// adapts itself below that. Longer: a peer that answers within it costs no system call. Shorter: less
  /// processor taken from others. Not used where this process has a single processor.
  std::chrono::microseconds spin{20};

  /// How often connecting peers and peers that died are looked for, busy or asleep. Shorter: noticed sooner.
  /// Longer: fewer wake-ups of an idle process (one system call or two each).
  std::chrono::milliseconds socket_check_interval{10};

  /// How long connect() waits for a listener that is there but has not answered; the connection then goes on
  /// establishing itself in poll(), and what is posted meanwhile goes when it is established.
  std::chrono::milliseconds answer_patience{200};

  /// Notifications and messages, not yet polled by the peer, that a connection holds in each direction; a
  /// power of two, at most 2^20. More: a longer burst before post() takes fewer; 8 bytes each.
  /// Equal at both ends of a connection.
  std::uint32_t event_capacity = 1024;

  /// Messages among them; each holds max_message_bytes. Equal at both ends of a connection.
  std::uint32_t message_capacity = 64;

  /// The longest message, in bytes, at most 1 MiB. Equal at both ends of a connection.
  std::uint32_t max_message_bytes = 4096;

  /// Completions of a connection that were not polled yet; post() takes fewer beyond. 24 bytes each.
  std::uint32_t completion_capacity = 4096;

  /// Refuse a region that the host's or the control group's free memory cannot hold, instead of the kernel's
  /// killing a process when it is filled. What processes of this user have been promised in regions and have
  /// not touched yet counts as taken. Off: for those who know better, such as with swap space to use.
  bool check_free_memory = true;
};

/// INVALID_ARGUMENT for impossible options; RESOURCE_EXHAUSTED or another error of the system's.
absl::StatusOr<std::unique_ptr<Transport>> make_shm_transport(const ShmOptions& options = {});

struct Backend;

namespace shm {
/// As transport/backends.hpp lists it.
Backend backend();
}  // namespace shm

}  // namespace verbena::transport
