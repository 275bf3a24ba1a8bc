// Where the rows live while they are trained: in local arrays for the plain loop, in tables of the parameter
// server for a worker.
#pragma once

#include <hwy/aligned_allocator.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/embedding/allocation.hpp"
#include "apps/embedding/row_source.hpp"
#include "apps/training_watch.hpp"
#include <verbena/table.hpp>

namespace verbena::apps {

/// Keys of rows that a mini-batch needs.
struct NeededRows {
  std::size_t table = 0;  ///< index from 0, in the order in which the store was given the tables
  std::span<std::uint32_t> keys;
};

/// Mini-batches are requested one after the other, and opened and closed in that order, one open at a time.
class RowStore {
 public:
  virtual ~RowStore() = default;
  /// How many mini-batches may be requested and not opened yet. If it is 0, one may be, while none is open.
  [[nodiscard]] virtual std::size_t lookahead() const = 0;
  /// Begins to fetch the rows of a mini-batch, and replaces each key by the place of its row among them.
  virtual void request(std::span<const NeededRows> needed) = 0;
  /// Returns the rows of the mini-batch, by table and place. They are trained in place until close().
  virtual absl::StatusOr<std::span<const RowPointers>> open() = 0;
  /// Adds what was trained since open(). `items`: how much that was, as throughput counts it.
  virtual absl::Status close(std::uint64_t items) = 0;
  /// This worker has finished a clock. No mini-batch is requested or open.
  virtual absl::Status clock() = 0;
  /// Afterwards reads see all that any worker has trained, until the next barrier.
  virtual absl::Status barrier() = 0;
  /// See Session::is_catching_up(): nothing need be trained.
  [[nodiscard]] virtual bool is_catching_up() const { return false; }
  /// The first `numbers` of all rows of a table, one row after the other.
  virtual absl::Status read(std::size_t table, std::size_t numbers, float* to) = 0;
  /// Draws keys below `rows` of a table, for a mini-batch that is about to be requested. All are equally
  /// likely, unless the store prefers some.
  virtual void draw(std::size_t table, std::size_t rows, std::mt19937_64& random,
                    std::span<std::uint32_t> keys);
};

class LocalRows final : public RowStore {
 public:
  explicit LocalRows(std::span<const RowSource> first);
  [[nodiscard]] std::size_t lookahead() const override { return 1; }
  void request(std::span<const NeededRows> /*needed*/) override {}
  absl::StatusOr<std::span<const RowPointers>> open() override { return std::span<const RowPointers>(rows_); }
  absl::Status close(std::uint64_t /*items*/) override { return absl::OkStatus(); }
  absl::Status clock() override { return absl::OkStatus(); }
  absl::Status barrier() override { return absl::OkStatus(); }
  absl::Status read(std::size_t table, std::size_t numbers, float* to) override;

 private:
  struct Size {
    std::size_t rows;
    std::size_t width;
  };
  std::vector<Size> sizes_;  ///< by table, as are the members below
  std::vector<hwy::AlignedFreeUniquePtr<float[]>> memory_;
  std::vector<std::vector<float*>> places_;
  std::vector<RowPointers> rows_;
};

/// How the rows of tables come to a worker, and leave it.
struct FetchOptions {
  RowAllocation allocation = RowAllocation::kStatic;
  /// How many mini-batches ahead rows are requested. 0: each mini-batch is pulled, trained and pushed before
  /// the next is requested. 1: a mini-batch is pulled while the one before it is trained, and its updates are
  /// pushed while the next one is trained. More, for rows that move: they begin to move so many mini-batches
  /// before they are used.
  std::size_t lookahead = 1;
  /// For rows that move: how often a key is drawn again if its row is not near (<verbena/sampling.hpp>).
  double near_draws = 0;
};

/// By row: whether it is better to leave it where it is than to localize it, because other workers are more
/// likely than not to want it, too, while it moves and until it is used. `uses_by_others`: the expected
/// number of uses while one mini-batch is trained.
std::vector<bool> wanted_by_others(std::span<const double> uses_by_others, std::size_t lookahead);

/// The rows of one table that the mini-batch in training and the mini-batches after it need. A row that lies
/// on this node is held and changed in place (Table::hold()). Any other row is copied, and the difference is
/// pushed.
class FetchedRows {
 public:
  FetchedRows(Table<float>& table, const FetchOptions& options);

