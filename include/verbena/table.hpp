// Pulling and pushing rows of one table.
//
// Shapes: `values` and `updates` are row-major [keys.size(), width] or [range.size(), width]. Keys need not
// be sorted; a key may occur twice. A pull reads its rows one by one in any order. If a key occurs twice, the
// two results may differ, and the first may be the newer one. A push adds, unless the table has another rule
// (TableOptions::rule). A worker sees its own pushes in its next pull (read-my-writes; a rule other than
// addition may differ), and the pushes of others as the table's consistency model says.
//
// Pushes are added up in this worker's update buffer and are sent when it calls Session::clock(). Under
// Sequential each push is sent by itself, and push() returns when it is applied. Under VAP pushes are sent
// earlier if the bound requires it. For a dynamic table under Asp, a push changes the row in place if the row
// is on this node; if there is a replica, the push goes into the replica, and clock() sends it from there;
// otherwise the push is sent by itself, and push() does not wait for it.
//
// A row of a sparse table that nobody has pushed to reads as its initial values, and stays unmade.
//
// Errors: INVALID_ARGUMENT for a key outside the table or a span of the wrong size, FAILED_PRECONDITION in a
// thread that does not own the session (session.hpp); in both cases nothing was done. UNAVAILABLE for a dead
// peer, DEADLINE_EXCEEDED for a peer that does not answer, both with the peer's name; ABORTED when another
// worker failed. After any of these three the session is broken, and every later call returns the same
// status. Exception: in a job that outlives dead processes (docs/allocation.md), DATA_LOSS and UNAVAILABLE
// may be about a row of a dynamic table: it was lost with a worker or server that has died, or an update of
// this worker was on its way to a server that died. The message names the first such row of the call; the
// other rows are pulled, pushed or localized, and the session goes on. For a push that nobody waits for,
// Session::clock() and barrier() return this error, once, after they have done their work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include <verbena/keys.hpp>
#include <verbena/row_handles.hpp>
#include <verbena/sampling.hpp>
#include <verbena/server_function.hpp>
#include <verbena/session.hpp>
#include <verbena/value_type.hpp>

namespace verbena {

namespace worker {
class Operation;
class TableCore;
struct Dependencies;
}  // namespace worker

/// An operation in progress. It goes on whenever the session is used, with or without wait().
/// Session::clock() completes pulls and pushes, but not localize(). Must not outlive the session.
class [[nodiscard]] Pending {
 public:
  /// Drives the session until the operation has ended, and returns its status.
  absl::Status wait();
  [[nodiscard]] bool done() const;

 private:
  friend class PendingResult;
  friend class UntypedTable;
  friend struct worker::Dependencies;
  explicit Pending(absl::Status ended) : status_(std::move(ended)) {}
  Pending(worker::SessionCore& session, std::shared_ptr<worker::Operation> operation)
      : session_(&session), operation_(std::move(operation)) {}

  worker::SessionCore* session_ = nullptr;
  std::shared_ptr<worker::Operation> operation_;
  absl::Status status_;
};

/// A call of a server function in progress.
class [[nodiscard]] PendingResult : public Pending {
 public:
  /// As wait(); then what the call comes to.
  absl::StatusOr<FunctionResult> result();

 private:
  friend class UntypedTable;
  explicit PendingResult(Pending call) : Pending(std::move(call)) {}
};

/// Options of an asynchronous operation.
struct OperationOptions {
  /// Operations of this session that must have ended before this one begins (execute-after-finished: Li et
  /// al., OSDI'14, section 3.2). Without it, operations run concurrently.
  std::vector<Pending> after;
};

/// Rows that hold() has taken; the destructor gives them back. Can be moved, not copied. Must not outlive the
/// session.
class [[nodiscard]] HeldRows {
 public:
  /// Holds nothing.
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

  /// Gives back all rows now. FAILED_PRECONDITION: nothing was done, because the session belongs to another
  /// thread.
  absl::Status release();

