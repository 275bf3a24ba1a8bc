// A run with all processes on this host, started by this process.
#pragma once

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/launcher/launcher.hpp"
#include "apps/launcher/run_monitor.hpp"
#include "apps/launcher/run_outputs.hpp"

namespace verbena::apps {

/// Decides what `run` leaves open, and checks everything that can be checked before a process trains.
absl::Status prepare_host_run(RunOptions& run, Application& application);

/// Whether this host has what the job needs. REQUIRES: the transport is decided.
absl::Status check_host(const JobOptions& job);
/// The command of one of the job's servers.
Launcher::Command server_command(const JobOptions& job, std::uint32_t number);

struct HostRunEnd {
  absl::Status status;  ///< the failure that caused the others
  int signal = 0;       ///< the signal that ended it, with `status` CANCELLED; 0 if none
};
/// Starts servers and workers and waits until all of them have ended. If one has died, starts all again from
/// the run's newest checkpoint, at most run.job.checkpoints.restarts times. REQUIRES: prepare_host_run() has
/// succeeded.
HostRunEnd carry_out_host_run(const RunOptions& run, const Application& application,
                              const ApplicationOptions& options, RunMonitor& monitor);

}  // namespace verbena::apps