  void begin();  ///< begins to collect what a mini-batch needs
  /// Replaces keys by their places among the rows. Equal keys get the same place.
  void find_places(std::span<std::uint32_t> keys);
  /// No more keys follow. If rows move, localizes them or signals the intent. `clock`: the clock in which the
  /// mini-batch will be trained.
  absl::Status end(std::int64_t clock);
  /// Begins to pull the rows of the first mini-batch for which this has not been done yet.
  void fetch();
  // To open the mini-batch that began first: call gather(), then take(). As long as take() misses rows of any
  // table, call release() for all tables, then copy_rest(), and take() again. No row is held while the worker
  // waits for others: a worker that holds rows and waits for more could wait for another worker that does the
  // same.
  /// Copies the rows that are not here, except those for which take() will find that out.
  absl::Status gather();
  /// Holds all other rows, without waiting. Returns false if some of them cannot be held.
  absl::StatusOr<bool> take();
  void release() { static_cast<void>(held_.release()); }  // can only fail in another thread than take()
  /// Copies the rows that take() could not hold.
  absl::Status copy_rest() { return copy(left_); }
  /// Returns the mini-batch's rows, now that all are held or copied.
  RowPointers open();
  /// Pushes what was added to copies. REQUIRES: no table's rows are held.
  absl::Status close();
  /// See TableRows.
  void push_shares(std::vector<float> shares) { shares_ = std::move(shares); }
  void leave_where_they_are(std::vector<bool> rows) { stay_ = std::move(rows); }
  /// Signals the intent to use, from `clock` on, the rows of leave_where_they_are(): those that lie here, or,
  /// if not `here`, those that do not.
  absl::Status intend_for_ever(std::int64_t clock, bool here);

 private:
  /// No place, or no copy.
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Frame {
    std::vector<Key> keys;                      ///< by place
    std::vector<std::uint32_t> places_before;   ///< by place: its place in the mini-batch before, or kNone
    std::vector<float*> rows;                   ///< by place; of held rows, only while the mini-batch is open
    std::vector<std::uint32_t> copies;          ///< by place: which copy it is, or kNone
    std::vector<std::uint32_t> copied;          ///< places, by copy: first those that are pulled ahead
    std::vector<Key> keys_ahead;                ///< of the copies that are pulled ahead
    hwy::AlignedFreeUniquePtr<float[]> values;  ///< of the copies
    std::size_t capacity = 0;                   ///< of `values`, in rows
    std::vector<float> opened;                  ///< of the copies: at open(); in close(), what was added
    std::optional<Pending> pull;                ///< of keys_ahead; from fetch() to gather()
  };
  /// The place of each key among the rows of a mini-batch. Only the newest two mini-batches need it.
  struct Places {
    std::vector<std::uint32_t> by_key;  ///< place + 1; 0: the key is not needed
    std::vector<Key> keys;
  };

  [[nodiscard]] Frame& frame(std::size_t ahead) { return frames_[(first_ + ahead) % frames_.size()]; }
  [[nodiscard]] const Frame& frame(std::size_t ahead) const {
    return frames_[(first_ + ahead) % frames_.size()];
  }
  /// The frame that was opened before the next one to be opened. It is closed, and no mini-batch has begun in
  /// it since.
  [[nodiscard]] const Frame& frame_before() const { return frame(frames_.size() - 1); }
  /// Whether the mini-batch before has trained a copy of the row.
  [[nodiscard]] bool is_handed_over(std::uint32_t place) const;
  /// Makes the row at this place one more copy. The caller must fill in its values.
  float* add_copy(Frame& frame, std::uint32_t place) const;
  /// Copies rows of the frame to be opened: as the mini-batch before has trained them, if it hands them over,
  /// else as they are now.
  absl::Status copy(std::span<const std::uint32_t> places);
  absl::Status localize(const Frame& frame);
  absl::Status intend(const Frame& frame, std::int64_t clock);

