#include "worker/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "protocol/prefetch.hpp"
#include "worker/moving_now.hpp"
#include "worker/pull_now.hpp"
#include "worker/session_core.hpp"
#include "worker/table_core.hpp"

namespace verbena {

namespace {

using worker::KeySequence;
using worker::MovingOperation;
using worker::PullOperation;

/// Pushes to a dynamic table that nobody waits for; the next one waits.
constexpr std::size_t kMostPushesUnderWay = 16;

void set_keys(PullOperation& operation, std::span<const Key> keys) {
  operation.key_copy.assign(keys.begin(), keys.end());
  operation.keys = KeySequence(std::span<const Key>(operation.key_copy));
}
void set_keys(PullOperation& operation, KeyRange range) {
  operation.keys = KeySequence(range);
}

/// Others that are near in place of those of `keys` that are not, each with probability `preference`, as far as any are found.
/// Returns how many. All draw before one looks, so that what they look at is on its way to the processor's cache.
std::size_t redraw(std::span<Key> keys, double preference, const KeyDistribution& distribution,
                   std::mt19937_64& random, const worker::MovingRows& moving) {
  struct Candidate {
    std::size_t index;
    Key key;
  };
  std::bernoulli_distribution prefers(preference);
  std::vector<Candidate> far;
  for (const Key key : keys) moving.prefetch_presence(key);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!moving.is_cheap(keys[i]) && prefers(random)) far.push_back({i, keys[i]});
  }
  std::size_t redrawn = 0;
  for (int redraws = 0; redraws < kMostRedraws && !far.empty(); ++redraws) {
    for (Candidate& candidate : far) {
      candidate.key = distribution.draw(random);
      moving.prefetch_presence(candidate.key);
    }
    redrawn += std::erase_if(far, [&](const Candidate& candidate) {
      if (!moving.is_cheap(candidate.key)) return false;
      keys[candidate.index] = candidate.key;
      return true;
    });
  }
  return redrawn;
}

/// Of the keys from the index `next` on.
template <class Keys>
std::shared_ptr<PullOperation> make_pull(const worker::TableCore& table, Keys keys, std::size_t next,
                                         std::byte* out) {
  std::shared_ptr<PullOperation> operation;
  if (table.moving() == nullptr) {
    operation = std::make_shared<PullOperation>();
  } else {
    auto moving = std::make_shared<MovingOperation>();
    moving->kind = MovingOperation::Kind::kPull;
    moving->waits_for_moves = true;
    for (std::size_t index = next; index < keys.size(); ++index) moving->todo.push_back(index);
    operation = std::move(moving);
  }
  set_keys(*operation, keys);
  operation->out = out;
  operation->next = next;
  return operation;
}

absl::Status ready(worker::SessionCore& session, const worker::TableCore& table, const KeySequence& keys,
                   std::size_t values) {
  if (!session.status().ok()) return session.status();
  return table.check(keys, values);
}

/// As KeySequence, of one kind each, for what is done for each row.
struct KeySet {
  std::span<const Key> keys;
  [[nodiscard]] std::size_t size() const { return keys.size(); }
  [[nodiscard]] static constexpr bool is_range() { return false; }
  Key operator[](std::size_t i) const { return keys[i]; }
  [[nodiscard]] bool all_below(std::uint64_t rows) const {
    Key greatest = 0;
    for (const Key key : keys) greatest = std::max(greatest, key);
    return greatest < rows;
  }
};
struct KeyRun {
  KeyRange range;
  [[nodiscard]] std::size_t size() const { return range.size(); }
  [[nodiscard]] static constexpr bool is_range() { return true; }
  Key operator[](std::size_t i) const { return range.first + i; }
  [[nodiscard]] bool all_below(std::uint64_t rows) const {
    return range.first <= range.last && range.last <= rows;
  }
};
KeySet sequence_of(std::span<const Key> keys) {
  return {keys};
}
KeyRun sequence_of(KeyRange range) {
  return {range};
}

/// As ready(), in a few instructions. `width` is the table's, or static_width() for a static table or none.
template <class Sequence>
bool is_ready(worker::SessionCore& session, const worker::TableCore& table, const Sequence& sequence,
              std::size_t values, std::size_t width) {
  return session.status().ok() && values == sequence.size() * width &&
         sequence.all_below(table.options().rows);
}

// Not inlined, so that pulls and pushes that find all rows at hand do not pay for what these need.

