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
  std::size_t table = 0;  ///< counted from 0, in the order in which the store was given them
  std::span<std::uint32_t> keys;
};

/// Mini-batches are requested one after the other, and opened and closed in that order, one open at a time.
class RowStore {
 public:
  virtual ~RowStore() = default;
  /// So many mini-batches may be requested and not opened yet, or one where that is 0 and none is open.
  [[nodiscard]] virtual std::size_t lookahead() const = 0;
  /// Begins to bring the rows of a mini-batch, and puts each row's place among them in the place of its key.
  virtual void request(std::span<const NeededRows> needed) = 0;
  /// The rows of the mini-batch, by table and place: to be trained in place until close().
  virtual absl::StatusOr<std::span<const RowPointers>> open() = 0;
  /// Adds what was trained since open(): so many items, as throughput counts them.
  virtual absl::Status close(std::uint64_t items) = 0;
  /// This worker has finished a clock. No mini-batch is requested or open.
  virtual absl::Status clock() = 0;
  /// Afterwards reads see all that any worker has trained, until the next barrier.
  virtual absl::Status barrier() = 0;
  /// The first `numbers` of all rows of a table, one row after the other.
  virtual absl::Status read(std::size_t table, std::size_t numbers, float* to) = 0;
  /// Draws keys of the `rows` of a table, for a mini-batch that is about to be requested: evenly, unless the
  /// store prefers some.
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
  std::vector<Size> sizes_;  ///< by table, as what follows
  std::vector<hwy::AlignedFreeUniquePtr<float[]>> memory_;
  std::vector<std::vector<float*>> places_;
  std::vector<RowPointers> rows_;
};

/// How the rows of tables come to a worker, and leave it.
struct FetchOptions {
  RowAllocation allocation = RowAllocation::kStatic;
  /// Mini-batches whose rows are asked for ahead. 0: each is pulled, trained and pushed before the next is
  /// asked for. 1: it is pulled while the one before it is trained, and what it has learnt leaves while the
  /// next one is. More, for rows that move: they set out so many mini-batches before they are used.
  std::size_t lookahead = 1;
  /// Of rows that move: how often a key that is drawn and not near is drawn again (<verbena/sampling.hpp>).
  double near_draws = 0;
};

/// By row, whether it is better left where it is than localized: on its way and until it is used, others are
/// more likely than not to want it, too. `uses_by_others`: expected while one mini-batch is trained.
std::vector<bool> wanted_by_others(std::span<const double> uses_by_others, std::size_t lookahead);

/// The rows of one table that some mini-batches need: the one that is trained and those after it. Each is
/// held in place where it lies on this node (Table::hold()), and else a copy, of which the difference is
/// pushed.
class FetchedRows {
 public:
  FetchedRows(Table<float>& table, const FetchOptions& options);

  void begin();  ///< what a mini-batch needs
  /// Instead of keys, their places among the rows: the same for the same key.
  void find_places(std::span<std::uint32_t> keys);
  /// That is all. Lets rows that move set out; `clock` is the one in which the mini-batch will be trained.
  absl::Status end(std::int64_t clock);
  /// Begins to pull the rows of the first mini-batch that has none yet.
  void fetch();
  // To open the mini-batch that began first: gather(), take(), and as long as rows get away from take(), of
  // all tables release(), then copy_rest(), and take() again. No row is held while others are waited for:
  // whoever holds some and waits for more can wait for another who does the same.
  /// Copies those that are not here, as far as they are not found out by take().
  absl::Status gather();
  /// Holds all others, without waiting. False: some of them cannot be held.
  absl::StatusOr<bool> take();
  void release() { static_cast<void>(held_.release()); }  // can only fail in another thread than take()
  /// Copies those that could not be held.
  absl::Status copy_rest() { return copy(left_); }
  /// Its rows, all being held or copied.
  RowPointers open();
  /// Pushes what was added to copies. REQUIRES: no table's rows are held.
  absl::Status close();
  /// See TableRows.
  void push_shares(std::vector<float> shares) { shares_ = std::move(shares); }
  void leave_where_they_are(std::vector<bool> rows) { stay_ = std::move(rows); }
  /// Intends to use, from `clock` on, those of leave_where_they_are() that lie here, or those that do not.
  absl::Status intend_for_ever(std::int64_t clock, bool here);

