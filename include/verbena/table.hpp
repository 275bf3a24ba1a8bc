// Pulling and pushing rows of one table.
//
// Shapes: `values` and `updates` are row-major [keys.size(), width] or [range.size(), width]. Keys need not
// be sorted; a key may come twice. A pull reads its rows one by one in any order, also where a key comes
// twice: the two may differ, and the first be the newer. A push adds, unless the table has another rule
// (TableOptions::rule). A worker sees its own pushes in its next pull (read-my-writes; another rule may
// differ), others' by the table's consistency model.
//
// Pushes are added up in this worker's update buffer and travel when it calls Session::clock(); under
// Sequential each travels by itself and push() returns when it is applied, under VAP sooner where the bound
// asks for it. Of a dynamic table under Asp a push changes the row in place where it is this node's, goes
// into a replica and from there with clock() where there is one, and else travels by itself, which push()
// does not wait for.
//
// Errors: INVALID_ARGUMENT for a key outside the table or a span of the wrong size, FAILED_PRECONDITION in a
// thread that the session does not belong to (session.hpp), both with nothing done; UNAVAILABLE for a dead
// peer, DEADLINE_EXCEEDED for one that does not answer, both with its name; ABORTED when another worker
// failed. After any of these but the first two the session is broken, and every later call returns the same
// status. But in a job that outlives the dead (docs/allocation.md), DATA_LOSS and UNAVAILABLE may be about a
// row of a dynamic table: it was lost with a worker or server that has died, or nobody can say where it is.
// The message names the first such row of the call; the others are pulled, pushed or localized, and the
// session goes on. Where nobody waits for a push, Session::clock() and barrier() say so, once, having done
// their work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <verbena/keys.hpp>
#include <verbena/sampling.hpp>
#include <verbena/session.hpp>
#include <verbena/value_type.hpp>

namespace verbena {

namespace worker {
class Operation;
class TableCore;
struct Dependencies;
}  // namespace worker

/// An operation under way. It goes on whenever the session is used, wait() or not; Session::clock() completes
/// it. Must not outlive the session.
class [[nodiscard]] Pending {
 public:
  /// Drives the session until the operation has ended, and returns how.
  absl::Status wait();
  [[nodiscard]] bool done() const;

 private:
  friend class UntypedTable;
  friend struct worker::Dependencies;
  explicit Pending(absl::Status ended) : status_(std::move(ended)) {}
  Pending(worker::SessionCore& session, std::shared_ptr<worker::Operation> operation)
      : session_(&session), operation_(std::move(operation)) {}

  worker::SessionCore* session_ = nullptr;
  std::shared_ptr<worker::Operation> operation_;
  absl::Status status_;
};

/// Of an asynchronous operation.
struct OperationOptions {
  /// Operations of this session that must have ended before this one begins (execute-after-finished: Li et
  /// al., OSDI'14, section 3.2). Without it, operations run side by side.
  std::vector<Pending> after;
};

/// Rows that hold() has taken: given back when this goes. To be moved, not copied. Must not outlive the
/// session.
class [[nodiscard]] HeldRows {
 public:
  /// Of nothing.
  HeldRows() = default;
  HeldRows(HeldRows&& other) noexcept
      : session_(other.session_), table_(std::exchange(other.table_, nullptr)) {}
  HeldRows& operator=(HeldRows&& other) noexcept {
    static_cast<void>(release());
    session_ = other.session_;
    table_ = std::exchange(other.table_, nullptr);
    return *this;
  }
  ~HeldRows() { static_cast<void>(release()); }

  /// Gives back all rows now. FAILED_PRECONDITION: nothing, for the session is another thread's.
  absl::Status release();

 private:
  friend class UntypedTable;
  HeldRows(worker::SessionCore& session, worker::TableCore& table) : session_(&session), table_(&table) {}
  worker::SessionCore* session_ = nullptr;
  worker::TableCore* table_ = nullptr;  ///< nullptr: nothing is held
};

/// A handle of a table whose type of values is known at run time only, for bindings: what Table<Value> says
/// of its calls holds here, with values as bytes in memory that is aligned for them.
class UntypedTable {
 public:
  /// Of no table: may only be assigned to.
  UntypedTable() = default;
  friend bool operator==(const UntypedTable&, const UntypedTable&) = default;

