#include "worker/moving/intent_keeper.hpp"

#include <memory>
#include <utility>

#include "base/prefetch.hpp"
#include "worker/moving/moving_rows.hpp"

namespace verbena::worker {

using consistency::Clock;

IntentKeeper::IntentKeeper(MovingRows& rows) : rows_(rows), told_(rows.own, rows.directory, rows.requests) {}

void IntentKeeper::allocate(std::uint64_t rows) {
  intents_.allocate(rows);
  told_.allocate(rows);
}

void IntentKeeper::add(Keys keys, Clock from, Clock to) {
  const Clock clock = rows_.session.current_clock();
  intents_.add(std::move(keys), from, to);
  if (from <= clock + lead_.clocks()) act(clock);
}

void IntentKeeper::on_clock_ends(Clock next) {
  if (!intents_.empty() || !to_tell_.empty()) act(next);
  for (const Key key : intents_.take_ended(next)) told_.begin_ending(key);
  give_up();
}

void IntentKeeper::act(Clock clock) {
  Keys fresh = std::exchange(to_tell_, {});
  const auto is_told = [&](Key key) {
    return told_.contains(key) && !told_.is(key, ToldIntents::State::kForgotten);
  };
  std::erase_if(fresh, [&](Key key) { return !intents_.has_begun(key) || is_told(key); });
  for (const Key key : intents_.take_begun(clock, clock + lead_.clocks())) {
    // If the intent has not been given up yet, nothing changes.
    told_.keep(key);
    if (!is_told(key)) fresh.push_back(key);
  }
  begin(fresh);
}

bool IntentKeeper::count(Key key) {
  if (!told_.count(key)) return false;
  rows_.replication.note_arrived(key);
  return true;
}

/// Tells the homes. Rows that no other node wants come here.
void IntentKeeper::begin(const Keys& keys) {
  // A session that has failed starts no operations: `moving` would refer to one that is gone.
  if (keys.empty() || rows_.is_leaving || !rows_.session.status().ok()) return;
  if (rows_.session.is_cutting()) {
    to_tell_.insert(to_tell_.end(), keys.begin(), keys.end());
    return;
  }
  auto localize = std::make_shared<Localize>(rows_, Localize::Why::kIntent);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + base::kKeysAhead < keys.size()) {
      told_.prefetch(keys[i + base::kKeysAhead]);
      rows_.prefetch_presence(keys[i + base::kKeysAhead]);
    }
    const Key key = keys[i];
    // The home has said *alone* again before this worker has done anything about it.
    if (told_.contains(key) && !told_.is(key, ToldIntents::State::kShared) &&
        !told_.is(key, ToldIntents::State::kForgotten)) {
      continue;
    }
    if (count(key)) continue;
    if (localize->add_intended(key)) {
      told_.set_asking(key);
    } else {
      to_tell_.push_back(key);
    }
  }
  if (localize->has_moves()) rows_.session.start(std::move(localize));
}

void IntentKeeper::on_shared(Key key) {
  told_.set_shared(key);
  // Not if another worker of this node has brought the row here meanwhile: then this worker changes it in
  // place.
  if (count(key) || rows_.is_here(key)) return;
  if (!rows_.is_asynchronous || rows_.is_leaving) return;
  // If the replica is not used soon, it is read one clock before its use: until then it would only grow old.
  rows_.replication.make(key, intents_.is_used_by(key, rows_.session.current_clock() + 1));
}

void IntentKeeper::on_alone(Key key) {
  if (!rows_.is_leaving && told_.is(key, ToldIntents::State::kShared) && !told_.is_ending(key))
    alone_.push_back(key);
}

void IntentKeeper::begin_alone() {
  if (rows_.session.is_cutting()) return;
  Keys alone = std::exchange(alone_, {});
  // Those that have waited for the end of a cut may be over.
  std::erase_if(alone, [&](Key key) { return !told_.is(key, ToldIntents::State::kShared); });
  begin(alone);
}

void IntentKeeper::forget_home(std::uint32_t home) {
  for (const Key key : told_.keys()) {
    // One whose answer has not come is asked for again by the move that waits for it.
    if (rows_.directory.home(key) == home && !told_.is(key, ToldIntents::State::kAsking)) forget(key);
  }
}

void IntentKeeper::forget(Key key) {
  if (told_.forget(key)) to_tell_.push_back(key);
}

void IntentKeeper::give_up() {
  const Keys over = told_.end_idle([&](Key key) { return rows_.replication.is_refreshing(key); });
  if (over.empty()) return;
  rows_.replication.on_intents_over(over);
  rows_.send_requests();
}

}  // namespace verbena::worker
