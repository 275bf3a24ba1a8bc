// The threads of a worker or server process, and what makes them stop.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "apps/launcher/stop_signals.hpp"

namespace verbena::apps {

struct JobsResult {
  std::vector<absl::Status> statuses;  ///< one for each job; CANCELLED for one that did not end after a stop
  int signal = 0;                      ///< the signal that stopped them; 0 if none
  bool told_to_stop = false;           ///< by the listener, or the listener is gone
  /// Some jobs still run: the process must end by _exit(), without destroying anything that they use.
  bool abandoned = false;
};

/// Runs each job in a thread of its own and waits for all. A signal, a job's failure or a
/// `listener_descriptor` (−1: none) that is broken or has something to read sets `stop` and calls wake().
/// Jobs that still run a second later are abandoned. With `saves_first` they have all the time that they need
/// after kSaveSignal.
struct ProcessJobs {
  std::vector<std::function<absl::Status()>> jobs;
  bool saves_first = false;
  std::function<void()> wake = [] {};
  /// Whether they go on after this signal, and others decide about their end.
  std::function<bool(int signal)> goes_on_after = [](int) { return false; };
  std::function<void(int signal)> on_signal = [](int) {};  ///< called before `stop` is set
  int listener_descriptor = -1;
};
JobsResult run_jobs(ProcessJobs jobs, StopSignals& signals, std::atomic<bool>& stop);

}  // namespace verbena::apps
