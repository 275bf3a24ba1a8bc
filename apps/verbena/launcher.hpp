// Starts the processes of a run, listens to them, and ends them all when one of them fails.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/verbena/child_process.hpp"
#include "apps/verbena/display.hpp"
#include "apps/verbena/metrics.hpp"
#include "apps/verbena/run_record.hpp"
#include "apps/verbena/stop_signals.hpp"

namespace verbena::apps {

/// Thread safety: belongs to one thread, the only one of its process.
class Launcher {
 public:
  struct Command {
    std::string name;  ///< "worker 1"
    std::vector<std::string> arguments;
    bool server = false;
  };

  /// `metrics` may be nullptr.
  Launcher(RunRecord& record, Display& display, MetricsFile* metrics)
      : record_(record), display_(display), metrics_(metrics) {}

  /// Starts all and waits for their end. Whatever happens, none of them is left when it returns: the others
  /// are asked to end when one has failed, and killed when they do not. CANCELLED after a signal, see
  /// signal(); else the failure that the others followed from.
  absl::Status run(const std::vector<Command>& commands);

  [[nodiscard]] int signal() const { return signal_; }
  [[nodiscard]] double elapsed_seconds() const;
  /// What the model has added to the summary, and its words.
  [[nodiscard]] const nlohmann::json& model_summary() const { return model_summary_; }
  [[nodiscard]] const std::vector<std::string>& printed() const { return printed_; }

 private:
  using Clock = std::chrono::steady_clock;
  /// How near a failure is to the cause: the nearest is the one to report.
  enum class Cause { kKilled, kOwnError, kSilentEnd, kPeerGone, kFollowed, kNone };
  struct Child {
    ChildProcess process;
    bool server = false;
    bool reported_failure = false;
  };

  absl::Status start(const std::vector<Command>& commands);
  [[nodiscard]] int poll_timeout_ms() const;
  void on_signal(int number);
  void on_line(Child& child, std::string_view line);
  void on_message(Child& child, const ChildMessage& message);
  void on_iteration(const IterationMessage& message);
  void on_end(Child& child, int wait_status);
  void check_deadline();
  void fail(Cause cause, absl::Status status);
  void stop_all();
  [[nodiscard]] bool any_running(bool workers_only) const;

  RunRecord& record_;
  Display& display_;
  MetricsFile* const metrics_;
  const Clock::time_point start_ = Clock::now();
  std::deque<Child> children_;
  bool stopping_ = false;
  bool killed_ = false;                                    ///< by us
  Clock::time_point deadline_ = Clock::time_point::max();  ///< then what still runs is killed
  int signal_ = 0;
  Cause cause_ = Cause::kNone;
  absl::Status failure_;
  nlohmann::json model_summary_ = nlohmann::json::object();
  std::vector<std::string> printed_;
};

}  // namespace verbena::apps
