// A server of a job, in a process of the user's own. `verbena server` is the same as a program.
//
//   std::atomic<bool> stop = false;   // a signal handler may set it
//   const absl::Status status = verbena::run_server({.address = "shm:hello/server-0", .workers = 2}, stop);
//
// A job is a fixed set of servers and workers, known by their ranks. Each server has its part of each table;
// workers open the tables (<verbena/session.hpp>).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include <verbena/network.hpp>

namespace verbena {

struct ServerOptions {
  // --- behaviour
  std::string address;        ///< where workers connect: "shm:NAME", "verbs:HOST:PORT", "verbs::PORT"
  std::uint32_t rank = 0;     ///< this server, 0 ≤ rank < servers
  std::uint32_t servers = 1;  ///< of the job
  std::uint32_t workers = 1;  ///< of the job
  /// What happens to the job when a worker dies. False: it fails, on all sides. True: where all tables are
  /// dynamic, so that no clock waits for it, it is let go as if it had said goodbye, and the others go on
  /// without it, barriers included; rows that it was moving, or was changing in place, may be lost: whoever
  /// wants one of them is told DATA_LOSS, and all other rows stay usable. To be set alike on all servers. For
  /// applications that can do without a worker.
  bool outlives_workers = false;
  /// A worker whose process has shown no sign of life for so long (stopped, or its host hangs) fails the job,
  /// also one that outlives workers: what is stopped may go on later, and write into rows that others were
  /// given meanwhile. At least 2000; 0: never. Shorter: noticed sooner. Longer: survives longer pauses of a
  /// host, as of a virtual machine that moves. Computing is no silence.
  std::uint32_t silence_timeout_ms = 5000;
  NetworkOptions network = {};
  // --- performance
  /// 1: one thread does everything, best where workers need the cores. n: one receives and sends, n − 1 apply
  /// updates.
  std::uint32_t threads = 1;
  /// Parts of each shard that are applied independently; more than threads is a waste. 0: one for each thread
  /// that applies updates.
  std::uint32_t lanes = 0;
  /// What may be pushed eagerly to each worker before its bound on staleness needs it, in megabytes (10⁶
  /// bytes) a second: managed communication. What is left of it goes to rows that have changed within a
  /// clock. The most important rows go first. 0: no bound, and nothing is pushed within a clock.
  double push_budget_mb_per_s = 0;
};

/// Serves in this thread, and threads of its own, until all workers have left (OK), the job has failed (why),
/// or `stop` (CANCELLED, within some 0.1 s). INVALID_ARGUMENT for impossible options; ALREADY_EXISTS where
/// somebody else listens; UNAVAILABLE, RESOURCE_EXHAUSTED: what the host lacks. A process may run several, in
/// a thread each.
absl::Status run_server(const ServerOptions& options, const std::atomic<bool>& stop);

}  // namespace verbena