  absl::Status pull(Keys keys, std::span<std::byte> values) const;
  absl::Status push(Keys keys, std::span<const std::byte> updates) const;
  Pending pull_async(Keys keys, std::span<std::byte> values, const OperationOptions& options = {}) const;
  Pending push_async(Keys keys, std::span<const std::byte> updates,
                     const OperationOptions& options = {}) const;
  Pending localize(Keys keys, const OperationOptions& options = {}) const;
  absl::Status intent(Keys keys, std::int64_t from, std::int64_t to) const;
  [[nodiscard]] bool is_here(Key key) const;
  void prefetch(Key key) const;
  absl::StatusOr<HeldRows> hold(Keys keys, std::span<std::byte*> rows) const;
  absl::StatusOr<Sample> prepare_sample(const KeyDistribution& distribution, std::size_t count,
                                        std::mt19937_64& random, const SampleOptions& options = {}) const;

  [[nodiscard]] std::uint64_t rows() const;
  [[nodiscard]] std::uint32_t width() const;
  [[nodiscard]] ValueType value_type() const;
  [[nodiscard]] const StalenessHistogram& staleness() const;

 private:
  friend class Session;
  template <class Value>
  friend class Table;
  UntypedTable(worker::SessionCore& session, worker::TableCore& core) : session_(&session), core_(&core) {}

  // `count`: of values. pull and push once for each kind of keys: where Table's calls are inlined, the
  // compiler knows which it is.
  absl::Status pull(std::span<const Key> keys, std::byte* values, std::size_t count) const;
  absl::Status pull(KeyRange keys, std::byte* values, std::size_t count) const;
  absl::Status push(std::span<const Key> keys, const std::byte* updates, std::size_t count) const;
  absl::Status push(KeyRange keys, const std::byte* updates, std::size_t count) const;
  Pending pull_async(const Keys& keys, std::byte* values, std::size_t count,
                     const OperationOptions& options) const;
  Pending push_async(const Keys& keys, const std::byte* updates, std::size_t count,
                     const OperationOptions& options) const;
  /// use(i, where the values of keys[i] are): for each, of `rows` places for them.
  absl::StatusOr<HeldRows> hold(const Keys& keys, std::size_t rows,
                                absl::FunctionRef<void(std::size_t, std::byte*)> use) const;
  [[nodiscard]] absl::StatusOr<std::size_t> count_of(std::size_t bytes) const;
  Pending pending(absl::StatusOr<std::shared_ptr<worker::Operation>> started) const;

  worker::SessionCore* session_ = nullptr;
  worker::TableCore* core_ = nullptr;
};

/// A handle of a table, two pointers: copies, also constant ones, are the same table. Must not outlive the
/// session.
/// Value: float, double, std::int32_t or std::int64_t.
template <class Value>
class Table {
 public:
  /// Of no table: may only be assigned to.
  Table() = default;
  friend bool operator==(const Table&, const Table&) = default;

  /// Reads the rows of `keys` into `values`, as the consistency model says. Of a range: one transfer for each
  /// lane.
  absl::Status pull(Keys keys, std::span<Value> values) const {
    return keys.is_range() ? untyped_.pull(keys.range(), bytes(values), values.size())
                           : untyped_.pull(keys.list(), bytes(values), values.size());
  }
  absl::Status push(Keys keys, std::span<const Value> updates) const {
    return keys.is_range() ? untyped_.push(keys.range(), bytes(updates), updates.size())
                           : untyped_.push(keys.list(), bytes(updates), updates.size());
  }

  /// As above. `keys` are copied; `values` must live until the operation has ended. Of what this worker
  /// pushes before that, `values` may hold some or none; under BSP the sums are those of every run only where
  /// the two do not overlap.
  Pending pull_async(Keys keys, std::span<Value> values, const OperationOptions& options = {}) const {
    return untyped_.pull_async(keys, bytes(values), values.size(), options);
  }
  /// Ends when the updates are in the update buffer, which is at once, or once `after` has ended, for which
  /// it drives the session; clock() tells of their delivery. With Sequential, push() waits for the delivery,
  /// and this does not; a pull of the row does.
  Pending push_async(Keys keys, std::span<const Value> updates, const OperationOptions& options = {}) const {
    return untyped_.push_async(keys, bytes(updates), updates.size(), options);
  }

