// Intents and replicas of a dynamic table: what MovingTable does because of them.
//
// A replica holds all of this worker's updates at any time, whatever is under way, by three rules. Updates of
// a row that has a replica go into it, and from there to the owner as any push. While the owner's row is
// read, none are sent. And it is read only when those that were sent have been applied, which begin_reads()
// sees to.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "consistency/asp.hpp"
#include "protocol/prefetch.hpp"
#include "worker/moving/moving_now.hpp"
#include "worker/moving/moving_table.hpp"

namespace verbena::worker {

using consistency::Clock;
using protocol::Key;
using protocol::KeyRequests;

namespace {

constexpr Clock kMostClocksBehind = consistency::Asp::kMostClocksBehind;
/// Until updates are sent that nothing hinders. A reading may, for kMostClocksRefreshing: K + 1 with this. K
/// more they may take until they are applied.
constexpr Clock kMostClocksUnsent = kMostClocksBehind + 1 - MovingPull::kMostClocksRefreshing;

template <class PullOrPush>
void do_all(PullOrPush& operation) {
  for (std::size_t index = 0; index < operation.keys.size(); ++index) operation.todo.push_back(index);
}

}  // namespace

// ---- rows with a mark

bool MovingTable::is_usable(const Replica& replica) const {
  return replica.read_at >= session_.current_clock() - kMostClocksBehind &&
         replica.after_barrier == session_.barrier_clock();
}

void MovingTable::read_replica(const Replica& replica, std::byte* out) {
  std::memcpy(out, replica.values(), row_bytes_);
  ++session_.counters().rows_pulled_from_replicas;
}

bool MovingTable::push_to_replica(Key key, const std::byte* update) {
  Replica* const replica = is_marked(key) ? replicas_.find(key) : nullptr;
  if (replica == nullptr) return false;
  replicas_.push(key, *replica, update);
  ++session_.counters().rows_pushed_to_replicas;
  return true;
}

// ---- intents

absl::Status MovingTable::intend(const KeySequence& keys, Clock from, Clock to) {
  if (absl::Status status = enter(keys, keys.size() * options_.width); !status.ok()) return status;
  if (from > to) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": an intent from clock {} to clock {}", options_.name, from, to));
  }
  const Clock clock = session_.current_clock();
  const bool is_always_here = own_ != nullptr && nodes_.size() == 1;
  if (to <= clock || is_always_here) return absl::OkStatus();
  std::vector<Key> copy(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) copy[i] = keys[i];
  intents_.add(std::move(copy), from, to);
  if (from <= clock + lead_.clocks()) act_on_intents(clock);
  return absl::OkStatus();
}

void MovingTable::on_clock_ends() {
  if (is_leaving_) return;
  const Clock next = session_.current_clock() + 1;
  if (!intents_.empty() || !to_intend_.empty()) act_on_intents(next);
  end_intents(next);
}

void MovingTable::act_on_intents(Clock clock) {
  std::vector<Key> fresh = std::exchange(to_intend_, {});
  std::erase_if(fresh, [&](Key key) { return !intents_.has_begun(key) || intended_.contains(key); });
  for (const Key key : intents_.take_begun(clock, clock + lead_.clocks())) {
    // Not given up yet: nothing has happened.
    if (!ending_.erase(key) && !intended_.contains(key)) fresh.push_back(key);
  }
  begin_intents(fresh);
}

/// Of a row that is here nobody else need hear: who would have it finds out here. False: its home is to be
/// told.
bool MovingTable::begin_counted_intent(Key key) {
  if (own_ == nullptr) return false;
  const std::optional<std::uint32_t> since = presence_.begin_intent(key);
  if (!since) return false;
  const auto [intended, is_first] = intended_.try_emplace(key, {});
  if (!is_first && !nodes_[home(key)].is_dead) nodes_[home(key)].done.push_back({.key = key});
  intended->second = {.state = Intended::State::kCounted, .since = *since};
  if (replicas_.find(key) != nullptr) arrived_.push_back(key);
  return true;
}

void MovingTable::end_counted_intent(Key key, const Intended& intended) {
  if (presence_.end_intent(key, intended.since) && !nodes_[home(key)].is_dead)
    nodes_[home(key)].released.push_back({.key = key});
}

