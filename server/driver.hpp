// Threads for a server. The server's parts do not know about them.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "server/server.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

/// What becomes of workers after a stop.
enum class AtStop : std::uint8_t {
  kTell,  ///< they are told, if they would look for this server for a while
  kEnd,   ///< none is told, as after a crash
};

/// Drives the server in this thread and threads of its own (ServerOptions::threads) until all workers have
/// left, the job has failed and they have heard of it, or `stop` is true. The thread that sets `stop` calls
/// transport.interrupt(), or has to wait for a moment. Returns Server::status(), CANCELLED after a stop.
absl::Status drive(Server& server, transport::Transport& transport, const std::atomic<bool>& stop,
                   AtStop at_stop = AtStop::kTell);

}  // namespace verbena::server