 private:
  friend class UntypedTable;
  HeldRows(worker::SessionCore& session, worker::TableCore& table) : session_(&session), table_(&table) {}
  worker::SessionCore* session_ = nullptr;
  worker::TableCore* table_ = nullptr;  ///< nullptr: nothing is held
};

/// A handle of a table whose value type is known only at run time, for language bindings. Each call does what
/// Table<Value> says; values are bytes in memory that is aligned for their type.
class UntypedTable {
 public:
  /// A handle of no table: it may only be assigned to.
  UntypedTable() = default;
  friend bool operator==(const UntypedTable&, const UntypedTable&) = default;

  absl::Status pull(Keys keys, std::span<std::byte> values) const;
  absl::Status push(Keys keys, std::span<const std::byte> updates) const;
  absl::StatusOr<RowHandles> locate(Keys keys) const;
  absl::Status pull(RowHandles& rows, std::span<std::byte> values) const;
  Pending pull_async(Keys keys, std::span<std::byte> values, const OperationOptions& options = {}) const;
  Pending push_async(Keys keys, std::span<const std::byte> updates,
                     const OperationOptions& options = {}) const;
  absl::Status scan(KeyRange range, absl::FunctionRef<absl::Status(Key, const std::byte*)> use) const;
  absl::StatusOr<FunctionResult> call(std::string_view function, Keys keys,
                                      std::span<const double> numbers = {}) const;
  PendingResult call_async(std::string_view function, Keys keys, std::span<const double> numbers = {},
                           const OperationOptions& options = {}) const;
  absl::StatusOr<TableMemory> memory() const;
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

  // `count`: how many values. There is a pull and a push for each kind of keys: where Table's calls are
  // inlined, the compiler knows the kind.
  absl::Status pull(std::span<const Key> keys, std::byte* values, std::size_t count) const;
  absl::Status pull(KeyRange keys, std::byte* values, std::size_t count) const;
  absl::Status pull(RowHandles& rows, std::byte* values, std::size_t count) const;
  absl::Status push(std::span<const Key> keys, const std::byte* updates, std::size_t count) const;
  absl::Status push(KeyRange keys, const std::byte* updates, std::size_t count) const;
  Pending pull_async(const Keys& keys, std::byte* values, std::size_t count,
                     const OperationOptions& options) const;
  Pending push_async(const Keys& keys, const std::byte* updates, std::size_t count,
                     const OperationOptions& options) const;
  /// Calls use(i, address of the values of keys[i]) for each key. `rows`: for how many keys the caller has
  /// room.
  absl::StatusOr<HeldRows> hold(const Keys& keys, std::size_t rows,
                                absl::FunctionRef<void(std::size_t, std::byte*)> use) const;
  [[nodiscard]] absl::StatusOr<std::size_t> count_of(std::size_t bytes) const;
  Pending pending(absl::StatusOr<std::shared_ptr<worker::Operation>> started) const;

  worker::SessionCore* session_ = nullptr;
  worker::TableCore* core_ = nullptr;
};

/// A handle of a table, two pointers: copies, also constant ones, refer to the same table. Must not outlive
/// the session.
/// Value: float, double, std::int32_t or std::int64_t.
template <class Value>
class Table {
 public:
  /// A handle of no table: it may only be assigned to.
  Table() = default;
  friend bool operator==(const Table&, const Table&) = default;

  /// Reads the rows of `keys` into `values`, as the consistency model says. A range of a dense
  /// table takes one transfer for each lane.
  absl::Status pull(Keys keys, std::span<Value> values) const {
    return keys.is_range() ? untyped_.pull(keys.range(), bytes(values), values.size())
                           : untyped_.pull(keys.list(), bytes(values), values.size());
  }
  absl::Status push(Keys keys, std::span<const Value> updates) const {
    return keys.is_range() ? untyped_.push(keys.range(), bytes(updates), updates.size())
                           : untyped_.push(keys.list(), bytes(updates), updates.size());
  }

  /// For sparse tables: finds out where the rows of `keys` are, as far as this worker can see that at once.
  /// FAILED_PRECONDITION for a dense table, where nothing has to be found.
  absl::StatusOr<RowHandles> locate(Keys keys) const { return untyped_.locate(keys); }
  /// As pull() of the same keys. INVALID_ARGUMENT: the handles are another table's.
  absl::Status pull(RowHandles& rows, std::span<Value> values) const {
    return untyped_.pull(rows, bytes(values), values.size());
  }

