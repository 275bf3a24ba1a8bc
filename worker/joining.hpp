// How a worker and a server come to know each other: what the worker says first, and what it takes from the
// server's welcome (docs/protocol.md).
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protocol/messages.hpp"
#include "transport/heartbeat.hpp"
#include "transport/transport.hpp"
#include "worker/lead.hpp"
#include "worker/local_memory.hpp"
#include "worker/server_link.hpp"
#include <verbena/session.hpp>

namespace verbena::worker {

/// The parts of a session that all its links use.
struct Ground {
  transport::Transport& transport;
  LocalMemory& memory;
  transport::Heartbeat& heartbeat;
  Lead& lead;
  const SessionOptions& options;
  std::uint32_t node = 0;           ///< of this worker
  std::uint64_t configuration = 1;  ///< its number
  consistency::Clock clock = 0;     ///< of this worker
};

/// Gives a connected link its rings and the rest of what it needs on this side. RESOURCE_EXHAUSTED: memory is
/// short.
absl::StatusOr<protocol::Hello> prepare_hello(ServerLink& link, const Ground& ground);

/// INVALID_ARGUMENT: the welcome breaks the rules.
absl::Status take_welcome(ServerLink& link, const protocol::Welcome& welcome, const Ground& ground);

}  // namespace verbena::worker
