// Pulling and pushing rows of one table.
//
// Shapes: `values` and `updates` are row-major [keys.size(), width] or [range.size(), width]. Keys need not
// be sorted; a key may come twice. A pull reads its rows one by one in any order, also where a key comes
// twice: the two may differ, and the first be the newer. A push is additive. A worker sees its own pushes in
// its next pull (read-my-writes), others' by the table's consistency model.
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

#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/sampling.hpp"
#include "worker/session.hpp"

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
  template <class Value>
  friend class Table;
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

/// A handle of a table, two pointers: copies, also constant ones, are the same table. Must not outlive the
/// session.
/// Value: float, double, std::int32_t or std::int64_t.
template <class Value>
class Table {
 public:
  /// Of no table: may only be assigned to.
  Table() = default;
  friend bool operator==(const Table&, const Table&) = default;

  absl::Status pull(std::span<const Key> keys, std::span<Value> values) const;
  absl::Status pull(KeyRange range, std::span<Value> values) const;  ///< one transfer per lane
  absl::Status push(std::span<const Key> keys, std::span<const Value> updates) const;
  absl::Status push(KeyRange range, std::span<const Value> updates) const;

  /// As above. `keys` are copied; `values` must live until the operation has ended. Of what this worker
  /// pushes before that, `values` may hold some or none; under BSP the sums are those of every run only where
  /// the two do not overlap.
  Pending pull_async(std::span<const Key> keys, std::span<Value> values,
                     const OperationOptions& options = {}) const;
  Pending pull_async(KeyRange range, std::span<Value> values, const OperationOptions& options = {}) const;
  /// Ends when the updates are in the update buffer, which is at once, or once `after` has ended, for which
  /// it drives the session; clock() tells of their delivery. With Sequential, push() waits for the delivery,
  /// and this does not; a pull of the row does.
  Pending push_async(std::span<const Key> keys, std::span<const Value> updates,
                     const OperationOptions& options = {}) const;
  Pending push_async(KeyRange range, std::span<const Value> updates,
                     const OperationOptions& options = {}) const;

  /// Of a dynamic table: moves the rows to this worker's node, from wherever they are; ends when all have
  /// been there. Rows that other workers want at the same time come when it is this worker's turn, and may
  /// have left again since. It goes on, and others get on with these rows, whenever the session is used.
  /// Session::clock() does not wait for it. FAILED_PRECONDITION for a static table.
  Pending localize(std::span<const Key> keys, const OperationOptions& options = {}) const;
  Pending localize(KeyRange range, const OperationOptions& options = {}) const;

  /// Of a dynamic table: this worker will pull or push `keys` in its clocks from … to − 1
  /// (Session::current_clock()). The rows that no other node wants at the same time come here, in time and
  /// not before; of those that others want, too, this worker gets a replica under Asp, and under Sequential
  /// they stay where they are. Nothing waits for it, and what is used without it is found all the same.
  /// Intents may overlap; what is over is ignored. A replica is read anew for the first clock of an intent;
  /// in the others, when it is used and too old (consistency/asp.hpp). They are acted on in clock(), and go
  /// on whenever the session is used. FAILED_PRECONDITION for a static table.
  absl::Status intent(std::span<const Key> keys, std::int64_t from, std::int64_t to) const;
  absl::Status intent(KeyRange range, std::int64_t from, std::int64_t to) const;

  /// hold() would take the row now, were it in nobody's hands. REQUIRES: key < rows().
  [[nodiscard]] bool is_here(Key key) const;
  /// is_here() will be asked soon: fetches what it needs into the processor's cache. REQUIRES: key < rows().
  void prefetch(Key key) const;
  /// Of a dynamic table: takes rows that lie on this node, to be changed in place until release(), without a
  /// copy and without a push. rows[i] is where the values of keys[i] are (of a row of 256 bytes or more:
  /// aligned to 64), or nullptr where the row is elsewhere, in another's hands, or has updates of this worker
  /// under way: pull and push those. Never waits. Until release() others read what they find, number by
  /// number, and their pushes and moves of these rows wait; so hold them for a mini-batch, not longer, make
  /// no call in between that waits (it breaks the session, with FAILED_PRECONDITION), and push none of them.
  /// Readers need each number whole: write them as relaxed atomics, or as vectors do. A change counts as a
  /// pull and a push. REQUIRES: nothing of the table is held. FAILED_PRECONDITION for a static table.
  absl::Status hold(std::span<const Key> keys, std::span<Value*> rows) const;
  /// Gives back all that hold() took. FAILED_PRECONDITION: nothing, for the session is another thread's.
  absl::Status release() const;

  /// Draws `count` keys, for instance negative samples, and says so as an intent where `options` has clocks.
  /// With a preference keys that are near are drawn more often: see worker/sampling.hpp for the bias.
  /// INVALID_ARGUMENT for keys outside the table or a preference outside 0 … 1, FAILED_PRECONDITION for a
  /// preference or clocks where the table is static.
  absl::StatusOr<Sample> prepare_sample(const KeyDistribution& distribution, std::size_t count,
                                        std::mt19937_64& random, const SampleOptions& options = {}) const;
  /// As pull() of sample.keys().
  absl::Status pull_sample(const Sample& sample, std::span<Value> values) const {
    return pull(sample.keys(), values);
  }

  [[nodiscard]] std::uint64_t rows() const;
  [[nodiscard]] std::uint32_t width() const;
  /// Of the rows pulled so far.
  [[nodiscard]] const StalenessHistogram& staleness() const;

 private:
  friend class Session;
  Table(worker::SessionCore& session, worker::TableCore& core) : session_(&session), core_(&core) {}
  Pending pending(absl::StatusOr<std::shared_ptr<worker::Operation>> started) const;

  worker::SessionCore* session_ = nullptr;
  worker::TableCore* core_ = nullptr;
};

}  // namespace verbena
