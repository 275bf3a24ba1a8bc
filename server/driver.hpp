// Threads for a server, of which its parts do not know.
#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "server/server.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

/// Drives the server in this thread and threads of its own (ServerOptions::threads) until all workers have
/// left, the job has failed and they have heard of it, or `stop`. Whoever sets that calls
/// transport.interrupt(), or has to wait for a moment. Returns Server::status(), CANCELLED after a stop.
absl::Status drive(Server& server, transport::Transport& transport, const std::atomic<bool>& stop);

}  // namespace verbena::server
