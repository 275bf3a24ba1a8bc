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
using transport::TimePoint;

constexpr auto kFirstAttempt = milliseconds(250);  // to connect; each may take twice as long as the last
constexpr auto kLongestAttempt = milliseconds(4000);
constexpr auto kBetweenLeaderReminders = milliseconds(5000);  // that it has not come
constexpr auto kBetweenReturns = milliseconds(250);           // attempts to find another one
constexpr auto kLongestReturn = milliseconds(2000);

std::string address_of(const transport::HostPort& place) {
  return "tcp:" + to_string(place);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Connection>> connect_to_leader(transport::Transport& transport,
                                                              const transport::HostPort& place,
                                                              milliseconds patience,
                                                              const Rendezvous::Stopped& stopped) {
  const auto deadline = Clock::now() + patience;
  auto next_reminder = Clock::now() + kBetweenLeaderReminders;
  absl::StatusOr<std::unique_ptr<Connection>> connection = absl::CancelledError("stopped");
  for (auto attempt = kFirstAttempt;; attempt = std::min(2 * attempt, kLongestAttempt)) {
    if (stopped()) return absl::CancelledError("stopped");
    connection =
        transport.connect(address_of(place), std::min({deadline, next_reminder, Clock::now() + attempt}));
    // Kubernetes knows a name only when what has it is there.
    const bool is_unknown = absl::IsNotFound(connection.status());
    if ((!is_unknown && !absl::IsDeadlineExceeded(connection.status())) || Clock::now() >= deadline) break;
    if (Clock::now() >= next_reminder) {
      next_reminder += kBetweenLeaderReminders;
      spdlog::warn("waiting for rank 0: {}", std::string(connection.status().message()));
    }
    if (is_unknown) std::this_thread::sleep_for(kFirstAttempt);
  }
  if (connection.ok()) return connection;
  return absl::Status(connection.status().code(), fmt::format("rank 0 cannot be reached: {}",
                                                              std::string(connection.status().message())));
}

void LeaderSearch::begin(TimePoint now, milliseconds patience, std::string lost) {
  gives_up_at_ = now + patience;
  patience_ = patience;
  lost_ = std::move(lost);
}

void LeaderSearch::go_on(TimePoint now) {
  is_connected_ = false;
  attempt_ = kFirstAttempt;
  next_attempt_ = now + kBetweenReturns;
}

void LeaderSearch::end() {
  gives_up_at_.reset();
  is_connected_ = false;
}

std::unique_ptr<Connection> LeaderSearch::try_to_connect(transport::Transport& transport) {
  if (!is_on() || is_connected_ || Clock::now() < next_attempt_) return nullptr;
  // Each attempt may take twice as long as the last: who answers may be slow.
  auto connection = transport.connect(address_of(place_), std::min(Clock::now() + attempt_, *gives_up_at_));
  attempt_ = std::min(2 * attempt_, kLongestReturn);
  next_attempt_ = Clock::now() + kBetweenReturns;
  if (!connection.ok()) return nullptr;
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
  return fmt::format("{}; no other process has led the job in its place within {} s (--leader-patience)",
                     lost_, patience_.count() / 1000);
}

milliseconds LeaderSearch::turn() {
  return kBetweenReturns;
}

}  // namespace verbena::job
