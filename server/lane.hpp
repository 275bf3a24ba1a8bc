// The apply pipeline: a lane owns a contiguous part of each shard and is the only writer of its rows.
//
//   tasks (TBB queue) ──▶ apply the update rule, or hold back ──▶ mark dirty
//                     ──▶ min clock advanced ──▶ gather rows into push buffers (TBB queue)
//
// Invariants
//  1. Tasks of one worker arrive in the order in which the worker made them.
//  2. A message to worker w says in `applied` and `applied_held` how many of w's updates the lane has
//     applied, and the rows in it hold exactly those of w's updates: rows are gathered by the lane itself,
//     between two tasks. There are two counts, since updates that are held back keep no others waiting.
//  3. The clock m is sent to w only after all rows that were dirty for w when m was reached.
//  4. Under BSP and A-BSP, and with a rule that takes one step a clock, a row changes only when the min clock
//     advances, in the order (clock, worker, order of pushing). Means are weighted at that moment: then all
//     workers' counts of examples are known. A rule other than addition is applied once to all updates of a
//     row in a clock, combined in that order.
//  5. Under a push budget (managed communication, Wei et al., SoCC'15) rows wait while a worker's budget is
//     spent, unless its bound on staleness needs them; the most important rows go first. Whenever the budget
//     is full, dirty rows are sent before their clock is reached, too.
//  6. A call of a server function that only looks at rows goes on beside other tasks, a piece at a time. One
//     that changes rows is alone in the lane, a piece at a time, until it has ended: between two tasks. For a
//     table whose updates are held back, it is carried out at once and as a whole, as these updates are:
//     after all updates of its clock.
//  7. A row of a sparse table is taken away between two tasks. Under a model that holds updates back this is
//     done as a whole, after a clock's updates and before the clock is told; otherwise a piece a poll. A
//     worker is told which rows are gone before it is told a clock that comes after that.
//  8. At a cut, rows are copied when the min clock reaches its clock: after all updates of clocks before, and
//     before any of this clock, since workers make cuts in barriers (saving.hpp).
//  9. An image is of the moment between two tasks: what lane_image.cpp writes is written then, and what rows
//     and indexes hold is copied while the lane goes on (image_copier.hpp). Whatever changes a row, or an
//     index, has it copied before.
// 10. Memory: entries that exist for each row belong to the shard, since it was opened. Besides these, at
//     most: one dirty entry for each row and worker; kPushBuffers buffers for each worker; held-back updates
//     of the clocks by which each worker is ahead; protocol::kMaxOpenCalls calls and their results for each
//     worker, with copies twice as many results, and one call for each observer; what a sparse table's
//     admission counts; of rows that are gone, as many as SparsePart says; one compressed message and what it
//     becomes. If the system refuses memory for these, or for a sparse table that grows, the lane stops and
//     says so: has_failed().
//
// Thread safety: enqueue(), take_outgoing() and take_inspected() from any thread; poll() from one thread at a
// time.
#pragma once

#include <oneapi/tbb/concurrent_queue.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "consistency/rules.hpp"
#include "consistency/vector_clock.hpp"
#include "consistency/weight_of_means.hpp"
#include "protocol/admission.hpp"
#include "protocol/messages.hpp"
#include "protocol/row.hpp"
#include "protocol/sparse_index.hpp"
#include "protocol/update_rule.hpp"
#include "server/gone_log.hpp"
#include "server/key_lists.hpp"
#include "server/lane_part.hpp"
#include "server/sweep.hpp"
#include "server/unpacking.hpp"
#include "transport/token_bucket.hpp"

