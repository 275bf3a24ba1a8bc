// What a run shows and which files it leaves, no matter what started its processes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/launcher/run_monitor.hpp"
#include "apps/launcher/run_settings.hpp"
#include "apps/monitoring/monitoring_port.hpp"
#include "apps/report/display.hpp"
#include "apps/report/metrics.hpp"
#include "job/peers.hpp"

namespace verbena::apps {

struct RunOptions {
  JobOptions job;
  job::PeerOptions peers = {};  ///< how it finds the processes that were started with it
  /// Of one that joins a job that runs: so many servers its host is to take; nullopt: its share.
  std::optional<std::uint32_t> takes_servers = std::nullopt;
  std::optional<std::uint32_t> takes_workers = std::nullopt;  ///< the same of processes with workers
  std::string metrics;                                        ///< empty: none
  std::string report;
  MonitoringOptions monitoring = {};
  bool baseline = false;
  bool quiet = false;
};

/// Checks everything that can be checked before a process trains.
absl::Status check_all(Application& application, const RunOptions& run);

class RunOutputs {
 public:
  /// Opens the port for those who watch, and begins the metrics file. The arguments must outlive the result.
  static absl::StatusOr<std::unique_ptr<RunOutputs>> create(const RunOptions& run,
                                                            const Application& application,
                                                            const ApplicationOptions& options);
  RunOutputs(const RunOutputs&) = delete;
  RunOutputs& operator=(const RunOutputs&) = delete;

  RunMonitor& monitor() { return *monitor_; }

  /// Call it when all processes have ended. Prints the summary or the error, writes the files of a run that
  /// has succeeded, and returns the exit status. `signal`: the signal that ended the run, 0 if none.
  int finish(const absl::Status& ended, int signal);

 private:
  RunOutputs(const RunOptions& run, const Application& application, const ApplicationOptions& options);
  void settle_choices();
  absl::Status write(double elapsed_seconds);

  const RunOptions& run_;
  const Application& application_;
  RunSettings settings_;
  std::optional<MetricsFile> metrics_;
  RunRecord record_;
  Display display_;
  std::unique_ptr<MonitoringPort> port_;  ///< nullptr: nobody can watch
  std::optional<RunMonitor> monitor_;
};

}  // namespace verbena::apps
