// A run whose processes are all started here.
#pragma once

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/launcher/launcher.hpp"
#include "apps/launcher/run_monitor.hpp"
#include "apps/launcher/run_outputs.hpp"

namespace verbena::apps {

/// Decides what `run` leaves open, and finds out whatever can be known before a process trains.
absl::Status prepare_host_run(RunOptions& run, Application& application);

/// Whether this host has what the job needs. REQUIRES: the transport is decided.
absl::Status check_host(const JobOptions& job);
/// Of one of the job's servers.
Launcher::Command server_command(const JobOptions& job, std::uint32_t rank);

struct HostRunEnd {
  absl::Status status;  ///< the failure that the others followed from
  int signal = 0;       ///< that ended it, 0 if none; `status` is CANCELLED then
};
/// Starts servers and workers and waits for their end; none is left then. REQUIRES: prepared.
HostRunEnd carry_out_host_run(const RunOptions& run, const Application& application,
                              const ApplicationOptions& options, RunMonitor& monitor);

}  // namespace verbena::apps
