#include "apps/launcher/run_monitor.hpp"

#include <fmt/format.h>

#include <utility>

#include "apps/divergence.hpp"
#include "base/printable.hpp"

namespace verbena::apps {
namespace {

/// An error of the user; no process has caused it.
bool is_of_nobody(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsNotFound(status) || is_diverged(status);
}

}  // namespace

double RunMonitor::elapsed_seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

std::optional<job::ChildMessage> RunMonitor::hear(const std::string& name, std::string_view line) {
  absl::StatusOr<job::ChildMessage> message = job::decode(line);
  if (!message.ok()) {
    fail(Cause::kOwnError,
         absl::InternalError(fmt::format("{}: {}", name, std::string(message.status().message()))));
    return std::nullopt;
  }
  on_message(name, *message);
  return *std::move(message);
}

void RunMonitor::on_message(const std::string& name, const job::ChildMessage& message) {
  if (const auto* iteration = std::get_if<job::IterationMessage>(&message)) {
    on_iteration(*iteration);
  } else if (const auto* statistics = std::get_if<job::StatisticsMessage>(&message)) {
    if (absl::Status status = record_.add(*statistics); !status.ok())
      fail(Cause::kOwnError, std::move(status));
  } else if (const auto* progress = std::get_if<job::ProgressMessage>(&message)) {
    display_.progress(*progress, elapsed_seconds());
  } else if (const auto* print = std::get_if<job::PrintMessage>(&message)) {
    printed_.push_back(base::printable(print->line));
    display_.print(printed_.back());
  } else if (const auto* summary = std::get_if<job::SummaryMessage>(&message)) {
    model_summary_[summary->name] = summary->value;
  } else if (const auto* finished = std::get_if<job::FinishedMessage>(&message)) {
    if (absl::Status status = record_.add(*finished); !status.ok()) fail(Cause::kOwnError, std::move(status));
  } else if (const auto* served = std::get_if<job::ServedMessage>(&message)) {
    record_.add(*served);
  } else if (const auto* failed = std::get_if<job::FailedMessage>(&message)) {
    on_failed(name, *failed);
  }
}

void RunMonitor::on_failed(const std::string& name, const job::FailedMessage& message) {
  const absl::Status& status = message.status;
  const absl::StatusCode code = status.code();
  Cause cause = message.cause.value_or(Cause::kOwnError);
  if (message.cause) {
    // The process knows better.
  } else if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded) {
    cause = Cause::kPeerGone;
  } else if (code == absl::StatusCode::kAborted || code == absl::StatusCode::kCancelled) {
    cause = Cause::kFollowed;
  }
  const std::string text(status.message());
  fail(cause, is_of_nobody(status) ? status : absl::Status(code, fmt::format("{}: {}", name, text)));
}

void RunMonitor::fail_still_running(std::string_view name) {
  fail(Cause::kOwnError,
       absl::DeadlineExceededError(fmt::format("{} did not end after all workers had left", name)));
}

void RunMonitor::on_iteration(const job::IterationMessage& message) {
  const absl::StatusOr<std::optional<IterationRecord>> record = record_.add(message, elapsed_seconds());
  if (!record.ok()) {
    fail(Cause::kOwnError, record.status());
    return;
  }
  if (!*record) return;
  display_.iteration(**record, elapsed_seconds());
  if (metrics_ != nullptr) metrics_->write(iteration_json(**record));
}

void RunMonitor::fail_over(std::uint32_t server, std::int64_t pid, std::string_view what) {
  note(RunEvent::Kind::kFailover, what);
  display_.warn(what);
  if (metrics_ != nullptr) metrics_->write(failover_json(server, pid, what, elapsed_seconds()));
}

void RunMonitor::note(RunEvent::Kind kind, std::string_view what) {
  record_.note({.kind = kind, .elapsed_seconds = elapsed_seconds(), .what = std::string(what)});
}

RunStatus RunMonitor::status() const {
  RunStatus status = status_of(record_, elapsed_seconds());
  const RunSettings& settings = display_.settings();
  status.title = headline(settings);
  status.began = settings.made.date;
  return status;
}

void RunMonitor::note_lost(RunEvent::Kind kind, std::string_view what) {
  note(kind, what);
  display_.warn(what);
}

void RunMonitor::note_joined(std::uint32_t server, std::int64_t pid, std::string_view what) {
  note(RunEvent::Kind::kJoin, what);
  display_.warn(what);
  if (metrics_ != nullptr) metrics_->write(join_json(server, pid, what, elapsed_seconds()));
}

void RunMonitor::replace(std::uint32_t process, std::int64_t pid, std::uint32_t first, std::uint32_t workers,
                         std::string_view what) {
  for (std::uint32_t worker = first; worker < first + workers; ++worker) record_.replace(worker);
  note(RunEvent::Kind::kReplacement, what);
  display_.warn(what);
  if (metrics_ != nullptr) metrics_->write(replacement_json(process, pid, what, elapsed_seconds()));
}

void RunMonitor::go_back(std::optional<std::int64_t> after_iteration, std::string_view why) {
  cause_ = Cause::kNone;
  failure_ = absl::OkStatus();
  model_summary_ = nlohmann::json::object();
  printed_.clear();
  record_.go_back(after_iteration);
  note(RunEvent::Kind::kRestart, why);
  display_.go_back();
  if (metrics_ != nullptr)
    metrics_->write(restart_json(record_.restarts(), why, after_iteration, elapsed_seconds()));
}

void RunMonitor::fail(Cause cause, absl::Status status) {
  if (cause >= cause_ || (expects_failures_ && cause != Cause::kKilled)) return;
  cause_ = cause;
  failure_ = std::move(status);
}

}  // namespace verbena::apps
