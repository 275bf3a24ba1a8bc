#include "worker/table.hpp"

#include <fmt/format.h>

#include "base/return_if_error.hpp"
#include "worker/session_core.hpp"
#include "worker/table_core.hpp"

namespace verbena {

using worker::KeySequence;

/// What an operation waits for before it begins.
struct worker::Dependencies {
  static std::vector<std::shared_ptr<Operation>> of(const OperationOptions& options) {
    std::vector<std::shared_ptr<Operation>> operations;
    for (const Pending& pending : options.after) {
      if (!pending.done()) operations.push_back(pending.operation_);
    }
    return operations;
  }
};

namespace {

template <class Keys>
absl::Status push_after(worker::SessionCore& session, worker::TableCore& table, Keys keys,
                        std::span<const std::byte> updates, std::size_t values,
                        const OperationOptions& options) {
  if (!session.is_here()) return session.elsewhere();
  for (const std::shared_ptr<worker::Operation>& operation : worker::Dependencies::of(options)) {
    static_cast<void>(session.wait_for(*operation));  // how it ends is its own affair
    if (!session.status().ok()) return session.status();
  }
  return table.push(keys, updates.data(), values, /*wait=*/false);
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
Pending Table<Value>::pending(absl::StatusOr<std::shared_ptr<worker::Operation>> started) const {
  return started.ok() ? Pending(*session_, *std::move(started)) : Pending(started.status());
}

template <class Value>
absl::Status Table<Value>::pull(std::span<const Key> keys, std::span<Value> values) const {
  return core_->pull(keys, std::as_writable_bytes(values).data(), values.size());
}
template <class Value>
absl::Status Table<Value>::pull(KeyRange range, std::span<Value> values) const {
  return core_->pull(range, std::as_writable_bytes(values).data(), values.size());
}
template <class Value>
absl::Status Table<Value>::push(std::span<const Key> keys, std::span<const Value> updates) const {
  return core_->push(keys, std::as_bytes(updates).data(), updates.size(), /*wait=*/true);
}
template <class Value>
absl::Status Table<Value>::push(KeyRange range, std::span<const Value> updates) const {
  return core_->push(range, std::as_bytes(updates).data(), updates.size(), /*wait=*/true);
}

template <class Value>
Pending Table<Value>::pull_async(std::span<const Key> keys, std::span<Value> values,
                                 const OperationOptions& options) const {
  return pending(core_->start_pull(KeySequence(keys), std::as_writable_bytes(values).data(), values.size(),
                                   worker::Dependencies::of(options)));
}
template <class Value>
Pending Table<Value>::pull_async(KeyRange range, std::span<Value> values,
                                 const OperationOptions& options) const {
  return pending(core_->start_pull(KeySequence(range), std::as_writable_bytes(values).data(), values.size(),
                                   worker::Dependencies::of(options)));
}
template <class Value>
Pending Table<Value>::push_async(std::span<const Key> keys, std::span<const Value> updates,
                                 const OperationOptions& options) const {
  return Pending(push_after(*session_, *core_, keys, std::as_bytes(updates), updates.size(), options));
}
template <class Value>
Pending Table<Value>::push_async(KeyRange range, std::span<const Value> updates,
                                 const OperationOptions& options) const {
  return Pending(push_after(*session_, *core_, range, std::as_bytes(updates), updates.size(), options));
}

template <class Value>
Pending Table<Value>::localize(std::span<const Key> keys, const OperationOptions& options) const {
  return pending(core_->start_localize(KeySequence(keys), worker::Dependencies::of(options)));
}
template <class Value>
Pending Table<Value>::localize(KeyRange range, const OperationOptions& options) const {
  return pending(core_->start_localize(KeySequence(range), worker::Dependencies::of(options)));
}

template <class Value>
absl::Status Table<Value>::hold(std::span<const Key> keys, std::span<Value*> rows) const {
  return core_->hold(keys, rows.size(),
                     [&](std::size_t i, std::byte* values) { rows[i] = reinterpret_cast<Value*>(values); });
}
template <class Value>
bool Table<Value>::is_here(Key key) const {
  return core_->is_free_here(key);
}
template <class Value>
void Table<Value>::prefetch(Key key) const {
  core_->prefetch(key);
}
template <class Value>
absl::Status Table<Value>::release() const {
  if (!session_->is_here()) return session_->elsewhere();
  core_->release();
  return absl::OkStatus();
}

template <class Value>
absl::Status Table<Value>::intent(std::span<const Key> keys, std::int64_t from, std::int64_t to) const {
  return core_->intend(KeySequence(keys), from, to);
}
template <class Value>
absl::Status Table<Value>::intent(KeyRange range, std::int64_t from, std::int64_t to) const {
  return core_->intend(KeySequence(range), from, to);
}

template <class Value>
absl::StatusOr<Sample> Table<Value>::prepare_sample(const KeyDistribution& distribution, std::size_t count,
                                                    std::mt19937_64& random,
                                                    const SampleOptions& options) const {
  if (!session_->is_here()) return session_->elsewhere();
  const std::uint64_t rows = core_->options().rows;
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