  /// As pull(). `keys` are copied; `values` must live until the operation has ended. `values` may hold some
  /// or none of the updates that this worker pushes before that; under BSP the sums are the same in every run
  /// only if the pull and these pushes do not overlap.
  Pending pull_async(Keys keys, std::span<Value> values, const OperationOptions& options = {}) const {
    return untyped_.pull_async(keys, bytes(values), values.size(), options);
  }
  /// Ends when the updates are in the update buffer: at once or, if there are operations in `after`, once
  /// these have ended; the call drives the session until then. clock() tells about the delivery of the
  /// updates. With Sequential, push() waits for the delivery, and push_async() does not; a pull of the row
  /// does.
  Pending push_async(Keys keys, std::span<const Value> updates, const OperationOptions& options = {}) const {
    return untyped_.push_async(keys, bytes(updates), updates.size(), options);
  }

  /// For sparse tables: calls use(key, values) for each row that there is, in no order that means anything.
  /// With a range, only for rows whose keys lie in it. `values` are as a pull would find them, and are valid
  /// until `use` returns. Rows are read where they lie, many at a time, in place or by one-sided reads, so
  /// that this costs little more than copying the table, whatever the range is, and the servers' processors
  /// nothing. For a range of few keys a pull is faster. Rows of keys that are pushed to for the first time
  /// meanwhile may or may not be among them; a row that goes meanwhile may, and one that comes back may be
  /// there twice; keys for which this worker's push has not been sent are not. If `use` returns an error,
  /// that is the end, and it is returned. `use` may pull, but must not push or advance the clock.
  /// FAILED_PRECONDITION for a dense table. INVALID_ARGUMENT: the range ends before it begins.
  absl::Status scan(KeyRange range, absl::FunctionRef<absl::Status(Key, std::span<const Value>)> use) const {
    return untyped_.scan(range, [&](Key key, const std::byte* values) {
      return use(key, std::span(reinterpret_cast<const Value*>(values), width()));
    });
  }
  absl::Status scan(absl::FunctionRef<absl::Status(Key, std::span<const Value>)> use) const {
    return scan(kAllKeys, use);
  }

  /// For static tables: the servers do something with rows where they lie: "norms", "top(count=100)",
  /// "scale(factor=0.5)", …, or what the program has registered. <verbena/server_function.hpp> has all
  /// functions, which rows they see and when they change them. kAllKeys: all rows. `numbers`: equally many
  /// for each key of a list, for functions that want some. This worker's pushes to the table are sent before,
  /// unless the model holds updates back. The caller sees changes when it sees what others have pushed at
  /// that time. INVALID_ARGUMENT: the function is not known here, or not to be called so.
  /// FAILED_PRECONDITION: it is not for such a table; a server does not know it; the table is dynamic; or,
  /// under BSP and A-BSP, it changes rows: use call_async(). If a server does not carry it out, others may
  /// have.
  absl::StatusOr<FunctionResult> call(std::string_view function, Keys keys,
                                      std::span<const double> numbers = {}) const {
    return untyped_.call(function, keys, numbers);
  }
  /// What the table takes on all servers, by part. A call() of "memory", with its errors.
  absl::StatusOr<TableMemory> memory() const { return untyped_.memory(); }
  /// As call(). Keys and numbers are copied. Returns when the operations in `after` have ended and, if it
  /// changes rows, its messages are sent. Under BSP and A-BSP, one that changes rows ends some time after
  /// this clock has ended for all workers, so that no other operation may begin after it, and a clock takes
  /// at most 32 messages of such calls to a lane (RESOURCE_EXHAUSTED), each of an eighth of the inbox;
  /// otherwise clock() completes it.
  PendingResult call_async(std::string_view function, Keys keys, std::span<const double> numbers = {},
                           const OperationOptions& options = {}) const {
    return untyped_.call_async(function, keys, numbers, options);
  }

