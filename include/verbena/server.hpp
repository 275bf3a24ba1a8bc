// Runs a server of a job in a process of the user. `verbena server` is a program that does the same.
//
//   std::atomic<bool> stop = false;   // a signal handler may set it
//   const absl::Status status = verbena::run_server({.address = "shm:hello/server-0", .workers = 2}, stop);
//
// A job is a fixed set of servers and workers, known by their ranks. Each server has its part of each table;
// workers open the tables (<verbena/session.hpp>).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include <verbena/network.hpp>

namespace verbena {

namespace cluster {
class ConfigurationSource;
}  // namespace cluster

struct ServerOptions {
  // --- behaviour
  std::string address;        ///< where workers connect: "shm:NAME", "verbs:HOST:PORT", "verbs::PORT"
  std::uint32_t rank = 0;     ///< this server, 0 ≤ rank < servers
  std::uint32_t servers = 1;  ///< of the job
  std::uint32_t workers = 1;  ///< of the job
  /// What happens to the job when a worker dies. False: the job fails, in all its processes. True, if all
  /// tables are dynamic, so that no clock waits for the worker: it is treated as if it had said goodbye, and
  /// the others go on without it, barriers included. Rows that it was moving or changing in place may be
  /// lost: calls that need one of them return DATA_LOSS, and all other rows stay usable. Must be the same on
  /// all servers. For applications that can do without a worker.
  bool outlives_workers = false;
  /// With `outlives_workers`: each server sends images of the rows of dynamic tables that lie on its node,
  /// and have changed since the last time, to another server, so many milliseconds after it has begun to do
  /// so the last time. When a node dies, its rows come back from there when they are wanted, at most that old
  /// (and the time that a look at all rows of the node takes). So updates of the last milliseconds may be
  /// missing in them, also those that were acknowledged: `sequential` does not hold for them at that moment.
  /// A row that had come to the node within that time is lost, as without images: DATA_LOSS. 0: no images,
  /// which costs nothing; all rows of a dead node are lost. Must be the same on all servers, or 0 on all.
  /// Costs memory for one more copy of each row, and a look at each row of a node each time.
  std::uint32_t backup_every_ms = 0;
  /// A worker that dies is waited for: the program that has started it starts another process that takes its
  /// place (SessionOptions::incarnation), and the job goes on. Only for jobs with static tables; once there
  /// is a dynamic one, the job fails as usual. Must be the same on all servers. For programs that see to it
  /// that there is such a process, or end the servers: these wait for it without bound.
  bool replaces_workers = false;
  /// If a worker's process shows no sign of life for this long (it is stopped, or its host hangs), the job
  /// fails, even if it outlives workers: a stopped process may go on later and write into rows that other
  /// workers were given meanwhile. At least 2000; 0: never. A shorter time notices this sooner. A longer time
  /// survives longer pauses of a host, for example while a virtual machine is migrated. Computing does not
  /// count as silence. Over tcp and verbs it is also how long the server waits for a worker whose connection
  /// has broken; with 0, 5 s. Not with a dynamic table: then the job fails at once.
  std::uint32_t silence_timeout_ms = 5000;
  NetworkOptions network = {};
  /// For this project's own programs: where to learn which copies each server has. Then `address` is that of
  /// this copy, as configurations name it. nullptr: each server has one copy.
  std::shared_ptr<cluster::ConfigurationSource> configuration = nullptr;
  /// This copy joins a job that runs, and has nothing yet. REQUIRES: `configuration`
  bool joins = false;
  // --- performance
  /// 1: one thread does everything, which is best if workers need the cores. n: one thread receives and
  /// sends, n − 1 threads apply updates.
  std::uint32_t threads = 1;
  /// How many parts each shard has; updates are applied to them independently. More parts than threads are a
  /// waste. 0: one for each thread that applies updates.
  std::uint32_t lanes = 0;
  /// How much may be pushed eagerly to each worker before the worker's bound on staleness needs it, in
  /// megabytes (10⁶ bytes) per second: managed communication. The rest of this budget goes to rows that have
  /// changed within a clock. The most important rows go first. 0: no limit, and nothing is pushed within a
  /// clock.
  double push_budget_mb_per_s = 0;
};

/// Serves in this thread and in threads of its own until all workers have left (returns OK), the job has
/// failed (returns why), or `stop` is true (returns CANCELLED, within about 0.1 s). INVALID_ARGUMENT for
/// impossible options; ALREADY_EXISTS if somebody else listens at the address; UNAVAILABLE or
/// RESOURCE_EXHAUSTED if the host lacks something. A process may run several servers, each in a thread of its
/// own.
absl::Status run_server(const ServerOptions& options, const std::atomic<bool>& stop);

}  // namespace verbena
