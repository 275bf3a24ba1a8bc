#include <fmt/format.h>

#include <algorithm>

#include "base/return_if_error.hpp"
#include "worker/fixed/function_call.hpp"
#include "worker/session_core.hpp"
#include "worker/table_core.hpp"
#include <verbena/table.hpp>

namespace verbena {

/// What an operation waits for before it begins.
struct worker::Dependencies {
  static std::vector<std::shared_ptr<Operation>> of(const OperationOptions& options) {
    std::vector<std::shared_ptr<Operation>> operations;
    for (const Pending& pending : options.after) {
      if (!pending.done()) operations.push_back(pending.operation_);
    }
    return operations;
  }
  /// FAILED_PRECONDITION: one of them ends only after this clock, and nothing in the clock may wait for that.
  static absl::Status check(const OperationOptions& options) {
    const bool is_late = std::any_of(options.after.begin(), options.after.end(), [](const Pending& pending) {
      return !pending.done() && pending.operation_->is_held_back();
    });
    if (!is_late) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "an operation cannot begin after a call that changes rows when the clock ends: wait for the call "
        "after "
        "clock()");
  }
  /// Waits for them. Their own statuses are not for this call.
  static absl::Status wait_for(const OperationOptions& options, SessionCore& session) {
    RETURN_IF_ERROR(check(options));
    for (const std::shared_ptr<Operation>& operation : of(options)) {
      static_cast<void>(session.wait_for(*operation));
      RETURN_IF_ERROR(session.status());
    }
    return absl::OkStatus();
  }
};

absl::Status Pending::wait() {
  if (!operation_) return status_;
  return session_->is_here() ? session_->wait_for(*operation_) : session_->elsewhere();
}

bool Pending::done() const {
  return !operation_ || operation_->ended;
}

absl::StatusOr<FunctionResult> PendingResult::result() {
  RETURN_IF_ERROR(wait());
  return static_cast<const worker::FunctionCallOperation&>(*operation_).result();
}

absl::Status HeldRows::release() {
  if (table_ == nullptr) return absl::OkStatus();
  if (!session_->is_here()) return session_->elsewhere();
  std::exchange(table_, nullptr)->release();
  return absl::OkStatus();
}

// ---- with values as bytes

absl::StatusOr<std::size_t> UntypedTable::count_of(std::size_t bytes) const {
  const std::size_t one = value_bytes(core_->value_type());
  if (bytes % one == 0) return bytes / one;
  return absl::InvalidArgumentError(fmt::format("table \"{}\": {} bytes are no whole values of {} bytes",
                                                core_->options().name, bytes, one));
}

absl::Status UntypedTable::pull(Keys keys, std::span<std::byte> values) const {
  const absl::StatusOr<std::size_t> count = count_of(values.size());
  if (!count.ok()) return count.status();
  return keys.is_range() ? pull(keys.range(), values.data(), *count)
                         : pull(keys.list(), values.data(), *count);
}

absl::StatusOr<RowHandles> UntypedTable::locate(Keys keys) const {
  return core_->locate(keys);
}

absl::Status UntypedTable::pull(RowHandles& rows, std::span<std::byte> values) const {
  const absl::StatusOr<std::size_t> count = count_of(values.size());
  return count.ok() ? pull(rows, values.data(), *count) : count.status();
}

absl::Status UntypedTable::push(Keys keys, std::span<const std::byte> updates) const {
  const absl::StatusOr<std::size_t> count = count_of(updates.size());
  if (!count.ok()) return count.status();
  return keys.is_range() ? push(keys.range(), updates.data(), *count)
                         : push(keys.list(), updates.data(), *count);
}

Pending UntypedTable::pull_async(Keys keys, std::span<std::byte> values,
                                 const OperationOptions& options) const {
  const absl::StatusOr<std::size_t> count = count_of(values.size());
  return count.ok() ? pull_async(keys, values.data(), *count, options) : Pending(count.status());
}

Pending UntypedTable::push_async(Keys keys, std::span<const std::byte> updates,
                                 const OperationOptions& options) const {
  const absl::StatusOr<std::size_t> count = count_of(updates.size());
  return count.ok() ? push_async(keys, updates.data(), *count, options) : Pending(count.status());
}

absl::StatusOr<HeldRows> UntypedTable::hold(Keys keys, std::span<std::byte*> rows) const {
  return hold(keys, rows.size(), [&](std::size_t i, std::byte* values) { rows[i] = values; });
}

// ---- with a count of values

Pending UntypedTable::pending(absl::StatusOr<std::shared_ptr<worker::Operation>> started) const {
  return started.ok() ? Pending(*session_, *std::move(started)) : Pending(started.status());
}