/// Tells the homes; those that no other node wants come here.
void MovingTable::begin_intents(const std::vector<Key>& keys) {
  if (keys.empty() || is_leaving_) return;
  auto localize = std::make_shared<Localize>(*this, "intent");
  localize->intends = true;
  localize->asked_at = session_.now();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + protocol::kKeysAhead < keys.size()) {
      intended_.prefetch(keys[i + protocol::kKeysAhead]);
      prefetch_presence(keys[i + protocol::kKeysAhead]);
    }
    const Key key = keys[i];
    // Said again to be alone, before this has done anything about it.
    if (const auto intended = intended_.find(key);
        intended != intended_.end() && intended->second.state != Intended::State::kShared) {
      continue;
    }
    if (begin_counted_intent(key)) continue;
    const auto [mover, begins] = moving_.try_emplace(key, Mover{localize.get(), localize->moves.size()});
    if (begins) {
      localize->add_move(key);
      intended_[key] = {};
    } else if (mover->second.operation != localize.get()) {
      to_intend_.push_back(key);
    }
  }
  if (!localize->moves.empty()) session_.start(std::move(localize));
}

/// Other nodes use it, too: it stays where it is.
void MovingTable::end_shared(Localize& localize, Move& move) {
  localize.enter(move, Phase::kDone);
  locations_[move.key] = {.node = move.from, .epoch = move.epoch};
  intended_[move.key] = {.state = Intended::State::kShared};
  moving_.erase(move.key);
  ++news_;
  // Unless another worker of this node has brought it here meanwhile, and this one changes it in place.
  if (begin_counted_intent(move.key) || is_here(move.key)) return;
  if (!is_asynchronous_ || is_leaving_) return;
  Replica* const replica = replicas_.make(move.key);
  if (replica == nullptr) return;  // it was one already, and might have come here
  mark(move.key);
  ++session_.counters().rows_replicated;
  // Otherwise it is read a clock before: until then it would only grow old.
  if (intents_.is_used_by(move.key, session_.current_clock() + 1)) ask_for_refresh(move.key, *replica);
}

void MovingTable::on_alone(Key key) {
  const auto intended = intended_.find(key);
  if (is_leaving_ || intended == intended_.end() || intended->second.state != Intended::State::kShared ||
      ending_.contains(key)) {
    return;
  }
  alone_.push_back(key);
}

void MovingTable::end_intents(Clock clock) {
  for (const Key key : intents_.take_ended(clock)) {
    if (ending_.insert(key)) ending_order_.push_back(key);
  }
  give_up_rows();
}

/// What is over, and can be given up: a row that is on its way, or being read, must wait.
void MovingTable::give_up_rows() {
  if (ending_order_.empty()) return;
  std::vector<Key> left;
  std::vector<Key> dropped;
  for (std::size_t i = 0; i < ending_order_.size(); ++i) {
    if (i + protocol::kKeysAhead < ending_order_.size()) {
      intended_.prefetch(ending_order_[i + protocol::kKeysAhead]);
      prefetch_presence(ending_order_[i + protocol::kKeysAhead]);
    }
    const Key key = ending_order_[i];
    if (!ending_.contains(key)) continue;
    const auto intended = intended_.find(key);
    if (intended == intended_.end()) {
      ending_.erase(key);
      continue;
    }
    Replica* const replica = replicas_.find(key);
    const bool is_counted = intended->second.state == Intended::State::kCounted;
    if (intended->second.state == Intended::State::kAsking ||
        (replica != nullptr && replica->is_refreshing)) {
      left.push_back(key);
      continue;
    }
    if (is_counted) end_counted_intent(key, intended->second);
    if (replica != nullptr) (replica->is_dirty ? outlived_ : dropped).push_back(key);
    intended_.erase(intended);
    ending_.erase(key);
    if (is_counted || nodes_[home(key)].is_dead) continue;
    nodes_[home(key)].done.push_back({.key = key});
  }
  ending_order_ = std::move(left);  // before what may step an operation, and come back here
  drop_replicas(dropped);
  send_put_off();
}

bool MovingTable::send_put_off() {
  bool all = true;
  for (Node& node : nodes_) {
    send_all(node, KeyRequests::Kind::kDone, node.done);
    send_all(node, KeyRequests::Kind::kReleased, node.released);
    all &= node.is_dead || (node.done.empty() && node.released.empty() && node.link->control.empty());
  }
  return all;
}

void MovingTable::on_leaving() {
  release();
  is_leaving_ = true;
}

void MovingTable::on_settled() {
  for (const Key key : intended_.keys()) {
    if (intended_[key].state != Intended::State::kCounted) continue;
    end_counted_intent(key, intended_[key]);
    intended_.erase(key);
  }
}

// ---- replicas

