// What users call of a table whose rows move (worker/table.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "protocol/prefetch.hpp"
#include "worker/moving/moving_now.hpp"
#include "worker/moving/moving_table.hpp"

namespace verbena::worker {

using protocol::Key;
using protocol::LockResult;

namespace {

/// Pushes that nobody waits for; the next one waits.
constexpr std::size_t kMostPushesUnderWay = 16;

}  // namespace

template <class Keys>
[[gnu::always_inline]] inline absl::Status MovingTable::pull_rows(Keys keys, std::byte* out,
                                                                  std::size_t values) {
  if (!session_.is_here()) [[unlikely]]
    return session_.elsewhere();
  session_.poll_sometimes(keys.size());
  if (!is_ready(keys, values)) [[unlikely]]
    return check_ready(KeySequence(keys), values);
  session_.counters().rows_pulled += keys.size();
  const std::size_t done = pull_now(keys, 0, out);
  return done == keys.size() ? absl::OkStatus() : pull_rest(KeySequence(keys), out, done);
}

absl::Status MovingTable::pull(std::span<const Key> keys, std::byte* out, std::size_t values) {
  return pull_rows(KeyList{keys}, out, values);
}

absl::Status MovingTable::pull(protocol::KeyRange range, std::byte* out, std::size_t values) {
  return pull_rows(KeyRun{range}, out, values);
}

std::shared_ptr<Operation> MovingTable::make_pull(const KeySequence& keys, std::size_t next, std::byte* out) {
  auto pull = std::make_shared<MovingPull>(*this, "pull");
  pull->set_keys(keys);
  pull->out = out;
  for (std::size_t index = next; index < keys.size(); ++index) pull->todo.push_back(index);
  return pull;
}

template <class Keys>
[[gnu::always_inline]] inline absl::Status MovingTable::push_rows(Keys keys, const std::byte* updates,
                                                                  std::size_t values, bool wait) {
  if (!session_.is_here()) [[unlikely]]
    return session_.elsewhere();
  session_.poll_sometimes(keys.size());
  if (!is_ready(keys, values)) [[unlikely]]
    return check_ready(KeySequence(keys), values);
  session_.counters().rows_pushed += keys.size();
  const std::size_t done = push_now(keys, updates);
  return done == keys.size() ? absl::OkStatus() : push_rest(KeySequence(keys), updates, done, wait);
}

absl::Status MovingTable::push(std::span<const Key> keys, const std::byte* updates, std::size_t values,
                               bool wait) {
  return push_rows(KeyList{keys}, updates, values, wait);
}

absl::Status MovingTable::push(protocol::KeyRange range, const std::byte* updates, std::size_t values,
                               bool wait) {
  return push_rows(KeyRun{range}, updates, values, wait);
}

/// From the index `next` on: what is not here, or in another's hands.
absl::Status MovingTable::push_rest(const KeySequence& keys, const std::byte* updates, std::size_t next,
                                    bool wait) {
  auto push = std::make_shared<MovingPush>(*this, "push");
  for (std::size_t index = next; index < keys.size(); ++index) push->todo.push_back(index);
  push->updates = updates;
  push->set_keys(keys);
  if (is_asynchronous_) {
    wait = false;
    push->is_background = true;
    push->begun_at = session_.current_clock();
  }
  if (!wait) {
    push->update_copy.assign(updates, updates + keys.size() * row_bytes_);
    push->updates = push->update_copy.data();
  }
  begin_push(*push);
  session_.start(push);
  if (wait) return session_.wait_for(*push);
  return session_.wait_until(
      [&] { return pushes_under_way_ <= kMostPushesUnderWay; }, session_.options().clock_timeout_ms,
      [&] { return fmt::format("pushes to table \"{}\" to be applied", options_.name); });
}

absl::StatusOr<std::shared_ptr<Operation>> MovingTable::start_localize(const KeySequence& keys,
                                                                       const Operations& after) {
  if (absl::Status status = enter(keys, keys.size() * options_.width); !status.ok()) return status;
  auto localize = std::make_shared<Localize>(*this, "localize");
  localize->after = after;
  localize->set_keys(keys);
  begin_localize(*localize);
  session_.start(localize);
  return localize;
}

absl::Status MovingTable::hold(std::span<const Key> keys, std::size_t rows,
                               absl::FunctionRef<void(std::size_t, std::byte*)> use) {
  if (absl::Status status = enter(KeySequence(keys), rows * options_.width); !status.ok()) return status;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (own_ != nullptr && i + protocol::kKeysAhead < keys.size())
      protocol::prefetch_to_write(own_slot(keys[i + protocol::kKeysAhead]).bytes);
    HeldRow row;
    LockResult result = LockResult::kNotOwned;
    if (own_ != nullptr && !is_marked(keys[i])) {
      row.slot = own_slot(keys[i]);
      result = protocol::try_lock(row.slot, holder_, row.header);
    }
    if (result == LockResult::kLocked) held_.push_back(row);
    use(i, result == LockResult::kLocked ? protocol::slot_values(row.slot) : nullptr);
  }
  session_.rows_held() += held_.size();
  session_.counters().rows_pulled += held_.size();
  session_.counters().rows_pulled_locally += held_.size();
  return absl::OkStatus();
}

void MovingTable::release() {
  for (const HeldRow& row : held_) protocol::store_header(row.slot, row.header);
  session_.rows_held() -= held_.size();
  session_.counters().rows_pushed += held_.size();
  session_.counters().rows_pushed_locally += held_.size();
  held_.clear();
}

/// All draw before one looks, so that what they look at is on its way to the processor's cache.
std::size_t MovingTable::redraw(std::span<Key> keys, double preference, const KeyDistribution& distribution,
                                std::mt19937_64& random) const {
  struct Candidate {
    std::size_t index;
    Key key;
  };
  std::bernoulli_distribution prefers(preference);
  std::vector<Candidate> far;
  for (const Key key : keys) prefetch_presence(key);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!is_cheap(keys[i]) && prefers(random)) far.push_back({i, keys[i]});
  }
  std::size_t redrawn = 0;
  for (int redraws = 0; redraws < kMostRedraws && !far.empty(); ++redraws) {
    for (Candidate& candidate : far) {
      candidate.key = distribution.draw(random);
      prefetch_presence(candidate.key);
    }
    redrawn += std::erase_if(far, [&](const Candidate& candidate) {
      if (!is_cheap(candidate.key)) return false;
      keys[candidate.index] = candidate.key;
      return true;
    });
  }
  return redrawn;
}

}  // namespace verbena::worker