/// The rest of a pull, from the index `next` on, which has to wait for something.
template <class Keys>
[[gnu::noinline]] absl::Status pull_rest(worker::SessionCore& session, worker::TableCore& table, Keys keys,
                                         std::byte* out, std::size_t next) {
  std::shared_ptr<PullOperation> operation = make_pull(table, keys, next, out);
  session.start(operation, table);
  return session.wait_for(*operation);
}

/// A pull of a dynamic table, or one that cannot be.
template <class Keys>
[[gnu::noinline]] absl::Status pull_otherwise(worker::SessionCore& session, worker::TableCore& table,
                                              Keys keys, std::span<std::byte> out, std::size_t values) {
  const auto sequence = sequence_of(keys);
  if (sequence.size() == 0 || !is_ready(session, table, sequence, values, table.options().width)) [[unlikely]]
    return ready(session, table, KeySequence(keys), values);
  session.counters().rows_pulled += sequence.size();
  const std::size_t done = table.moving()->pull_now(sequence, 0, out.data());
  return done == sequence.size() ? absl::OkStatus() : pull_rest(session, table, keys, out.data(), done);
}

template <class Keys>
absl::Status pull_rows(worker::SessionCore& session, worker::TableCore& table, Keys keys,
                       std::span<std::byte> out, std::size_t values) {
  if (!session.is_here()) [[unlikely]]
    return session.elsewhere();
  const auto sequence = sequence_of(keys);
  session.poll_sometimes(sequence.size());
  if (!is_ready(session, table, sequence, values, table.static_width())) [[unlikely]]
    return pull_otherwise(session, table, keys, out, values);
  session.counters().rows_pulled += sequence.size();
  const std::size_t done = table.pull_now(sequence, 0, out.data());
  return done == sequence.size() ? absl::OkStatus() : pull_rest(session, table, keys, out.data(), done);
}

/// A push to a dynamic table, or one that cannot be.
template <class Keys>
[[gnu::noinline]] absl::Status push_otherwise(worker::SessionCore& session, worker::TableCore& table,
                                              Keys keys, std::span<const std::byte> updates,
                                              std::size_t values, bool wait) {
  const auto sequence = sequence_of(keys);
  if (sequence.size() == 0 || !is_ready(session, table, sequence, values, table.options().width)) [[unlikely]]
    return ready(session, table, KeySequence(keys), values);
  session.counters().rows_pushed += sequence.size();
  const std::size_t done = table.moving()->push_now(sequence, updates.data());
  if (done == sequence.size()) return absl::OkStatus();
  auto operation = std::make_shared<MovingOperation>();
  operation->kind = MovingOperation::Kind::kPush;
  operation->what = "push";
  operation->waits_for_moves = true;
  for (std::size_t index = done; index < sequence.size(); ++index) operation->todo.push_back(index);
  operation->updates = updates.data();
  set_keys(*operation, keys);
  if (table.moving()->is_asynchronous()) {
    wait = false;
    operation->is_background = true;
    operation->begun_at = session.current_clock();
  }
  if (!wait) {
    operation->update_copy.assign(updates.begin(), updates.end());
    operation->updates = operation->update_copy.data();
  }
  table.moving()->begin_push(*operation);
  session.start(operation, table);
  if (wait) return session.wait_for(*operation);
  return session.wait_until(
      [&] { return table.moving()->pushes_under_way() <= kMostPushesUnderWay; },
      session.options().clock_timeout_ms,
      [&] { return fmt::format("pushes to table \"{}\" to be applied", table.options().name); });
}

template <class Keys>
absl::Status push_rows(worker::SessionCore& session, worker::TableCore& table, Keys keys,
                       std::span<const std::byte> updates, std::size_t values, bool wait) {
  if (!session.is_here()) [[unlikely]]
    return session.elsewhere();
  const auto sequence = sequence_of(keys);
  session.poll_sometimes(sequence.size());
  if (!is_ready(session, table, sequence, values, table.static_width())) [[unlikely]]
    return push_otherwise(session, table, keys, updates, values, wait);
  return table.push(KeySequence(keys), updates.data(), wait);
}

}  // namespace

/// What an operation waits for before it begins.
struct worker::Dependencies {
  static std::vector<std::shared_ptr<PullOperation>> of(const OperationOptions& options) {
    std::vector<std::shared_ptr<PullOperation>> operations;
    for (const Pending& pending : options.after) {
      if (!pending.done()) operations.push_back(pending.operation_);
    }
    return operations;
  }
};