void MovingTable::on_clock_begins(bool is_barrier) {
  const transport::TimePoint now = session_.now();
  if (clock_began_ != transport::TimePoint{})
    lead_.add_clock(std::chrono::duration<double>(now - clock_began_).count());
  clock_began_ = now;
  if (is_leaving_) return;
  // Rows that lie here now.
  std::vector<Key> dropped;
  for (const Key key : std::exchange(arrived_, {})) {
    Replica* const replica = replicas_.find(key);
    if (replica == nullptr || !is_near(key)) continue;
    (replica->is_refreshing ? arrived_ : dropped).push_back(key);
  }
  drop_replicas(dropped);
  const Clock clock = session_.current_clock();
  const bool is_time_to_send = is_barrier || clock - sent_at_ >= clocks_between_sends();
  // Some may have to wait: then all are looked at again at the next clock.
  if (is_time_to_send && settle()) sent_at_ = clock;
  if (is_time_to_send) drop_outlived_replicas();
  for (const Key key : intents_.take_used(clock + 1)) {
    Replica* const replica = replicas_.find(key);
    if (replica != nullptr && replica->read_at < clock) ask_for_refresh(key, *replica);
  }
  begin_refreshes();
}

/// Until this worker sends its replicas' updates again: as long as a row needs to come. To send more often
/// would only make more messages. Where a clock is longer than that, it is at each.
Clock MovingTable::clocks_between_sends() const {
  return std::clamp<Clock>(lead_.clocks() - 1, 1, kMostClocksUnsent);
}

/// Whose intents are over, and which had updates to be sent first: with the others', not in a message of
/// their own.
void MovingTable::drop_outlived_replicas() {
  std::vector<Key> dropped;
  for (const Key key : std::exchange(outlived_, {})) {
    const Replica* const replica = replicas_.find(key);
    if (replica == nullptr || intended_.contains(key)) continue;
    (replica->is_refreshing ? outlived_ : dropped).push_back(key);
  }
  drop_replicas(dropped);
}

bool MovingTable::settle() {
  std::vector<Key> keys;
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

/// REQUIRES: none of them is being read.
void MovingTable::send_updates_of(const std::vector<Key>& keys) {
  std::vector<Key> dirty;
  std::vector<std::byte> updates;
  updates.reserve(keys.size() * row_bytes_);
  for (const Key key : keys) {
    Replica* const replica = replicas_.find(key);
    if (replica == nullptr || !replica->is_dirty) continue;  // it is lost, or comes twice
    replicas_.take_updates(*replica, updates);
    dirty.push_back(key);
  }
  if (dirty.empty()) return;
  auto push = std::make_shared<MovingPush>(*this, "push of replicas' updates");
  push->set_keys(std::move(dirty));
  push->is_of_replicas = push->is_background = true;
  push->begun_at = session_.current_clock();
  push->update_copy = std::move(updates);
  push->updates = push->update_copy.data();
  do_all(*push);
  begin_push(*push);
  session_.start(std::move(push));
}

void MovingTable::drop_replicas(const std::vector<Key>& keys) {
  if (keys.empty()) return;
  send_updates_of(keys);
  for (const Key key : keys) {
    replicas_.erase(key);
    unmark_if_plain(key);
  }
}

void MovingTable::ask_for_refresh(Key key, Replica& replica) {
  if (std::exchange(replica.is_refreshing, true)) return;
  to_refresh_.push_back(key);
}

void MovingTable::begin_refreshes() {
  if (to_refresh_.empty()) return;
  auto pull = std::make_shared<MovingPull>(*this, "refresh of replicas");
  pull->set_keys(std::exchange(to_refresh_, {}));
  pull->is_of_replicas = true;
  pull->begun_at = session_.current_clock();
  pull->begun_after_barrier = session_.barrier_clock();
  pull->refreshed.resize(row_bytes_);
  do_all(*pull);
  session_.start(std::move(pull));
}

void MovingTable::is_read(const MovingPull& pull, std::size_t index, const std::byte* row,
                          std::uint64_t& counter) {
  const Key key = pull.keys[index];
  reached(key);
  if (!pull.is_of_replicas) {
    ++counter;
    return;
  }
  ++session_.counters().rows_refreshed;
  Replica& replica = *replicas_.find(key);  // whoever drops it waits for this
  replicas_.put(replica, row);
  replica.read_at = pull.begun_at;
  replica.after_barrier = pull.begun_after_barrier;
  replica.is_refreshing = false;
  if (is_near(key)) arrived_.push_back(key);  // by the doing of another worker of this node
  ++news_;
}

}  // namespace verbena::worker