namespace verbena::server {

class Cut;
class FixedShard;
class FunctionRun;
class ImageCopier;
class ImageReader;
class ImageWriter;
class LaneImages;
class LaneLoad;
class TableLoad;

/// A message in a worker's inbox, which stays there until the lanes have used it, or have used the message
/// elsewhere that it tells of.
struct InboxMessage {
  std::atomic<std::uint32_t> users = 0;  ///< lanes that have not used it yet
};

/// A buffer of registered memory on its way to a worker. It belongs to the lane until it is outgoing, then to
/// the sender, and to the lane again after give_back().
struct PushBuffer {
  std::uint32_t worker = 0;
  /// How often the worker had come back, or another process had become it, when this was filled: what was
  /// said to it before that is void.
  std::uint32_t times_back = 0;
  std::span<std::byte> memory;
  const transport::MemoryRegion* region = nullptr;
  std::size_t used_bytes = 0;
};

/// What a lane does with all that it has; one of these.
struct StateTask {
  std::shared_ptr<Cut> cut = {};                 ///< rows are to be copied at it
  std::shared_ptr<TableLoad> load = {};          ///< the newest table's rows are to be loaded
  std::shared_ptr<LaneImages> image = {};        ///< it is to be written
  std::shared_ptr<const std::string> read = {};  ///< what another lane has written: this one becomes as that
  /// One less once the lane has come to it, and so has used all that came before.
  std::shared_ptr<std::atomic<std::uint32_t>> behind = {};
};

struct LaneTask {
  /// kSubscribe: also stands for unsubscribe; the message says which. kResume: all workers are at `clock`.
  /// kMute: the worker is on another connection, subscribes to nothing, and is told nothing until kTell;
  /// before the first one another copy of this server does, or has done, that. kBack: it has forgotten all
  /// that it was told. kReplace: another process is the worker from now on.
  enum class Kind : std::uint8_t {
    kOpen,
    kUpdates,
    kSubscribe,
    kClock,
    kCall,
    kHeard,
    kResume,
    kState,
    kMute,
    kBack,
    kTell,
    kReplace
  };
  Kind kind = Kind::kClock;
  std::uint32_t worker = 0;
  const FixedShard* shard = nullptr;  ///< kOpen
  protocol::BulkMessage message =
      {};                         ///< kUpdates, kSubscribe: checked against the shard, but for records' keys
  InboxMessage* inbox = nullptr;  ///< one user less when `message` is no longer needed
  consistency::Clock clock = 0;   ///< kClock, kResume
  std::uint64_t heard = 0;        ///< kHeard: a position in the log of what is gone
  consistency::ExampleCounts examples = {};  ///< kClock: those of the clock before
  std::shared_ptr<FunctionRun> call = {};    ///< kCall; its worker may be none, see FunctionRun
  KeyList keys = {};                         ///< kUpdates: the list that packed updates name, or are to name
  std::shared_ptr<const StateTask> state = {};  ///< kState
};

class Lane {
 public:
  static constexpr std::size_t kPushBuffers = 3;  ///< per worker: one being filled, one in flight, one spare

  /// `budgets`: how much may be pushed to each worker. They are shared with other lanes and refilled by their
  /// owner, which outlives the lane. Empty: no limit.
  Lane(std::uint32_t index, std::uint32_t workers, std::span<transport::TokenBucket* const> budgets = {});
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void enqueue(const LaneTask& task) { tasks_.push(task); }

  /// Call it before the worker's kTell. The memory must outlive the lane's last poll().
  void add_push_buffer(PushBuffer* buffer) { workers_[buffer->worker].free.push(buffer); }
  [[nodiscard]] bool take_outgoing(PushBuffer*& buffer) { return outgoing_.try_pop(buffer); }
  void give_back(PushBuffer* buffer) { workers_[buffer->worker].free.push(buffer); }
  /// An observer's call that has ended.
  [[nodiscard]] bool take_inspected(std::shared_ptr<FunctionRun>& run) { return inspected_.try_pop(run); }

  /// A bounded piece of work; false if there was none. Waits for nothing, but for the transport's thread if a
  /// sparse table grows faster than that thread gets it memory (region_desk.hpp).
  bool poll();

  /// The worker makes another call. False: it may not, before it has been told of others. Called by the
  /// thread that enqueues the worker's tasks, before that of the call.
  /// `most`: that are under way.
  [[nodiscard]] bool may_call(std::uint32_t worker, std::uint32_t most);
  /// Workers may come back, to this server or to a copy of it. Called before the first poll().
  void keep_what_is_told() { keeps_what_is_told_ = true; }

