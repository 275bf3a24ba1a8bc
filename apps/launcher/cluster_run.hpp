// `verbena run` in a process that mpirun or srun has started: it becomes the server or worker of its rank
// (job/address_exchange.hpp has the mapping). Rank 0 shows the progress and writes the outputs, too.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/launcher/run_outputs.hpp"
#include "apps/launcher/stop_signals.hpp"
#include "job/rendezvous.hpp"

namespace verbena::apps {

/// How the `size` processes are shared out: what the command line leaves open is chosen, half of them (at
/// least one) to be servers. INVALID_ARGUMENT where that does not come out.
absl::Status share_out(std::uint32_t size, RunOptions& run);

/// The server that is the own one of the worker process with rank `rank` of all, which begin with the
/// servers: of those on its host, which is hosts[rank], one after the other for the workers there. nullopt:
/// its host has none. REQUIRES: rank ≥ servers.
std::optional<std::uint32_t> own_server(std::span<const std::string> hosts, std::uint32_t servers,
                                        std::uint32_t rank);

struct ClusterOptions {
  job::Rendezvous& rendezvous;
  StopSignals& signals;
  /// Ends all processes of the job, this one included, when some do not end by themselves.
  std::function<void(int exit_status, const std::string& why)> abort;
};

/// Returns the exit status. May not return: a thread that cannot be stopped is left behind.
int run_in_cluster(RunOptions run, Application& application, const ApplicationOptions& options,
                   const ClusterOptions& cluster);

}  // namespace verbena::apps
