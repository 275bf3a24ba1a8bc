#include "server/absences.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "cluster/configuration.hpp"
#include "transport/heartbeat.hpp"

namespace verbena::server {
namespace {

/// How many polls with events come before the clock is read for the workers' heartbeats.
constexpr std::uint32_t kPollsBeforeWatch = 256;

}  // namespace

bool Absences::waits_for_others() const {
  return options_.replaces_workers && !host_.has_failed() && !host_.has_rows_that_move();
}

/// The worker may have heard of a configuration in which this server has no place, and this server not yet.
bool Absences::may_be_left_out() const {
  return options_.configuration != nullptr && !options_.configuration->ends_who_is_left_out();
}

bool Absences::waits_for_connections() const {
  return (transport_.connections_may_break() || may_be_left_out()) && !host_.has_failed() &&
         !host_.has_rows_that_move();
}

void Absences::begin(Peer& worker, const absl::Status& why) {
  if (waits_for_others()) {
    if (!std::exchange(worker.absence.is_missed, true))
      spdlog::warn("{}: waits for a process that takes its place", std::string(why.message()));
    return;
  }
  const bool is_silent =
      worker.connection != nullptr && absl::IsDeadlineExceeded(worker.connection->status());
  if (!waits_for_connections() || (is_silent && !may_be_left_out())) return host_.go_on_without(worker, why);
  if (std::exchange(worker.absence.is_missed, true)) return;
  spdlog::warn("{}: waits until it connects again", std::string(why.message()));
  worker.absence.until = transport_.now() + transport::mending_time(options_.silence_timeout_ms);
  worker.absence.because = std::string(why.message());
  first_end_ = std::min(first_end_, worker.absence.until);
}

void Absences::poll(bool is_idle) {
  if (first_end_ != transport::TimePoint::max() && !host_.has_failed()) give_up_waiting();
  if (is_idle || --polls_before_watch_ == 0) watch();
}

/// For those that are missed for too long.
void Absences::give_up_waiting() {
  const transport::TimePoint now = transport_.now();
  if (now < first_end_) return;
  first_end_ = transport::TimePoint::max();
  for (Peer* const worker : workers_) {
    if (worker == nullptr || worker->absence.until == transport::TimePoint::max()) continue;
    if (host_.waits_for_workers())
      worker->absence.until = now + transport::mending_time(options_.silence_timeout_ms);
    if (now >= worker->absence.until) {
      worker->absence.until = transport::TimePoint::max();
      host_.go_on_without(*worker, absl::UnavailableError(worker->absence.because));
    }
    first_end_ = std::min(first_end_, worker->absence.until);
  }
}

/// A stopped worker holds back those who wait for its clocks, or for a row that it has locked. The error must
/// name the stopped worker, not the waiting ones.
void Absences::watch() {
  polls_before_watch_ = kPollsBeforeWatch;
  if (options_.silence_timeout_ms == 0 || host_.has_failed()) return;
  const transport::TimePoint now = transport_.now();
  if (now < next_watch_) return;
  next_watch_ = now + transport::kBeatInterval;
  for (Peer* const worker : workers_) {
    if (worker == nullptr || !worker->is_there()) continue;
    const absl::Status status = worker->watch->look(*worker->connection, now);
    if (status.ok()) continue;
    if (!suspect_ || !waits_for_others()) return host_.fail(status);
    if (!std::exchange(worker->absence.is_suspected, true)) suspect_(worker->worker, status);
  }
}

transport::TimePoint Absences::next_poll() const {
  if (host_.has_failed()) return transport::TimePoint::max();
  return options_.silence_timeout_ms > 0 ? std::min(next_watch_, first_end_) : first_end_;
}

}  // namespace verbena::server
