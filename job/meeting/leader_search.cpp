#include "job/meeting/leader_search.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace verbena::job {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using transport::Connection;
using transport::Duration;
using transport::TimePoint;

constexpr auto kFirstAttempt = milliseconds(250);  // to connect; each may take twice as long as the last
constexpr auto kLongestAttempt = milliseconds(4000);
constexpr auto kBetweenLeaderReminders = milliseconds(5000);  // that it has not come
constexpr auto kBetweenReturns = milliseconds(250);           // attempts to find another one
constexpr auto kLongestReturn = milliseconds(2000);

constexpr auto kOneLookAtEtcd = milliseconds(500);  // in which whoever wants to stop is not heard

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> LeaderPlace::try_to_connect(transport::Transport& transport,
                                                                        TimePoint deadline) {
  if (!etcd_) return transport.connect("tcp:" + to_string(address_), deadline);
  if (watch_ == nullptr) {
    absl::StatusOr<std::unique_ptr<EntryWatch>> watch = EntryWatch::begin(*etcd_);
    if (!watch.ok()) return watch.status();
    watch_ = *std::move(watch);
  }
  const Duration attempt = deadline - Clock::now();
  const absl::StatusOr<LeaderEntry> entry = watch_->find(Clock::now() + kOneLookAtEtcd);
  if (!entry.ok()) return entry.status();
  absl::StatusOr<std::unique_ptr<Connection>> connection =
      connect_to(*entry, transport, Clock::now() + attempt);
  if (connection.ok()) return connection;
  const absl::Status& error = connection.status();
  return absl::Status(absl::IsNotFound(error) ? absl::StatusCode::kUnavailable : error.code(),
                      fmt::format("{} says that it is at {}: {}", to_string(*etcd_), to_string(entry->place),
                                  std::string(error.message())));
}

/// An entry in etcd may be that of a process that is gone, or wrong in any way: another one may come.
bool LeaderPlace::may_pass(const absl::Status& error) const {
  if (etcd_) return !absl::IsUnauthenticated(error);
  // Kubernetes knows a name only when what has it is there.
  return absl::IsNotFound(error) || absl::IsDeadlineExceeded(error);
}

absl::StatusOr<std::unique_ptr<Connection>> connect_to_leader(transport::Transport& transport,
                                                              const MeetingOptions& options,
                                                              milliseconds patience,
                                                              const Rendezvous::Stopped& stopped) {
  LeaderPlace place(options);
  const auto deadline = Clock::now() + patience;
  auto next_reminder = Clock::now() + kBetweenLeaderReminders;
  absl::StatusOr<std::unique_ptr<Connection>> connection = absl::CancelledError("stopped");
  absl::Status of_another_job;  // is who was found
  for (auto attempt = kFirstAttempt;; attempt = std::min(2 * attempt, kLongestAttempt)) {
    if (stopped()) return absl::CancelledError("stopped");
    connection = place.try_to_connect(transport, std::min({deadline, next_reminder, Clock::now() + attempt}));
    if (connection.ok() || !place.may_pass(connection.status())) break;
    if (absl::IsPermissionDenied(connection.status()) || absl::IsFailedPrecondition(connection.status()))
      of_another_job = connection.status();
    if (Clock::now() >= deadline) {
      // The last attempt may have had no time to find that out.
      if (!of_another_job.ok()) connection = of_another_job;
      break;
    }
    if (Clock::now() >= next_reminder) {
      next_reminder += kBetweenLeaderReminders;
      spdlog::warn("waiting for rank 0: {}", std::string(connection.status().message()));
    }
    if (LeaderPlace::is_early(connection.status())) std::this_thread::sleep_for(kFirstAttempt);
  }
  if (connection.ok()) return connection;
  return absl::Status(connection.status().code(), fmt::format("rank 0 cannot be reached: {}",
                                                              std::string(connection.status().message())));
}

void LeaderSearch::begin(TimePoint now, milliseconds patience, std::string lost) {
  gives_up_at_ = now + patience;
  patience_ = patience;
  lost_ = std::move(lost);
  obstacle_.clear();
  next_reminder_ = now + kBetweenLeaderReminders;
}

void LeaderSearch::go_on(TimePoint now) {
  is_connected_ = false;
  attempt_ = kFirstAttempt;
  next_attempt_ = now + kBetweenReturns;
}

void LeaderSearch::be_refused(TimePoint now, std::string why) {
  go_on(now);
  next_attempt_ = now + kLongestReturn;  // it was started by somebody, and will not change soon
  obstacle_ = std::move(why);
  remind(now);
}

void LeaderSearch::remind(TimePoint now) {
  if (now < next_reminder_) return;
  next_reminder_ = now + kBetweenLeaderReminders;
  spdlog::warn("looking for another rank 0: {}", obstacle_);
}

void LeaderSearch::end() {
  gives_up_at_.reset();
  is_connected_ = false;
}

std::unique_ptr<Connection> LeaderSearch::try_to_connect(transport::Transport& transport) {
  if (!is_on()) place_.rest();
  if (!is_on() || is_connected_ || Clock::now() < next_attempt_) return nullptr;
  // Each attempt may take twice as long as the last: who answers may be slow.
  auto connection = place_.try_to_connect(transport, std::min(Clock::now() + attempt_, *gives_up_at_));
  attempt_ = std::min(2 * attempt_, kLongestReturn);
  next_attempt_ = Clock::now() + kBetweenReturns;
  if (!connection.ok()) {
    obstacle_ = std::string(connection.status().message());
    if (place_.may_move()) remind(Clock::now());
    return nullptr;
  }
  is_connected_ = true;
  has_introduced_itself_ = false;
  return *std::move(connection);
}

bool LeaderSearch::takes_introduction() {
  return is_on() && is_connected_ && !std::exchange(has_introduced_itself_, true);
}

std::optional<std::string> LeaderSearch::take_failure(TimePoint now) {
  if (!is_on() || now < *gives_up_at_) return std::nullopt;
  end();
  return fmt::format("{}; no other process has led the job in its place within {} s (--leader-patience){}{}",
                     lost_, patience_.count() / 1000, obstacle_.empty() ? "" : ": ", obstacle_);
}

milliseconds LeaderSearch::turn() {
  return kBetweenReturns;
}

}  // namespace verbena::job