  [[nodiscard]] consistency::Clock min_clock() const { return clocks_.min(); }
  /// The lane could not do what it had to do, for lack of memory, or because a worker has sent what it must
  /// not. It applies nothing more, and the job cannot go on. May be called from any thread.
  [[nodiscard]] bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }
  /// Why. REQUIRES: has_failed()
  [[nodiscard]] const absl::Status& failure() const { return failure_; }
  /// Whose fault it is, if it is a worker's. REQUIRES: has_failed()
  [[nodiscard]] std::optional<std::uint32_t> culprit() const { return culprit_; }

 private:
  /// A row and all updates of a clock to it, combined where the first one lies.
  struct Step {
    protocol::Row row = {};
    std::byte* update = nullptr;
  };
  struct Table {
    const FixedShard* shard = nullptr;
    LanePart part;
    bool held_back = false;
    bool weighted = false;
    bool eager = false;
    bool acknowledged_at_once = false;
    /// The shard's, at the clock of the newest step.
    protocol::UpdateRule rule{ValueType::kFloat, 0};
    /// Under a push budget, an eager table's `changes` of a row are the sum of the relative changes by all
    /// updates so far.
    bool measured = false;
    /// Updates are combined across workers: `step_of` a row is which of `steps` is its, counted from 1; 0:
    /// none.
    bool combined = false;
    /// While held-back updates of one clock are applied.
    std::vector<Step> steps = {};
    std::vector<std::byte> before = {};  ///< a row before a step, under a push budget
    bool evicts = false;
    consistency::Clock next_sweep = 0;
    std::optional<Sweep> sweep = {};
  };
  struct DirtyRow {
    std::uint32_t table = 0;
    protocol::Row row = {};
    double changes_before = 0;  ///< `changes` of the row when the worker last got it

    /// By table, because the rows of a message are of one table. Then by row, because neighbours are read
    /// fast.
    friend bool operator<(const DirtyRow& a, const DirtyRow& b) {
      return a.table != b.table ? a.table < b.table : a.row < b.row;
    }
  };
  /// The worker is to be told `clock` when its first `position` dirty rows ever have been sent.
  struct ClockNews {
    consistency::Clock clock = 0;
    std::uint64_t position = 0;
  };
  struct HeldUpdates {
    std::vector<std::byte> bytes;
    protocol::BulkHeader header;
  };
  struct FinishedExamples {
    consistency::Clock clock = 0;
    consistency::ExampleCounts counts;
  };
  struct Worker {
    std::uint32_t rank = 0;
    std::uint32_t times_back = 0;
    bool is_told = false;  ///< it may be sent something
    bool listed = false;   ///< in to_tell_
    std::deque<DirtyRow> dirty;
    std::uint64_t dirty_sent = 0;  ///< rows taken from the front of `dirty` so far
    // Messages with updates, as BulkHeader counts them.
    std::uint64_t applied = 0;
    std::uint64_t applied_told = 0;
    std::uint64_t applied_held = 0;
    std::uint64_t applied_held_told = 0;
    std::uint64_t sorted = 0;         ///< rows before this position are in the order of their importance
    std::uint64_t subscriptions = 0;  ///< kSubscribe and kUnsubscribe messages
    consistency::Clock told = 0;
    bool news = false;
    ClockNews next;    ///< the one being worked towards
    ClockNews latest;  ///< the newest
    std::deque<HeldUpdates> held;
    /// So many of these, the first, are of an incarnation before: nobody waits to hear that they are applied.
    std::uint64_t held_of_former = 0;
    std::deque<FinishedExamples> examples;  ///< of clocks not below the min clock, the oldest first
    std::deque<std::shared_ptr<FunctionRun>> held_calls;
    std::deque<std::shared_ptr<FunctionRun>> results;  ///< of calls that have ended, to be told
    /// Results that were told, of calls that change rows: they are told again if they may be lost.
    std::deque<std::shared_ptr<FunctionRun>> told_results;
    std::atomic<std::uint32_t> open_calls = 0;  ///< not told yet
    tbb::concurrent_queue<PushBuffer*> free;
  };