absl::Status UntypedTable::pull(std::span<const Key> keys, std::byte* values, std::size_t count) const {
  return core_->pull(keys, values, count);
}
absl::Status UntypedTable::pull(KeyRange keys, std::byte* values, std::size_t count) const {
  return core_->pull(keys, values, count);
}
absl::Status UntypedTable::pull(RowHandles& rows, std::byte* values, std::size_t count) const {
  return core_->pull_located(rows, values, count);
}
absl::Status UntypedTable::push(std::span<const Key> keys, const std::byte* updates,
                                std::size_t count) const {
  return core_->push(keys, updates, count, /*wait=*/true);
}
absl::Status UntypedTable::push(KeyRange keys, const std::byte* updates, std::size_t count) const {
  return core_->push(keys, updates, count, /*wait=*/true);
}

Pending UntypedTable::pull_async(const Keys& keys, std::byte* values, std::size_t count,
                                 const OperationOptions& options) const {
  if (absl::Status status = worker::Dependencies::check(options); !status.ok()) return Pending(status);
  return pending(core_->start_pull(keys, values, count, worker::Dependencies::of(options)));
}

Pending UntypedTable::push_async(const Keys& keys, const std::byte* updates, std::size_t count,
                                 const OperationOptions& options) const {
  if (!session_->is_here()) return Pending(session_->elsewhere());
  if (absl::Status status = worker::Dependencies::wait_for(options, *session_); !status.ok())
    return Pending(status);
  return Pending(keys.is_range() ? core_->push(keys.range(), updates, count, /*wait=*/false)
                                 : core_->push(keys.list(), updates, count, /*wait=*/false));
}

absl::Status UntypedTable::scan(KeyRange range,
                                absl::FunctionRef<absl::Status(Key, const std::byte*)> use) const {
  return core_->scan(range, use);
}

absl::StatusOr<FunctionResult> UntypedTable::call(std::string_view function, Keys keys,
                                                  std::span<const double> numbers) const {
  return PendingResult(pending(core_->start_call(function, keys, numbers, /*wait=*/true))).result();
}

absl::StatusOr<TableMemory> UntypedTable::memory() const {
  const absl::StatusOr<FunctionResult> result = call("memory", kAllKeys);
  if (!result.ok()) return result.status();
  return TableMemory::of(*result);
}

PendingResult UntypedTable::call_async(std::string_view function, Keys keys, std::span<const double> numbers,
                                       const OperationOptions& options) const {
  if (!session_->is_here()) return PendingResult(Pending(session_->elsewhere()));
  if (absl::Status status = worker::Dependencies::wait_for(options, *session_); !status.ok())
    return PendingResult(Pending(status));
  return PendingResult(pending(core_->start_call(function, keys, numbers, /*wait=*/false)));
}

Pending UntypedTable::localize(Keys keys, const OperationOptions& options) const {
  if (absl::Status status = worker::Dependencies::check(options); !status.ok()) return Pending(status);
  return pending(core_->start_localize(keys, worker::Dependencies::of(options)));
}

absl::Status UntypedTable::intent(Keys keys, std::int64_t from, std::int64_t to) const {
  return core_->intend(keys, from, to);
}

bool UntypedTable::is_here(Key key) const {
  return core_->is_free_here(key);
}

void UntypedTable::prefetch(Key key) const {
  core_->prefetch(key);
}

absl::StatusOr<HeldRows> UntypedTable::hold(const Keys& keys, std::size_t rows,
                                            absl::FunctionRef<void(std::size_t, std::byte*)> use) const {
  const absl::StatusOr<std::size_t> taken = core_->hold(keys, rows, use);
  if (!taken.ok()) return taken.status();
  return *taken == 0 ? HeldRows() : HeldRows(*session_, *core_);
}

absl::StatusOr<Sample> UntypedTable::prepare_sample(const KeyDistribution& distribution, std::size_t count,
                                                    std::mt19937_64& random,
                                                    const SampleOptions& options) const {
  if (!session_->is_here()) return session_->elsewhere();
  const std::uint64_t rows = core_->keys_end();
  if (!(options.preference >= 0 && options.preference <= 1) || distribution.range().last > rows) {
    return absl::InvalidArgumentError(fmt::format(
        "table \"{}\" of {} rows: a sample of keys {} to below {} with preference {}", core_->options().name,
        rows, distribution.range().first, distribution.range().last, options.preference));
  }
  if (options.preference > 0 && !core_->rows_move()) {
    return absl::FailedPreconditionError(
        fmt::format("table \"{}\" is static: no row is nearer than another", core_->options().name));
  }
  Sample sample;
  sample.keys_.resize(count);
  for (Key& key : sample.keys_) key = distribution.draw(random);
  if (options.preference > 0)
    sample.redrawn_ = core_->redraw(sample.keys_, options.preference, distribution, random);
  if (options.from != options.to) {
    RETURN_IF_ERROR(intent(sample.keys(), options.from, options.to));
  }
  return sample;
}

std::uint64_t UntypedTable::rows() const {
  return core_->options().rows;
}
std::uint32_t UntypedTable::width() const {
  return core_->options().width;
}
ValueType UntypedTable::value_type() const {
  return core_->value_type();
}
const StalenessHistogram& UntypedTable::staleness() const {
  return core_->staleness();
}

}  // namespace verbena
