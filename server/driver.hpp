// Threads for a server. How many is decided by the cores at hand; the server's parts do not know.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "server/server.hpp"
#include "transport/transport.hpp"

namespace verbena::server {

struct DriverOptions {
  /// 1: one thread drives everything, best where workers need the cores. n: one receives and sends, n − 1
  /// drive lanes.
  std::uint32_t threads = 1;
  /// After the job has failed: how long to wait for the workers to hear of it.
  std::uint32_t linger_ms = 2000;
};

/// Drives the server in this thread and threads of its own until all workers have left, the job has failed,
/// or *stop. Whoever sets *stop calls transport.interrupt(). Returns Server::status(), CANCELLED after a
/// stop.
absl::Status drive(Server& server, transport::Transport& transport, const DriverOptions& options,
                   const std::atomic<bool>& stop);

}  // namespace verbena::server