namespace {

template <class Keys>
absl::StatusOr<std::shared_ptr<PullOperation>> start_pull(worker::SessionCore& session,
                                                          worker::TableCore& table, Keys keys,
                                                          std::span<std::byte> out, std::size_t values,
                                                          const OperationOptions& options) {
  if (!session.is_here()) return session.elsewhere();
  if (absl::Status status = ready(session, table, KeySequence(keys), values); !status.ok()) return status;
  session.counters().rows_pulled += keys.size();
  std::shared_ptr<PullOperation> operation = make_pull(table, keys, 0, out.data());
  operation->after = worker::Dependencies::of(options);
  session.start(operation, table);
  return operation;
}

template <class Keys>
absl::Status push_after(worker::SessionCore& session, worker::TableCore& table, Keys keys,
                        std::span<const std::byte> updates, std::size_t values,
                        const OperationOptions& options) {
  if (!session.is_here()) return session.elsewhere();
  for (const std::shared_ptr<PullOperation>& operation : worker::Dependencies::of(options)) {
    static_cast<void>(session.wait_for(*operation));  // how it ends is its own affair
    if (!session.status().ok()) return session.status();
  }
  return push_rows(session, table, keys, updates, values, /*wait=*/false);
}

/// As ready(), of a dynamic table. `distinction`: what only rows of such a one can do.
absl::Status ready_dynamic(worker::SessionCore& session, const worker::TableCore& table,
                           const KeySequence& keys, std::size_t values, std::string_view distinction) {
  if (!session.is_here()) return session.elsewhere();
  session.poll_sometimes(keys.size());
  if (absl::Status status = ready(session, table, keys, values); !status.ok()) return status;
  if (table.moving() != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("table \"{}\" is static: only rows of a dynamic one {}",
                                                   table.options().name, distinction));
}

template <class Keys>
absl::StatusOr<std::shared_ptr<PullOperation>> start_localize(worker::SessionCore& session,
                                                              worker::TableCore& table, Keys keys,
                                                              const OperationOptions& options) {
  const KeySequence sequence(keys);
  if (absl::Status status = ready_dynamic(session, table, sequence, sequence.size() * table.options().width,
                                          "can be localized");
      !status.ok()) {
    return status;
  }
  auto operation = std::make_shared<MovingOperation>();
  operation->kind = MovingOperation::Kind::kLocalize;
  operation->what = "localize";
  operation->waits_for_moves = true;
  operation->after = worker::Dependencies::of(options);
  set_keys(*operation, keys);
  table.moving()->begin_localize(*operation);
  session.start(operation, table);
  return operation;
}

template <class Keys>
absl::Status intend(worker::SessionCore& session, worker::TableCore& table, Keys keys, std::int64_t from,
                    std::int64_t to) {
  const KeySequence sequence(keys);
  if (absl::Status status =
          ready_dynamic(session, table, sequence, sequence.size() * table.options().width, "follow intents");
      !status.ok()) {
    return status;
  }
  if (from > to) {
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": an intent from clock {} to clock {}", table.options().name, from, to));
  }
  table.moving()->intend(sequence, from, to);
  return absl::OkStatus();
}

}  // namespace

absl::Status Pending::wait() {
  if (!operation_) return status_;
  return session_->is_here() ? session_->wait_for(*operation_) : session_->elsewhere();
}

bool Pending::done() const {
  return !operation_ || operation_->ended;
}

template <class Value>
absl::Status Table<Value>::pull(std::span<const Key> keys, std::span<Value> values) {
  return pull_rows(*session_, *core_, keys, std::as_writable_bytes(values), values.size());
}
template <class Value>
absl::Status Table<Value>::pull(KeyRange range, std::span<Value> values) {
  return pull_rows(*session_, *core_, range, std::as_writable_bytes(values), values.size());
}
template <class Value>
absl::Status Table<Value>::push(std::span<const Key> keys, std::span<const Value> updates) {
  return push_rows(*session_, *core_, keys, std::as_bytes(updates), updates.size(), /*wait=*/true);
}
template <class Value>
absl::Status Table<Value>::push(KeyRange range, std::span<const Value> updates) {
  return push_rows(*session_, *core_, range, std::as_bytes(updates), updates.size(), /*wait=*/true);
}