  bool work();
  bool drop_tasks();
  void run(const LaneTask& task);
  static void release(const LaneTask& task);
  void call(const LaneTask& task);
  bool step_calls();
  bool step(FunctionRun& run, std::size_t most);
  static void prefetch_ahead(const Table& table, const FunctionRun& run);
  void visit(Table& table, FunctionRun& run, Key key, protocol::Row row, std::span<const double> numbers);
  void end_call(std::shared_ptr<FunctionRun> run);
  void take_held_calls(consistency::Clock clock);
  bool tell_results(Worker& worker);
  void open(const FixedShard& shard);
  void resume(consistency::Clock clock);
  void begin(const StateTask& task);
  void write_image(ImageWriter& out);
  void write_image(const Worker& worker, ImageWriter& out) const;
  void read_image(ImageReader& in);
  void read_image(Worker& worker, ImageReader& in);
  bool step_load();
  void begin_image(const std::shared_ptr<LaneImages>& image);
  bool step_image();
  void end_image();
  void before_change(const Table& table, protocol::Row row);
  void take_cut();
  void updates(const LaneTask& task);
  [[nodiscard]] HeldUpdates hold(const LaneTask& task);
  void subscribe(const LaneTask& task);
  void mute(Worker& worker);
  void take_back(Worker& worker);
  void replace(Worker& worker);
  void drop_calls_of(Worker& worker);
  void tell_results_again(Worker& worker);
  void drop_subscriptions_of(Worker& worker);
  void push(Worker& worker, PushBuffer* buffer);
  void keep_told(Worker& worker, std::shared_ptr<FunctionRun> run) const;
  void finish_clock(std::uint32_t worker, consistency::Clock clock,
                    const consistency::ExampleCounts& examples);
  void apply(const protocol::BulkHeader& header, std::span<const std::byte> payload, Worker& worker);
  void set_clock(Table& table) const;
  [[nodiscard]] bool begin_unpacking(const LaneTask& task);
  void apply_packed(const LaneTask& task, Worker& worker);
  void apply_records(Table& table, std::size_t records, std::span<const std::byte> payload,
                     const protocol::PushOrigin& origin);
  void apply_by_row(Table& table, std::size_t records, std::span<const std::byte> payload,
                    const protocol::PushOrigin& origin);
  /// Records whose keys say which rows are meant.
  struct RecordKeys {
    std::span<const std::byte> payload;
    std::size_t count = 0;
    protocol::PushOrigin origin;
  };
  template <class Find>
  void apply_in_groups(Table& table, std::span<const std::byte> payload, const Find& find);
  template <class Fetch, class Note, class Take>
  void find_rows(Table& table, const RecordKeys& keys, const Fetch& fetch, const Note& note,
                 const Take& take);
  template <class Fetch, class Note, class Take>
  static void find_dense(const Table& table, const RecordKeys& keys, const Fetch& fetch, const Note& note,
                         const Take& take);
  template <class Note, class Take>
  void find_sparse(Table& table, const RecordKeys& keys, const Note& note, const Take& take);
  void begin_change(Table& table, protocol::Row row);
  // Rows that go.
  [[nodiscard]] std::uint32_t now() const;
  void begin_sweeps();
  bool step_sweeps();
  void evict(Table& table, protocol::Row row);
  void free_gone();
  void tell_of_gone();
  bool tell_gone(Worker& worker);
  /// `change` is about to change the row.
  template <class Change>
  static void change_and_measure(Table& table, protocol::Row row, const Change& change);
  /// Whose push it is; nullopt: nobody's, and a row is made in any case.
  using Origin = std::optional<protocol::PushOrigin>;
  [[nodiscard]] std::optional<protocol::Row> row_to_change(Table& table, Key key, const Origin& origin);
  [[nodiscard]] std::optional<protocol::Row> row_to_change(Table& table, const protocol::KeyHash& hash,
                                                           Key key, const Origin& origin);
  [[nodiscard]] static std::optional<protocol::Row> row_of(const Table& table, Key key);
  [[nodiscard]] static Key key_of(const Table& table, protocol::Row row);
  [[nodiscard]] static Key pushed_key(const Table& table, protocol::Row row);
  static void apply_and_measure(Table& table, protocol::Row row, const std::byte* update);
  void apply_held();
  void combine(HeldUpdates& held, Worker& worker);
  void take_steps(Table& table, consistency::Clock clock);
  [[nodiscard]] static consistency::ExampleCounts examples_of(Worker& worker, consistency::Clock clock);
  void weigh(HeldUpdates& held, double weight) const;
  void finish_updates(const protocol::BulkHeader& header, Worker& worker);
  void tell_applied(Worker& worker);
  [[nodiscard]] protocol::BulkHeader header_for(const Worker& worker, protocol::BulkKind kind) const;
  static void note_applied_told(Worker& worker, const protocol::BulkHeader& header);
  void mark_dirty(Table& table, protocol::Row row);
  template <class Word>
  void mark_dirty_by(Table& table, protocol::Row row);
  void add_dirty(Worker& worker, const DirtyRow& row);
  void list(Worker& worker);
  bool tell_all();
  bool tell(Worker& worker);
  /// What may be sent to a worker now: dirty rows up to a position, in so many bytes.
  struct Allowance {
    std::uint64_t position = 0;
    std::size_t bytes = 0;  ///< of rows; the last one may exceed it. 0: nothing at all, not even a message
  };
  [[nodiscard]] Allowance allowance(const Worker& worker) const;
  [[nodiscard]] bool is_due(const Worker& worker) const;
  void sort_by_importance(Worker& worker, std::uint64_t position, std::size_t bytes);
  void fill(Worker& worker, PushBuffer& buffer, const Allowance& allowance);

