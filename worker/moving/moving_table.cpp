#include "worker/moving/moving_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/return_if_error.hpp"
#include "consistency/rules.hpp"
#include "worker/moving/moving_now.hpp"

namespace verbena::worker {

using consistency::Clock;
using protocol::LockResult;

namespace {

/// The most pushes under way for which callers do not wait; the next one waits.
constexpr std::size_t kMostPushesUnderWay = 16;

}  // namespace

MovingTable::MovingTable(SessionCore& session, std::uint32_t number, const TableOptions& options,
                         ValueType type)
    : TableCore(session, number, options, type),
      rows_(session, number, options_, layout_, /*is_asynchronous=*/!rules_.pushes_at_once) {}

// ---- what users call

absl::Status MovingTable::pull(std::span<const Key> keys, std::byte* out, std::size_t values) {
  return pull_rows(KeyList{keys}, out, values, [&](const auto& all) { return pull_now(all, out); });
}

absl::Status MovingTable::pull(KeyRange range, std::byte* out, std::size_t values) {
  return pull_rows(KeyRun{range}, out, values, [&](const auto& all) { return pull_now(all, out); });
}

std::shared_ptr<Operation> MovingTable::make_pull(const Keys& keys, std::size_t next, std::byte* out) {
  return std::make_shared<MovingPull>(rows_, keys, next, out);
}

template <class Keys>
[[gnu::always_inline]] inline absl::Status MovingTable::push_rows(Keys keys, const std::byte* updates,
                                                                  std::size_t values, bool wait) {
  if (!session_.is_here()) [[unlikely]]
    return session_.elsewhere();
  session_.poll_sometimes(keys.size());
  if (!is_ready(keys, values)) [[unlikely]]
    return check_ready(keys.all(), values);
  session_.counters().rows_pushed += keys.size();
  const std::size_t done = push_now(keys, updates);
  return done == keys.size() ? absl::OkStatus() : push_rest(keys.all(), updates, done, wait);
}

absl::Status MovingTable::push(std::span<const Key> keys, const std::byte* updates, std::size_t values,
                               bool wait) {
  return push_rows(KeyList{keys}, updates, values, wait);
}

absl::Status MovingTable::push(KeyRange range, const std::byte* updates, std::size_t values, bool wait) {
  return push_rows(KeyRun{range}, updates, values, wait);
}

/// Pushes from the index `next` on: to rows that are not here, or are locked by another.
absl::Status MovingTable::push_rest(const Keys& keys, const std::byte* updates, std::size_t next, bool wait) {
  const MovingPush::Waits waits = rows_.is_asynchronous ? MovingPush::Waits::kNobody
                                  : wait                ? MovingPush::Waits::kCaller
                                                        : MovingPush::Waits::kClock;
  const auto push = std::make_shared<MovingPush>(rows_, keys, next, updates, waits);
  push->begin();
  session_.start(push);
  push->let_caller_go();
  if (waits == MovingPush::Waits::kCaller) return session_.wait_for(*push);
  return session_.wait_until(
      [&] { return rows_.pushes_under_way <= kMostPushesUnderWay; }, session_.options().clock_timeout_ms,
      [&] { return fmt::format("pushes to table \"{}\" to be applied", options_.name); });
}

absl::StatusOr<std::shared_ptr<Operation>> MovingTable::start_localize(const Keys& keys,
                                                                       const Operations& after) {
  RETURN_IF_ERROR(enter(keys, keys.size() * options_.width));
  auto localize = std::make_shared<Localize>(rows_, Localize::Why::kUser);
  localize->after = after;
  localize->begin(keys);
  session_.start(localize);
  return localize;
}

absl::Status MovingTable::intend(const Keys& keys, Clock from, Clock to) {
  RETURN_IF_ERROR(enter(keys, keys.size() * options_.width));
  if (from > to) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": an intent from clock {} to clock {}", options_.name, from, to));
  }
  if (to <= session_.current_clock() || rows_.are_always_here()) return absl::OkStatus();
  std::vector<Key> copy(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) copy[i] = keys[i];
  rows_.intents.add(std::move(copy), from, to);
  return absl::OkStatus();
}

absl::StatusOr<std::size_t> MovingTable::hold(const Keys& keys, std::size_t rows,
                                              absl::FunctionRef<void(std::size_t, std::byte*)> use) {
  RETURN_IF_ERROR(enter(keys, rows * options_.width));
  if (!held_.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("table \"{}\": {} rows are held already, and are to be given back first", options_.name,
                    held_.size()));
  }
  const OwnSlots& own = rows_.own;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (own.is_mapped() && i + base::kKeysAhead < keys.size())
      base::prefetch_to_write(own.slot(keys[i + base::kKeysAhead]).bytes);
    HeldRow row;
    LockResult result = LockResult::kNotOwned;
    if (own.is_mapped() && !rows_.marked.contains(keys[i])) {
      row.slot = own.slot(keys[i]);
      result = own.try_lock(row.slot, row.header);
    }
    if (result == LockResult::kLocked) held_.push_back(row);
    use(i, result == LockResult::kLocked ? protocol::slot_values(row.slot) : nullptr);
  }
  session_.rows_held() += held_.size();
  session_.counters().rows_pulled += held_.size();
  session_.counters().rows_pulled_locally += held_.size();
  return held_.size();
}

void MovingTable::release() {
  for (const HeldRow& row : held_) protocol::store_header(row.slot, row.header);
  session_.rows_held() -= held_.size();
  session_.counters().rows_pushed += held_.size();
  session_.counters().rows_pushed_locally += held_.size();
  held_.clear();
}

/// All keys are drawn before the first is checked, so that what the checks read is already on its way to the
/// processor's cache.
std::size_t MovingTable::redraw(std::span<Key> keys, double preference, const KeyDistribution& distribution,
                                std::mt19937_64& random) const {
  struct Candidate {
    std::size_t index;
    Key key;
  };
  std::bernoulli_distribution prefers(preference);
  std::vector<Candidate> far;
  for (const Key key : keys) rows_.prefetch_presence(key);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!rows_.is_cheap(keys[i]) && prefers(random)) far.push_back({i, keys[i]});
  }
  std::size_t redrawn = 0;
  for (int redraws = 0; redraws < kMostRedraws && !far.empty(); ++redraws) {
    for (Candidate& candidate : far) {
      candidate.key = distribution.draw(random);
      rows_.prefetch_presence(candidate.key);
    }
    redrawn += std::erase_if(far, [&](const Candidate& candidate) {
      if (!rows_.is_cheap(candidate.key)) return false;
      keys[candidate.index] = candidate.key;
      return true;
    });
  }
  return redrawn;
}

// ---- what the session calls

bool MovingTable::send_put_off() {
  rows_.send_requests();
  return rows_.has_told_all();
}

void MovingTable::on_clock_ends() {
  if (!rows_.is_leaving) rows_.intents.on_clock_ends(session_.current_clock() + 1);
}

void MovingTable::on_clock_begins(bool is_barrier) {
  LeadTime& lead = rows_.intents.lead();
  const transport::TimePoint now = session_.now();
  if (clock_began_ != transport::TimePoint{})
    lead.add_clock(std::chrono::duration<double>(now - clock_began_).count());
  clock_began_ = now;
  if (rows_.is_leaving) return;
  rows_.replication.on_clock_begins(is_barrier, lead.clocks(),
                                    rows_.intents.take_used(session_.current_clock() + 1));
}

void MovingTable::on_leaving() {
  release();
  rows_.is_leaving = true;
}

}  // namespace verbena::worker
