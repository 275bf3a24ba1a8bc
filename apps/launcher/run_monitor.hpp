// Collects what the processes of a run report, shows and records it, and finds the failure that caused the
// others.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "apps/launcher/status_desk.hpp"
#include "apps/monitoring/monitoring_port.hpp"
#include "apps/report/display.hpp"
#include "apps/report/metrics.hpp"
#include "apps/report/run_record.hpp"
#include "apps/report/run_status.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {

/// Thread safety: belongs to one thread at a time.
class RunMonitor {
 public:
  using Clock = std::chrono::steady_clock;
  using Cause = job::Cause;
  /// How long servers have to end after the last worker has left.
  static constexpr auto kServersPatience = std::chrono::seconds(10);
  /// So many processes in a row may die in a worker's place before they have finished another iteration: more
  /// do not die there by chance.
  static constexpr std::uint32_t kMostDeathsOfWorker = 3;

  /// `metrics` and `port` may be nullptr.
  RunMonitor(RunRecord& record, Display& display, MetricsFile* metrics, MonitoringPort* port = nullptr)
      : record_(record), display_(display), metrics_(metrics), port_(port) {}

  /// Takes a message from the process that error messages call `name`, and returns the message. A line that
  /// cannot be understood is a failure.
  std::optional<job::ChildMessage> hear(const std::string& name, std::string_view line);
  void fail(Cause cause, absl::Status status);
  /// The run is being stopped: from now on only a killed process is a failure; all others follow from that.
  void expect_failures() { expects_failures_ = true; }
  /// The process has not ended within kServersPatience.
  void fail_still_running(std::string_view name);

  /// A line about the run's processes, for people; it is no part of the run's report.
  void warn(std::string_view line) { display_.warn(line); }
  /// Redraws what changes with time alone.
  void tick() { display_.tick(elapsed_seconds()); }
  /// What to wait for, beside the processes, before the next answer_watchers().
  void add_descriptors(std::vector<pollfd>& wanted) const {
    if (port_ != nullptr) port_->add_descriptors(wanted);
    if (desk_ != nullptr) desk_->add_descriptors(wanted);
  }
  /// Others may ask there, too.
  void tell_at(std::unique_ptr<StatusDesk> desk) { desk_ = std::move(desk); }
  /// Answers those who ask at --metrics-port, or at the desk; never waits for them. Call it at least each
  /// second. `status`: of this moment.
  void answer_watchers(absl::FunctionRef<RunStatus()> status) {
    if (port_ != nullptr) port_->serve(display_.settings(), record_, status);
    if (desk_ != nullptr) desk_->serve(status);
  }
  /// Call it when no more messages will come, or none before go_back().
  void finish() { display_.finish(); }
  /// This copy of the server has died, and others go on. `what`: who, and how, for people.
  void fail_over(std::uint32_t server, std::int64_t pid, std::string_view what);
  /// This copy of the server has joined. `what`: which, for people.
  void note_joined(std::uint32_t server, std::int64_t pid, std::string_view what);
  /// A worker's process has died, and that one has taken its place: `workers`, from the first one on, are
  /// its.
  void replace(std::uint32_t process, std::int64_t pid, std::uint32_t first, std::uint32_t workers,
               std::string_view what);
  /// A copy of a server has died before it had joined, or is ended, since it shows no sign of life.
  void note_lost(RunEvent::Kind kind, std::string_view what);
  /// A process has ended that has used so much of the processor.
  void note_processor_time(double ProcessorTime::*whose, double seconds) {
    record_.add_processor_time(whose, seconds);
  }
  /// The processes have ended, because of `why`, and others go on after this iteration (0: at the beginning;
  /// nullopt: they know where): forgets the failure, and what the training was found to be after that.
  /// REQUIRES: finish() was called.
  void go_back(std::optional<std::int64_t> after_iteration, std::string_view why);

  [[nodiscard]] double elapsed_seconds() const;
  /// Without what only the processes' parent knows.
  [[nodiscard]] RunStatus status() const;
  [[nodiscard]] bool failed() const { return cause_ != Cause::kNone; }
  /// How close failure() is to what has happened first; kNone if there was none.
  [[nodiscard]] Cause cause() const { return cause_; }
  /// The failure that caused the others; OK if there was none.
  [[nodiscard]] const absl::Status& failure() const { return failure_; }
  /// What the model has added to the summary, and the lines that it has printed.
  [[nodiscard]] const nlohmann::json& model_summary() const { return model_summary_; }
  [[nodiscard]] const std::vector<std::string>& printed() const { return printed_; }

 private:
  void on_message(const std::string& name, const job::ChildMessage& message);
  void on_iteration(const job::IterationMessage& message);
  void on_failed(const std::string& name, const job::FailedMessage& message);
  void note(RunEvent::Kind kind, std::string_view what);

  RunRecord& record_;
  Display& display_;
  MetricsFile* const metrics_;
  MonitoringPort* const port_;
  std::unique_ptr<StatusDesk> desk_;  ///< nullptr: another one tells, or nobody does
  const Clock::time_point start_ = Clock::now();
  Cause cause_ = Cause::kNone;
  bool expects_failures_ = false;
  absl::Status failure_;
  nlohmann::json model_summary_ = nlohmann::json::object();
  std::vector<std::string> printed_;
};

}  // namespace verbena::apps
