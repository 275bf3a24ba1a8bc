// A run of `verbena run` whose processes are hit while it goes on.
#pragma once

#include <chrono>
#include <optional>

#include "absl/status/status.h"
#include "apps/experiment/experiment_failover.hpp"
#include "apps/peers/program.hpp"
#include "apps/program/metrics_pipe.hpp"

namespace verbena::apps {

class WatchedRun {
 public:
  using Clock = std::chrono::steady_clock;

  /// All outlive it. `pipe`: where the run writes its metrics. `saboteur`: nullptr: nothing is hit.
  WatchedRun(Program& program, MetricsPipe& pipe, Saboteur* saboteur, FailoverRun& run)
      : program_(program), pipe_(pipe), saboteur_(saboteur), run_(run) {}

  /// Until it has ended; from `peace` on nothing is hit any more. DEADLINE_EXCEEDED: it hangs.
  absl::Status watch(Clock::time_point peace);

 private:
  [[nodiscard]] double elapsed() const;
  void read_metrics();
  void look_and_hit();

  Program& program_;
  MetricsPipe& pipe_;
  Saboteur* const saboteur_;
  FailoverRun& run_;
  std::optional<Clock::time_point> began_;
  Clock::time_point heard_ = Clock::now();  ///< when it last said something
  Clock::time_point next_look_ = Clock::time_point::min();
};

}  // namespace verbena::apps
