#include "worker/moving/replication.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "worker/moving/moving_rows.hpp"
#include <verbena/consistency.hpp>

namespace verbena::worker {

using consistency::Clock;

namespace {

constexpr Clock kMostClocksBehind = Asp::kMostClocksBehind;
/// After how many clocks updates are sent if nothing prevents it. A refresh may prevent it for
/// kMostClocksRefreshing clocks; together that is K + 1. It may take K more clocks until they are applied.
constexpr Clock kMostClocksUnsent = kMostClocksBehind + 1 - MovingPull::kMostClocksRefreshing;

}  // namespace

Replication::Replication(MovingRows& rows) : rows_(rows), replicas_(rows.layout) {}

bool Replication::is_usable(const Replica& replica) const {
  return replica.read_at >= rows_.session.current_clock() - kMostClocksBehind &&
         replica.after_barrier == rows_.session.barrier_clock();
}

void Replication::pull(const Replica& replica, std::byte* out) const {
  std::memcpy(out, replica.values(), rows_.layout.row_bytes);
  ++rows_.session.counters().rows_pulled_from_replicas;
}

bool Replication::push(Key key, const std::byte* update) {
  Replica* const replica = rows_.marked.contains(key) ? replicas_.find(key) : nullptr;
  if (replica == nullptr) return false;
  replicas_.push(key, *replica, update);
  ++rows_.session.counters().rows_pushed_to_replicas;
  return true;
}

void Replication::make(Key key, bool is_used_next) {
  Replica* const replica = replicas_.make(key);
  if (replica == nullptr) return;  // there was one already, and the row may have come here
  rows_.marked.insert(key);
  ++rows_.session.counters().rows_replicated;
  if (is_used_next) ask_for_refresh(key, *replica);
}

void Replication::ask_for_refresh(Key key, Replica& replica) {
  if (std::exchange(replica.is_refreshing, true)) return;
  to_refresh_.push_back(key);
}

void Replication::begin_refreshes() {
  if (to_refresh_.empty()) return;
  rows_.session.start(std::make_shared<MovingPull>(rows_, std::exchange(to_refresh_, {})));
}

bool Replication::is_refreshing(Key key) const {
  const Replica* const replica = replicas_.find(key);
  return replica != nullptr && replica->is_refreshing;
}

void Replication::put(Key key, const std::byte* row, Clock read_at, Clock after_barrier) {
  ++rows_.session.counters().rows_refreshed;
  Replica& replica = *replicas_.find(key);  // it is not dropped before this
  replicas_.put(replica, row);
  replica.read_at = read_at;
  replica.after_barrier = after_barrier;
  replica.is_refreshing = false;
  if (rows_.is_near(key)) arrived_.push_back(key);  // another worker of this node moved it
  ++rows_.generation;
}

void Replication::note_arrived(Key key) {
  if (replicas_.find(key) != nullptr) arrived_.push_back(key);
}

void Replication::on_intents_over(const Keys& keys) {
  Keys dropped;
  for (const Key key : keys) {
    const Replica* const replica = replicas_.find(key);
    // Replicas with unsent updates wait: the updates are sent together with those of other replicas, not in a
    // message of their own.
    if (replica != nullptr) (replica->is_dirty ? outlived_ : dropped).push_back(key);
  }
  drop(dropped);
}

void Replication::drop_lost(Key key) {
  const Replica* const replica = replicas_.find(key);
  if (replica == nullptr) return;
  if (replica->is_dirty) rows_.session.note_lost(*rows_.lost(key));
  replicas_.erase(key);
  rows_.unmark_if_plain(key);
  ++rows_.generation;
}

void Replication::on_clock_begins(bool is_barrier, Clock lead_clocks, const Keys& used) {
  drop_some(arrived_, [&](Key key) { return rows_.is_near(key); });
  const Clock clock = rows_.session.current_clock();
  // About once in the time that a row needs to come: to send more often would only make more messages. If a
  // clock takes longer than that, updates are sent at each clock.
  const Clock clocks_between_sends = std::clamp<Clock>(lead_clocks - 1, 1, kMostClocksUnsent);
  const bool is_time_to_send = is_barrier || clock - sent_at_ >= clocks_between_sends;
  // Some updates may have to wait: then all are looked at again at the next clock.
  if (is_time_to_send && settle()) sent_at_ = clock;
  if (is_time_to_send) drop_some(outlived_, [&](Key key) { return !rows_.intents.told().contains(key); });
  for (const Key key : used) {
    Replica* const replica = replicas_.find(key);
    if (replica != nullptr && replica->read_at < clock) ask_for_refresh(key, *replica);
  }
  begin_refreshes();
}

template <class IsToBeDropped>
void Replication::drop_some(Keys& waiting, const IsToBeDropped& is_to_be_dropped) {
  Keys dropped;
  for (const Key key : std::exchange(waiting, {})) {
    const Replica* const replica = replicas_.find(key);
    if (replica == nullptr || !is_to_be_dropped(key)) continue;
    (replica->is_refreshing ? waiting : dropped).push_back(key);
  }
  drop(dropped);
}

bool Replication::settle() {
  Keys keys;
  bool all = true;
  for (const Key key : replicas_.take_dirty()) {
    const Replica* const replica = replicas_.find(key);
    if (replica == nullptr || !replica->is_dirty) continue;
    if (replica->is_refreshing) {
      replicas_.put_back_dirty(key);
      all = false;
    } else {
      keys.push_back(key);
    }
  }
  send_updates_of(keys);
  return all;
}

void Replication::drop(const Keys& keys) {
  if (keys.empty()) return;
  send_updates_of(keys);
  for (const Key key : keys) {
    replicas_.erase(key);
    rows_.unmark_if_plain(key);
  }
}

/// REQUIRES: none of these replicas is being read.
void Replication::send_updates_of(const Keys& keys) {
  Keys dirty;
  std::vector<std::byte> updates;
  updates.reserve(keys.size() * rows_.layout.row_bytes);
  for (const Key key : keys) {
    Replica* const replica = replicas_.find(key);
    if (replica == nullptr || !replica->is_dirty) continue;  // it is lost, or the key occurs twice
    replicas_.take_updates(*replica, updates);
    dirty.push_back(key);
  }
  if (dirty.empty()) return;
  auto push = std::make_shared<MovingPush>(rows_, std::move(dirty), std::move(updates));
  push->begin();
  rows_.session.start(std::move(push));
}

}  // namespace verbena::worker