  const std::uint32_t index_;
  const std::size_t bits_bytes_;                        ///< of a bit for each worker
  const std::vector<transport::TokenBucket*> budgets_;  ///< by worker; empty: no bound
  consistency::Clock bound_ = consistency::kNoBound;    ///< the tightest that a table has on its readers
  tbb::concurrent_queue<LaneTask> tasks_;
  tbb::concurrent_queue<PushBuffer*> outgoing_;
  tbb::concurrent_queue<std::shared_ptr<FunctionRun>> inspected_;
  // Constant once has_failed_.
  absl::Status failure_;
  std::optional<std::uint32_t> culprit_;
  std::atomic<bool> has_failed_ = false;
  consistency::VectorClock clocks_;
  std::vector<Table> tables_;
  std::vector<std::uint32_t> evicting_;  ///< those whose rows may go
  bool keeps_what_is_told_ = false;
  std::shared_ptr<Cut> cut_;             ///< that is expected
  std::unique_ptr<LaneLoad> load_;       ///< under way: no task is begun before it has ended
  std::shared_ptr<LaneImages> image_;    ///< under way
  std::unique_ptr<ImageCopier> copier_;  ///< of `image_`
  GoneLog gone_;
  std::uint64_t gone_told_ = 0;  ///< how many of its entries all workers are told of, or are to be
  Unpacking unpacking_;
  std::vector<HeldUpdates> combining_;     ///< whose bytes the tables' steps are in
  std::deque<Worker> workers_;             // a deque: a TBB queue cannot move
  std::vector<Worker*> to_tell_;           ///< all to whom something may be sent: few at a time, of thousands
  std::shared_ptr<FunctionRun> changing_;  ///< a call that changes rows, and is under way
  std::deque<std::shared_ptr<FunctionRun>> looking_;    ///< workers' calls that do not, under way
  std::deque<std::shared_ptr<FunctionRun>> observing_;  ///< observers' calls, under way
};

}  // namespace verbena::server