  /// Of a dynamic table: moves the rows to this worker's node, from wherever they are; ends when all have
  /// been there. Rows that other workers want at the same time come when it is this worker's turn, and may
  /// have left again since. It goes on, and others get on with these rows, whenever the session is used.
  /// Session::clock() does not wait for it. FAILED_PRECONDITION for a static table.
  Pending localize(Keys keys, const OperationOptions& options = {}) const {
    return untyped_.localize(keys, options);
  }

  /// Of a dynamic table: this worker will pull or push `keys` in its clocks from … to − 1
  /// (Session::current_clock()). The rows that no other node wants at the same time come here, in time and
  /// not before; of those that others want, too, this worker gets a replica under Asp, and under Sequential
  /// they stay where they are. Nothing waits for it, and what is used without it is found all the same.
  /// Intents may overlap; what is over is ignored. A replica is read anew for the first clock of an intent;
  /// in the others, when it is used and too old (Asp in <verbena/consistency.hpp>). They are acted on in
  /// clock(), and go on whenever the session is used. FAILED_PRECONDITION for a static table.
  absl::Status intent(Keys keys, std::int64_t from, std::int64_t to) const {
    return untyped_.intent(keys, from, to);
  }

  /// Whether the row lies on this node, so that hold() takes it if no other worker has it. REQUIRES: key <
  /// rows().
  [[nodiscard]] bool is_here(Key key) const { return untyped_.is_here(key); }
  /// is_here() will be asked soon: fetches what it needs into the processor's cache. REQUIRES: key < rows().
  void prefetch(Key key) const { untyped_.prefetch(key); }
  /// Of a dynamic table: takes rows that lie on this node, to be changed in place as long as what is returned
  /// lives, without a copy and without a push. rows[i] is where the values of keys[i] are (of a row of 256
  /// bytes or more: aligned to 64), or nullptr where the row is elsewhere, in another's hands, or has updates
  /// of this worker under way; also where a key comes a second time. Pull and push those. Never waits.
  /// Meanwhile others read what they find, number by number, and their pushes and moves of these rows wait;
  /// so hold them for a mini-batch, not longer, make no call in between that waits (it breaks the session,
  /// with FAILED_PRECONDITION), and push none of them. Readers need each number whole: write them as relaxed
  /// atomics, or as vectors do. A change counts as a pull and a push. Keep what is returned: the status of a
  /// temporary gives all back at once. FAILED_PRECONDITION where rows of the table are held already, and for
  /// a static table.
  absl::StatusOr<HeldRows> hold(Keys keys, std::span<Value*> rows) const {
    return untyped_.hold(keys, rows.size(), [&](std::size_t i, std::byte* values) {
      rows[i] = reinterpret_cast<Value*>(values);
    });
  }

  /// Draws `count` keys, for instance negative samples, and says so as an intent where `options` has clocks.
  /// With a preference keys that are near are drawn more often: see <verbena/sampling.hpp> for the bias.
  /// INVALID_ARGUMENT for keys outside the table or a preference outside 0 … 1, FAILED_PRECONDITION for a
  /// preference or clocks where the table is static.
  absl::StatusOr<Sample> prepare_sample(const KeyDistribution& distribution, std::size_t count,
                                        std::mt19937_64& random, const SampleOptions& options = {}) const {
    return untyped_.prepare_sample(distribution, count, random, options);
  }
  /// As pull() of sample.keys().
  absl::Status pull_sample(const Sample& sample, std::span<Value> values) const {
    return pull(sample.keys(), values);
  }

  [[nodiscard]] std::uint64_t rows() const { return untyped_.rows(); }
  [[nodiscard]] std::uint32_t width() const { return untyped_.width(); }
  /// Of the rows pulled so far.
  [[nodiscard]] const StalenessHistogram& staleness() const { return untyped_.staleness(); }

 private:
  friend class Session;
  explicit Table(const UntypedTable& untyped) : untyped_(untyped) {}
  static std::byte* bytes(std::span<Value> values) { return std::as_writable_bytes(values).data(); }
  static const std::byte* bytes(std::span<const Value> values) { return std::as_bytes(values).data(); }

  UntypedTable untyped_;
};

template <class Value>
absl::StatusOr<Table<Value>> Session::table(const TableOptions& options) {
  const absl::StatusOr<UntypedTable> table = untyped_table(options, value_type_of<Value>());
  if (!table.ok()) return table.status();
  return Table<Value>(*table);
}

}  // namespace verbena