 private:
  /// A row that is none of the copies of its mini-batch.
  static constexpr std::uint32_t kNone = UINT32_MAX;
  struct Frame {
    std::vector<Key> keys;                      ///< by place
    std::vector<std::uint32_t> places_before;   ///< by place: in the mini-batch before; kNone
    std::vector<float*> rows;                   ///< by place; those that are held only while it is open
    std::vector<std::uint32_t> copies;          ///< by place: which copy it is; kNone
    std::vector<std::uint32_t> copied;          ///< places, by copy: first those that are pulled ahead
    std::vector<Key> keys_ahead;                ///< of these
    hwy::AlignedFreeUniquePtr<float[]> values;  ///< of the copies
    std::size_t capacity = 0;                   ///< of `values`, in rows
    std::vector<float> opened;                  ///< of the copies, when they were opened; then what was added
    std::optional<Pending> pull;                ///< of those ahead; begun, and not opened yet
  };
  /// Where the keys of a mini-batch are among its rows. Of no more than the newest two is that asked.
  struct Places {
    std::vector<std::uint32_t> by_key;  ///< + 1; 0: not needed
    std::vector<Key> keys;
  };

  [[nodiscard]] Frame& frame(std::size_t ahead) { return frames_[(first_ + ahead) % frames_.size()]; }
  [[nodiscard]] const Frame& frame(std::size_t ahead) const {
    return frames_[(first_ + ahead) % frames_.size()];
  }
  /// That has been opened before the one that is to be opened: closed, and nothing has begun in its place.
  [[nodiscard]] const Frame& frame_before() const { return frame(frames_.size() - 1); }
  /// The mini-batch before has trained a copy of the row.
  [[nodiscard]] bool is_handed_over(std::uint32_t place) const;
  /// The row at this place is one more copy, whose values are still to come.
  float* add_copy(Frame& frame, std::uint32_t place) const;
  /// Of the frame to be opened: as the mini-batch before has trained it, or as it is now.
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
  std::size_t begun_ = 0;    ///< frames in use, first_ first
  std::size_t fetched_ = 0;  ///< of these
  std::array<Places, 2> places_;
  std::size_t newest_ = 0;           ///< of places_
  std::vector<std::uint32_t> left_;  ///< places of rows that are neither held nor copied
  HeldRows held_;
  // Memory of one call, kept for the next.
  std::vector<Key> some_keys_;
  std::vector<float*> some_rows_;
};

/// What every worker says, by rank. Collective; `name` is that of a table for it. `allocation`: as the other
/// tables', for a single static one makes each clock a message.
absl::StatusOr<std::vector<std::int64_t>> numbers_of_all_workers(Session& session, const char* name,
                                                                 std::int64_t own, Allocation allocation);

/// Pulls the rows of a mini-batch while the one before it is trained; pushes the differences.
class TableRows final : public RowStore {
 public:
  /// What is done between open() and close() is what `watch` sees. With an allocation other than static
  /// the tables are dynamic; with kIntent each mini-batch is a clock of the session.
  TableRows(Session& session, std::span<const Table<float>> tables, TrainingWatch& watch,
            const FetchOptions& options = {});

  /// Pushes this worker's share of the first rows; all workers' are seen when it returns.
  absl::Status initialize(std::span<const RowSource> first);

  /// Of kIntent, before training: this worker has at most so many mini-batches from one clock() to the next.
  /// Workers have different numbers, and their sessions are to be at the same clock then. Collective.
  absl::Status agree_on_clocks(std::size_t most_mini_batches);

  /// From now on, of what is added to a copy of the row of key k only shares[k] are pushed, for the sum over
  /// workers may be too much. Mini-batches of a clock still hand rows over as they were trained.
  void push_shares(std::size_t table, std::vector<float> shares) {
    fetched_[table].push_shares(std::move(shares));
  }
  /// Rows that are not localized, by key, and on which no mini-batch has an intent: several nodes want them
  /// all the time.
  void leave_where_they_are(std::size_t table, std::vector<bool> rows) {
    fetched_[table].leave_where_they_are(std::move(rows));
  }
  /// Of kIntent: says, once, that this worker uses all of these all the time. Collective.
  absl::Status intend_for_ever();

  [[nodiscard]] std::size_t lookahead() const override { return options_.lookahead; }
  void request(std::span<const NeededRows> needed) override;
  absl::StatusOr<std::span<const RowPointers>> open() override;
  absl::Status close(std::uint64_t items) override;
  absl::Status clock() override;
  absl::Status barrier() override { return session_.barrier(); }
  absl::Status read(std::size_t table, std::size_t numbers, float* to) override;
  void draw(std::size_t table, std::size_t rows, std::mt19937_64& random,
            std::span<std::uint32_t> keys) override;

 private:
  Session& session_;
  std::vector<Table<float>> tables_;
  const FetchOptions options_;
  std::deque<FetchedRows> fetched_;  ///< by table
  std::vector<RowPointers> open_;    ///< likewise
  std::size_t requested_ = 0;        ///< mini-batches that are not closed yet
  bool is_open_ = false;
  absl::Status request_status_;     ///< request() tells nobody
  std::size_t session_clocks_ = 0;  ///< of kIntent, from one clock() to the next, of every worker
  std::size_t closed_ = 0;          ///< mini-batches since then
  TrainingWatch& watch_;
};

}  // namespace verbena::apps