template <class Value>
Pending Table<Value>::pull_async(std::span<const Key> keys, std::span<Value> values,
                                 const OperationOptions& options) {
  auto pull = start_pull(*session_, *core_, keys, std::as_writable_bytes(values), values.size(), options);
  return pull.ok() ? Pending(*session_, *std::move(pull)) : Pending(pull.status());
}
template <class Value>
Pending Table<Value>::pull_async(KeyRange range, std::span<Value> values, const OperationOptions& options) {
  auto pull = start_pull(*session_, *core_, range, std::as_writable_bytes(values), values.size(), options);
  return pull.ok() ? Pending(*session_, *std::move(pull)) : Pending(pull.status());
}
template <class Value>
Pending Table<Value>::push_async(std::span<const Key> keys, std::span<const Value> updates,
                                 const OperationOptions& options) {
  return Pending(push_after(*session_, *core_, keys, std::as_bytes(updates), updates.size(), options));
}
template <class Value>
Pending Table<Value>::push_async(KeyRange range, std::span<const Value> updates,
                                 const OperationOptions& options) {
  return Pending(push_after(*session_, *core_, range, std::as_bytes(updates), updates.size(), options));
}

template <class Value>
Pending Table<Value>::localize(std::span<const Key> keys, const OperationOptions& options) {
  auto localize = start_localize(*session_, *core_, keys, options);
  return localize.ok() ? Pending(*session_, *std::move(localize)) : Pending(localize.status());
}
template <class Value>
Pending Table<Value>::localize(KeyRange range, const OperationOptions& options) {
  auto localize = start_localize(*session_, *core_, range, options);
  return localize.ok() ? Pending(*session_, *std::move(localize)) : Pending(localize.status());
}

template <class Value>
absl::Status Table<Value>::hold(std::span<const Key> keys, std::span<Value*> rows) {
  if (absl::Status status =
          ready_dynamic(*session_, *core_, KeySequence(keys), rows.size() * width(), "can be held");
      !status.ok()) {
    return status;
  }
  core_->moving()->hold(
      keys, [&](std::size_t i, std::byte* values) { rows[i] = reinterpret_cast<Value*>(values); });
  return absl::OkStatus();
}
template <class Value>
bool Table<Value>::is_here(Key key) const {
  return core_->moving() != nullptr && core_->moving()->is_free_here(key);
}
template <class Value>
void Table<Value>::prefetch(Key key) const {
  if (core_->moving() != nullptr) core_->moving()->prefetch(key);
}
template <class Value>
absl::Status Table<Value>::release() {
  if (!session_->is_here()) return session_->elsewhere();
  if (core_->moving() != nullptr) core_->moving()->release();
  return absl::OkStatus();
}

template <class Value>
absl::Status Table<Value>::intent(std::span<const Key> keys, std::int64_t from, std::int64_t to) {
  return intend(*session_, *core_, keys, from, to);
}
template <class Value>
absl::Status Table<Value>::intent(KeyRange range, std::int64_t from, std::int64_t to) {
  return intend(*session_, *core_, range, from, to);
}

template <class Value>
absl::StatusOr<Sample> Table<Value>::prepare_sample(const KeyDistribution& distribution, std::size_t count,
                                                    std::mt19937_64& random, const SampleOptions& options) {
  if (!session_->is_here()) return session_->elsewhere();
  const std::uint64_t rows = core_->options().rows;
  if (!(options.preference >= 0 && options.preference <= 1) || distribution.range().last > rows) {
    return absl::InvalidArgumentError(fmt::format(
        "table \"{}\" of {} rows: a sample of keys {} to below {} with preference {}", core_->options().name,
        rows, distribution.range().first, distribution.range().last, options.preference));
  }
  const worker::MovingRows* const moving = core_->moving();
  if (options.preference > 0 && moving == nullptr) {
    return absl::FailedPreconditionError(
        fmt::format("table \"{}\" is static: no row is nearer than another", core_->options().name));
  }
  Sample sample;
  sample.keys_.resize(count);
  for (Key& key : sample.keys_) key = distribution.draw(random);
  if (options.preference > 0)
    sample.redrawn_ = redraw(sample.keys_, options.preference, distribution, random, *moving);
  if (options.from != options.to) {
    if (absl::Status status = intent(sample.keys(), options.from, options.to); !status.ok()) return status;
  }
  return sample;
}

template <class Value>
std::uint64_t Table<Value>::rows() const {
  return core_->options().rows;
}
template <class Value>
std::uint32_t Table<Value>::width() const {
  return core_->options().width;
}
template <class Value>
const StalenessHistogram& Table<Value>::staleness() const {
  return core_->staleness();
}

template class Table<float>;
template class Table<double>;
template class Table<std::int32_t>;
template class Table<std::int64_t>;

}  // namespace verbena
