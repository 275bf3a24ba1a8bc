#include "worker/moving/told_intents.hpp"

#include <optional>
#include <utility>

#include "base/prefetch.hpp"

namespace verbena::worker {

using protocol::Presence;

void ToldIntents::allocate(std::uint64_t rows) {
  told_.allocate(rows);
  ending_.allocate(rows);
}

bool ToldIntents::count(Key key) {
  if (!own_.is_mapped()) return false;
  const std::optional<std::uint32_t> since = own_.presence().begin_intent(key);
  if (!since) return false;
  const auto [told, is_first] = told_.try_emplace(key, {});
  if (!is_first && told->second.state != State::kForgotten)
    requests_.add(directory_.home(key), Kind::kDone, {.key = key});
  told->second = {.state = State::kCounted, .since = *since};
  return true;
}

void ToldIntents::set_counted(Key key, std::uint64_t epoch) {
  told_[key] = {.state = State::kCounted, .since = Presence::here(epoch, 0).since()};
}

void ToldIntents::on_here(Key key, std::uint64_t epoch) {
  const auto known = told_.find(key);
  if (known == told_.end()) return;
  Told& told = known->second;
  if (told.state == State::kForgotten) return;
  if (told.state != State::kCounted) {
    told.state = State::kHere;
  } else if (told.since != Presence::here(epoch, 0).since()) {
    told.since = own_.presence().begin_intent(key).value_or(told.since);  // the row had left, and is back
  }
}

void ToldIntents::on_not_coming(Key key) {
  const auto known = told_.find(key);
  if (known == told_.end() || known->second.state == State::kCounted) return;
  if (known->second.state != State::kForgotten) known->second.state = State::kShared;
}

bool ToldIntents::forget(Key key) {
  const auto known = told_.find(key);
  if (known == told_.end() || known->second.state == State::kCounted) return false;
  known->second.state = State::kForgotten;
  return !is_ending(key);
}

void ToldIntents::begin_ending(Key key) {
  if (ending_.insert(key)) ending_order_.push_back(key);
}

ToldIntents::Keys ToldIntents::end_idle(absl::FunctionRef<bool(Key)> is_in_use) {
  Keys over;
  Keys left;
  for (std::size_t i = 0; i < ending_order_.size(); ++i) {
    if (i + base::kKeysAhead < ending_order_.size()) {
      prefetch(ending_order_[i + base::kKeysAhead]);
      if (own_.is_mapped()) own_.presence().prefetch(ending_order_[i + base::kKeysAhead]);
    }
    const Key key = ending_order_[i];
    if (!ending_.contains(key)) continue;
    const auto known = told_.find(key);
    if (known == told_.end()) {
      ending_.erase(key);
      continue;
    }
    const Told told = known->second;
    if (told.state == State::kAsking || is_in_use(key)) {
      left.push_back(key);
      continue;
    }
    const bool is_counted = told.state == State::kCounted;
    if (is_counted) end_counted(key, told);
    const bool is_known_to_home = !is_counted && told.state != State::kForgotten;
    if (is_known_to_home) requests_.add(directory_.home(key), Kind::kDone, {.key = key});
    told_.erase(known);
    ending_.erase(key);
    over.push_back(key);
  }
  ending_order_ = std::move(left);
  return over;
}

void ToldIntents::end_all_counted() {
  for (const Key key : told_.keys()) {
    if (!is(key, State::kCounted)) continue;
    end_counted(key, told_[key]);
    told_.erase(key);
  }
}

void ToldIntents::end_counted(Key key, const Told& told) {
  if (own_.presence().end_intent(key, told.since))
    requests_.add(directory_.home(key), Kind::kReleased, {.key = key});
}

}  // namespace verbena::worker