  [[nodiscard]] bool is_here(Key key) const { return holds_ && table_.is_here(key); }

  Table<float>& table_;
  const FetchOptions options_;
  const bool holds_;
  std::vector<float> shares_;  ///< empty: all 1
  std::vector<bool> stay_;     ///< by key; empty: none
  std::vector<Frame> frames_;
  std::size_t first_ = 0;    ///< the frame to be opened next, or that is open
  std::size_t begun_ = 0;    ///< frames in use, from first_ on
  std::size_t fetched_ = 0;  ///< of these, how many fetch() was called for
  std::array<Places, 2> places_;
  std::size_t newest_ = 0;           ///< of places_
  std::vector<std::uint32_t> left_;  ///< places of rows that are neither held nor copied
  HeldRows held_;
  // Memory of one call, kept for the next.
  std::vector<Key> some_keys_;
  std::vector<float*> some_rows_;
};

/// Returns the number `own` of every worker, by rank. Collective. `name`: of the table that is made for this.
/// `allocation`: the same as for the other tables, because even a single static table makes each clock a
/// message.
absl::StatusOr<std::vector<std::int64_t>> numbers_of_all_workers(Session& session, const char* name,
                                                                 std::int64_t own, Allocation allocation);

/// Pulls the rows of a mini-batch while the one before it is trained; pushes the differences.
class TableRows final : public RowStore {
 public:
  /// `watch` measures what is done between open() and close(). With an allocation other than static, the
  /// tables are dynamic; with kIntent each mini-batch is a clock of the session.
  TableRows(Session& session, std::span<const Table<float>> tables, TrainingWatch& watch,
            const FetchOptions& options = {});

  /// Pushes this worker's share of the first rows; all workers' are seen when it returns.
  absl::Status initialize(std::span<const RowSource> first);

  /// For kIntent, before training: this worker has at most `most_mini_batches` from one clock() to the next.
  /// The numbers differ between workers, but after each clock() all sessions must be at the same clock.
  /// Collective.
  absl::Status agree_on_clocks(std::size_t most_mini_batches);

  /// From now on, only the share shares[k] of what is added to a copy of the row of key k is pushed, because
  /// the sum over workers may be too large. Mini-batches of a clock still hand rows over as they were
  /// trained.
  void push_shares(std::size_t table, std::vector<float> shares) {
    fetched_[table].push_shares(std::move(shares));
  }
  /// `rows`, by key: rows that are not localized, and for which no mini-batch signals an intent, because
  /// several nodes want them all the time.
  void leave_where_they_are(std::size_t table, std::vector<bool> rows) {
    fetched_[table].leave_where_they_are(std::move(rows));
  }
  /// For kIntent: signals, once, the intent to use all of these rows all the time. Collective.
  absl::Status intend_for_ever();

  [[nodiscard]] std::size_t lookahead() const override { return options_.lookahead; }
  void request(std::span<const NeededRows> needed) override;
  absl::StatusOr<std::span<const RowPointers>> open() override;
  absl::Status close(std::uint64_t items) override;
  absl::Status clock() override;
  absl::Status barrier() override { return session_.barrier(); }
  [[nodiscard]] bool is_catching_up() const override { return session_.is_catching_up(); }
  absl::Status read(std::size_t table, std::size_t numbers, float* to) override;
  void draw(std::size_t table, std::size_t rows, std::mt19937_64& random,
            std::span<std::uint32_t> keys) override;

 private:
  Session& session_;
  std::vector<Table<float>> tables_;
  const FetchOptions options_;
  std::deque<FetchedRows> fetched_;  ///< by table
  std::vector<RowPointers> open_;    ///< by table
  std::size_t requested_ = 0;        ///< mini-batches that are not closed yet
  bool is_open_ = false;
  absl::Status request_status_;     ///< errors of request() and draw(), which open() returns
  std::size_t session_clocks_ = 0;  ///< for kIntent: from one clock() to the next, the same for every worker
  std::size_t closed_ = 0;          ///< mini-batches since the last clock()
  TrainingWatch& watch_;
};

}  // namespace verbena::apps
