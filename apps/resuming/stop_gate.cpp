#include "apps/resuming/stop_gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace verbena::apps {

StopGate::StopGate(std::uint32_t workers, bool is_late, std::function<void(const Begun&)> answer,
                   std::chrono::milliseconds patience)
    : answer_(std::move(answer)),
      patience_(patience),
      places_(workers, Place{.begun = is_late ? std::nullopt : std::optional<std::int64_t>(0)}) {}

void StopGate::begin(std::uint32_t worker, std::int64_t iteration, bool is_catching_up) {
  if (is_catching_up) return;
  {
    const std::lock_guard lock(mutex_);
    places_[worker].begun = iteration;
  }
  answer_if_due();
}

absl::StatusOr<StopGate::Turn> StopGate::ask(std::uint32_t worker, std::int64_t iteration, bool is_last) {
  absl::StatusOr<Turn> turn = Turn::kWaits;
  {
    const std::lock_guard lock(mutex_);
    turn = turn_of(places_[worker], iteration, is_last);
  }
  answer_if_due();
  return turn;
}

absl::StatusOr<StopGate::Turn> StopGate::turn_of(Place& place, std::int64_t iteration, bool is_last) {
  if (!place.begun) place.begun = iteration;
  if (signal_ != 0 && !is_released_) {
    if (!after_) return Turn::kWaits;
    if (iteration > *after_) {
      return absl::InternalError(
          fmt::format("rank 0 ends the training after iteration {}, and {} is over", *after_, iteration));
    }
    has_ended_ |= iteration == *after_;
    if (iteration == *after_) return Turn::kEnds;
  }
  if (is_last) {
    place.has_finished = true;
  } else {
    place.begun = iteration + 1;
  }
  return Turn::kGoesOn;
}

absl::StatusOr<bool> StopGate::ends_after(std::uint32_t worker, std::int64_t iteration, bool is_last) {
  absl::StatusOr<Turn> turn = ask(worker, iteration, is_last);
  if (!turn.ok()) return turn.status();
  if (*turn != Turn::kWaits) return *turn == Turn::kEnds;
  {
    std::unique_lock lock(mutex_);
    const auto is_decided = [this] { return after_ || is_released_ || has_given_up_; };
    if (!decided_.wait_for(lock, patience_, is_decided)) {
      return absl::DeadlineExceededError(
          fmt::format("rank 0 has not said within {} s after which iteration the training ends",
                      std::chrono::duration<double>(patience_).count()));
    }
    if (has_given_up_) return absl::CancelledError("stopped");
  }
  turn = ask(worker, iteration, is_last);
  if (!turn.ok()) return turn.status();
  return *turn == Turn::kEnds;
}

/// Not while a worker is behind the one whose place it has: that one may have begun more than all others.
void StopGate::answer_if_due() {
  Begun most;
  {
    const std::lock_guard lock(mutex_);
    const bool all_are_known = std::all_of(places_.begin(), places_.end(),
                                           [](const Place& place) { return place.begun.has_value(); });
    if (signal_ == 0 || has_answered_ || (!left_after_ && !all_are_known)) return;
    has_answered_ = true;
    if (left_after_) {
      most.iteration = *left_after_ + 1;  // the first one that the process after this one can save
    } else {
      for (const Place& place : places_) {
        most.iteration = std::max(most.iteration, *place.begun);
        most.has_finished |= place.has_finished;
      }
    }
  }
  answer_(most);
}

void StopGate::hold(int signal) {
  {
    const std::lock_guard lock(mutex_);
    if (signal_ != 0) return;
    signal_ = signal;
  }
  answer_if_due();
}

void StopGate::end_after(std::int64_t iteration) {
  const std::lock_guard lock(mutex_);
  if (signal_ != 0 && !after_) after_ = iteration;
  decided_.notify_all();
}

void StopGate::release() {
  const std::lock_guard lock(mutex_);
  if (!after_) is_released_ = true;
  decided_.notify_all();
}

bool StopGate::let_another_go_on(std::int64_t after) {
  const std::lock_guard lock(mutex_);
  if (signal_ != 0 && !is_released_) return false;
  left_after_ = after;
  return true;
}

void StopGate::give_up() {
  const std::lock_guard lock(mutex_);
  has_given_up_ = true;
  decided_.notify_all();
}

bool StopGate::is_held() const {
  const std::lock_guard lock(mutex_);
  return signal_ != 0 && !is_released_;
}

int StopGate::ended_by() const {
  const std::lock_guard lock(mutex_);
  return has_ended_ ? signal_ : 0;
}

}  // namespace verbena::apps
