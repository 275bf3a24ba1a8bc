#include "apps/simulation/simulated_store.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace verbena::simulation {

using cluster::Revision;
using cluster::StoreState;
using transport::Duration;
using transport::TimePoint;

namespace {

constexpr Duration kPause = std::chrono::milliseconds(50);  // until who was refused tries again

Duration scaled(Duration duration, double factor) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(duration.count()) * factor));
}

}  // namespace

void SimulatedStoreService::set_available(bool available, TimePoint now) {
  if (available && !is_available_) change_leader(now);
  is_available_ = available;
}

void SimulatedStoreService::change_leader(TimePoint now) {
  ++term_;
  state_.renew_leases(own_time(now));
}

TimePoint SimulatedStoreService::own_time(TimePoint now) const {
  return TimePoint(scaled(now.time_since_epoch(), 1 - faults_.lease_drift));
}

TimePoint SimulatedStoreService::next_expiry() const {
  const TimePoint expiry = state_.next_expiry();
  if (expiry == TimePoint::max() || !is_available_) return TimePoint::max();
  // Not before it, however the numbers are rounded.
  return TimePoint(scaled(expiry.time_since_epoch(), 1 / (1 - faults_.lease_drift))) +
         std::chrono::microseconds(1);
}

Duration SimulatedStoreService::draw(Duration least, Duration most) {
  return Duration(std::uniform_int_distribution<Duration::rep>(least.count(), most.count())(random_));
}

TimePoint SimulatedStore::after_latency(TimePoint now) {
  return now + service_.draw(service_.faults_.min_latency, service_.faults_.max_latency);
}

bool SimulatedStore::has_something_to_begin() const {
  const auto waits = [](const auto& each) { return !each.second.is_asked; };
  return std::any_of(pending().begin(), pending().end(), waits) ||
         std::any_of(watches().begin(), watches().end(), waits);
}

TimePoint SimulatedStore::next_step() const {
  TimePoint next = actions_.empty() ? TimePoint::max() : actions_.begin()->first;
  next = std::min(next, service_.next_expiry());
  if (has_something_to_begin()) return TimePoint::min();
  for (const auto& [id, watch] : watches()) {
    const auto term = terms_.find(id);
    if (term == terms_.end() || term->second.is_being_told) continue;
    const bool is_cut = !service_.is_available_ || term->second.term != service_.term_;
    if (is_cut || watch.next <= service_.state_.revision()) return TimePoint::min();
  }
  return next;
}

void SimulatedStore::step(TimePoint now) {
  if (service_.is_available_) service_.state_.advance(service_.own_time(now));
  while (!actions_.empty() && actions_.begin()->first <= now)
    act(std::move(actions_.extract(actions_.begin()).mapped()), now);
  begin(now);
}

void SimulatedStore::begin(TimePoint now) {
  for (auto& [number, each] : pending()) {
    if (each.is_asked || each.deadline <= now) continue;
    // Those who are refused wait here, too: for them nothing has happened.
    each.is_asked = true;
    schedule(after_latency(now), {.kind = Action::Kind::kArrive, .id = number, .request = each.request});
  }
  for (auto& [id, watch] : watches()) {
    const auto term = terms_.find(id);
    if (!watch.is_asked) {
      watch.is_asked = true;
      schedule(after_latency(now), {.kind = Action::Kind::kBeginWatch, .id = id, .request = {}});
    } else if (term != terms_.end() && !term->second.is_being_told &&
               (!service_.is_available_ || term->second.term != service_.term_ ||
                watch.next <= service_.state_.revision())) {
      term->second.is_being_told = true;
      const Duration late = service_.happens(service_.faults_.late_events)
                                ? service_.draw(Duration::zero(), service_.faults_.max_event_delay)
                                : Duration::zero();
      schedule(after_latency(now) + late, {.kind = Action::Kind::kTellWatch, .id = id, .request = {}});
    }
  }
}

void SimulatedStore::act(Action action, TimePoint now) {
  switch (action.kind) {
    case Action::Kind::kArrive:
      return arrive(std::move(action), now);
    case Action::Kind::kAnswer:
      if (!service_.is_available_) return lose_answer(action.id, "the store is away");
      set_trouble("");
      return finish(action.id, std::move(action.answer));
    case Action::Kind::kBreak:
      return lose_answer(action.id, "the connection is broken");
    case Action::Kind::kRefuse:
      if (const auto found = pending().find(action.id); found != pending().end())
        found->second.is_asked = false;
      if (const auto found = watches().find(action.id); found != watches().end())
        found->second.is_asked = false;
      return;
    case Action::Kind::kBeginWatch:
      if (!service_.is_available_) {
        action.kind = Action::Kind::kRefuse;
        return schedule(now + kPause, std::move(action));
      }
      return begin_watch(action.id);
    case Action::Kind::kTellWatch:
      return tell_watch(action.id);
  }
}

void SimulatedStore::arrive(Action action, TimePoint now) {
  const StoreFaults& faults = service_.faults_;
  if (!service_.is_available_ || service_.happens(faults.lost_request)) {
    set_trouble("the store is away");
    const auto found = pending().find(action.id);
    if (found == pending().end()) return;
    // If the deadline comes before the next attempt, nothing has happened, and that is said.
    if (now + kPause >= found->second.deadline) {
      found->second.is_asked = true;
      return finish(action.id, absl::UnavailableError("the store cannot be reached: it is away"));
    }
    action.kind = Action::Kind::kRefuse;
    return schedule(now + kPause, std::move(action));
  }
  const bool is_silent = service_.happens(faults.silence);
  if (is_silent && service_.happens(0.5)) return;
  action.answer = service_.state_.execute(action.request, service_.own_time(now));
  if (is_silent) return;
  action.kind = service_.happens(faults.lost_answer) ? Action::Kind::kBreak : Action::Kind::kAnswer;
  schedule(after_latency(now), std::move(action));
}

void SimulatedStore::begin_watch(WatchId id) {
  if (watches().contains(id)) terms_[id] = {.term = service_.term_};
}

void SimulatedStore::tell_watch(WatchId id) {
  const auto found = watches().find(id);
  const auto term = terms_.find(id);
  if (found == watches().end() || term == terms_.end()) return;
  term->second.is_being_told = false;
  if (!service_.is_available_ || term->second.term != service_.term_) return cut(id, "the store was away");
  if (service_.happens(service_.faults_.cut_watch)) return cut(id, "the connection is broken");
  absl::StatusOr<StoreState::Events> events =
      service_.state_.events(found->second.prefix, found->second.next, cluster::kMostRequestBytes);
  if (!events.ok()) {
    terms_.erase(term);
    return tell(id, events.status());
  }
  const Revision next = events->next;
  if (!service_.happens(service_.faults_.lost_events)) tell(id, std::move(events->events));
  found->second.next = next;
}

void SimulatedStore::cut(WatchId id, std::string_view why) {
  terms_.erase(id);
  tell(id, absl::UnavailableError(std::string("the watch was cut: ") + std::string(why)));
}

}  // namespace verbena::simulation
