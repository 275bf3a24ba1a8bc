// `verbena run` in a process that something else has started together with others (job/peers.hpp): it becomes
// the server or worker of its rank (job/address_exchange.hpp has the mapping). Rank 0 shows the progress and
// writes the outputs, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/launcher/outlet.hpp"
#include "apps/launcher/process_jobs.hpp"
#include "apps/launcher/roles.hpp"
#include "apps/launcher/run_outputs.hpp"
#include "apps/launcher/stop_signals.hpp"
#include "job/rendezvous.hpp"

namespace verbena::apps {

/// Decides how many of the `size` processes are servers and how many are workers, as far as the command line
/// leaves it open: half of them (at least one) become servers, and the copies of servers. INVALID_ARGUMENT if
/// the numbers do not add up, or such processes cannot do what is asked for.
absl::Status share_out(std::uint32_t size, RunOptions& run);

/// The server of the worker process with rank `rank` among all processes. The servers have the first ranks,
/// then there may be copies of servers; workers begin with rank `first_worker`. The workers of a host,
/// hosts[rank], take the servers of that host in turn. nullopt: its host has no server. REQUIRES: rank ≥
/// first_worker ≥ servers.
std::optional<std::uint32_t> own_server(std::span<const std::string> hosts, std::uint32_t servers,
                                        std::uint32_t first_worker, std::uint32_t rank);

struct ClusterOptions {
  job::PeerRendezvous& rendezvous;
  StopSignals& signals;
  /// What a process with the role of a worker does; the arguments outlive the jobs.
  std::function<ProcessJobs(const Role& role, Outlet& outlet, const std::atomic<bool>& stop)> worker_jobs;
};

/// Returns the exit status. May not return: a thread that cannot be stopped is left behind. `application`: as
/// the outputs see it.
int run_in_cluster(RunOptions run, Application& application, const ApplicationOptions& options,
                   const ClusterOptions& cluster);

}  // namespace verbena::apps