  /// For dynamic tables: moves the rows to this worker's node from wherever they are; ends when every row has
  /// been there. Rows that other workers want at the same time come when it is this worker's turn, and may
  /// have left again since. The operation, and those of other workers on these rows, go on whenever the
  /// session is used. Session::clock() does not wait for it. FAILED_PRECONDITION for a static table.
  Pending localize(Keys keys, const OperationOptions& options = {}) const {
    return untyped_.localize(keys, options);
  }

  /// For dynamic tables: this worker will pull or push `keys` in its clocks from … to − 1
  /// (Session::current_clock()). Rows that no other node wants at the same time come here, in time and not
  /// before. Of rows that other nodes want, too, this worker gets a replica under Asp; under Sequential they
  /// stay where they are. Nothing waits for an intent, and rows that are used without one are found all the
  /// same. Intents may overlap; an intent whose clocks are over is ignored. A replica is read again from its
  /// owner for the first clock of an intent; in the other clocks, when it is used and too old (Asp in
  /// <verbena/consistency.hpp>). clock() acts on intents, and they go on whenever the session is used.
  /// FAILED_PRECONDITION for a static table.
  absl::Status intent(Keys keys, std::int64_t from, std::int64_t to) const {
    return untyped_.intent(keys, from, to);
  }

  /// Whether the row lies on this node, with no updates of this worker under way, so that hold() takes it if
  /// no other worker holds it. REQUIRES: key < rows().
  [[nodiscard]] bool is_here(Key key) const { return untyped_.is_here(key); }
  /// Prepares a call of is_here(): fetches what it needs into the processor's cache. REQUIRES: key < rows().
  void prefetch(Key key) const { untyped_.prefetch(key); }
  /// For dynamic tables: takes rows that lie on this node. The caller may change them in place as long as the
  /// returned object lives, without a copy and without a push. rows[i] is the address of the values of
  /// keys[i] (aligned to 64 bytes if a row has 256 bytes or more). It is nullptr if the row is elsewhere, is
  /// held by someone else, or has updates of this worker in progress, and if the key occurs a second time:
  /// pull and push these rows. Never waits. While the rows are held, others read whatever they find, number
  /// by number, and their pushes and moves of these rows wait. So hold rows for a mini-batch, not longer,
  /// make no call in between that waits (it breaks the session with FAILED_PRECONDITION), and push none of
  /// them. Readers need each number whole: write numbers with relaxed atomics or with vector stores. A change
  /// counts as a pull and a push. Keep the returned object: if only the status of a temporary is used, all
  /// rows are given back at once. FAILED_PRECONDITION if rows of the table are held already, and for a static
  /// table.
  absl::StatusOr<HeldRows> hold(Keys keys, std::span<Value*> rows) const {
    return untyped_.hold(keys, rows.size(), [&](std::size_t i, std::byte* values) {
      rows[i] = reinterpret_cast<Value*>(values);
    });
  }

  /// Draws `count` keys, for instance negative samples, and announces them as an intent if `options` has
  /// clocks. With a preference, keys that are near are drawn more often: see <verbena/sampling.hpp> for the
  /// bias. INVALID_ARGUMENT for keys outside the table or a preference outside 0 … 1, FAILED_PRECONDITION for
  /// a preference or clocks if the table is static.
  absl::StatusOr<Sample> prepare_sample(const KeyDistribution& distribution, std::size_t count,
                                        std::mt19937_64& random, const SampleOptions& options = {}) const {
    return untyped_.prepare_sample(distribution, count, random, options);
  }
  /// As pull() of sample.keys().
  absl::Status pull_sample(const Sample& sample, std::span<Value> values) const {
    return pull(sample.keys(), values);
  }

  /// 0 if the table is sparse.
  [[nodiscard]] std::uint64_t rows() const { return untyped_.rows(); }
  [[nodiscard]] std::uint32_t width() const { return untyped_.width(); }
  /// A handle of the same table, for code that handles tables of any type.
  [[nodiscard]] const UntypedTable& untyped() const { return untyped_; }
  /// The staleness of the rows pulled so far.
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
