// Where the item rows live while they are trained: in local arrays for the plain loop, in a table of the
// parameter server for a worker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/embedding/allocation.hpp"
#include "apps/embedding/moving_blocks.hpp"
#include "apps/embedding/row_store.hpp"
#include "apps/mf/blocks.hpp"
#include "apps/mf/model.hpp"
#include "apps/training_watch.hpp"
#include <verbena/table.hpp>

namespace verbena::apps::mf {

class ItemStore {
 public:
  virtual ~ItemStore() = default;
  /// A block is trained from now on until clock().
  virtual absl::Status block_begins(Upcoming /*upcoming*/) { return absl::OkStatus(); }
  /// Rows [first, last), as they are now; valid until the next call.
  virtual absl::StatusOr<Rows> read(std::uint32_t first, std::uint32_t last) = 0;
  /// Rows [first, last), to be trained in place until close().
  virtual absl::StatusOr<Rows> open(std::uint32_t first, std::uint32_t last) = 0;
  /// Others see what was trained since open() of the same rows. `trained`: ratings since mini_batch_begins()
  /// or open(), whichever came later.
  virtual absl::Status close(std::uint64_t trained) = 0;
  /// Called around each mini-batch, which may lie in an open slice or open other slices. `trained` is as for
  /// close().
  virtual void mini_batch_begins() {}
  virtual void mini_batch_ends(std::uint64_t /*trained*/) {}
  /// This worker has finished a block.
  virtual absl::Status clock() = 0;
  /// Afterwards reads see all that any worker has trained, until the next barrier.
  virtual absl::Status barrier() = 0;
};

class LocalItems final : public ItemStore {
 public:
  explicit LocalItems(FactorRows& rows) : rows_(rows) {}
  absl::StatusOr<Rows> read(std::uint32_t first, std::uint32_t /*last*/) override {
    return rows_.rows(first);
  }
  absl::StatusOr<Rows> open(std::uint32_t first, std::uint32_t last) override { return read(first, last); }
  absl::Status close(std::uint64_t /*trained*/) override { return absl::OkStatus(); }
  absl::Status clock() override { return absl::OkStatus(); }
  absl::Status barrier() override { return absl::OkStatus(); }

 private:
  FactorRows& rows_;
};

/// Copies a slice at a time: one pull, training on the copy, one push of the difference.
class TableItems : public ItemStore {
 public:
  /// `slice_rows` is the largest last − first that will be requested. `watch` measures what is done of a
  /// mini-batch while a slice is open, mini-batch by mini-batch: a slow worker is slow throughout the clock.
  TableItems(Session& session, Table<float>& table, const RowFormat& format, std::size_t slice_rows,
             TrainingWatch& watch)
      : session_(session), table_(table), rows_(slice_rows, format), watch_(watch) {}
  absl::StatusOr<Rows> read(std::uint32_t first, std::uint32_t last) override;
  absl::StatusOr<Rows> open(std::uint32_t first, std::uint32_t last) override;
  absl::Status close(std::uint64_t trained) override;
  /// A slow worker is slow throughout the clock: if the clock ends early, what is left is left.
  void mini_batch_begins() override { watch_.computing_begins(); }
  void mini_batch_ends(std::uint64_t trained) override { watch_.computing_ends(trained); }
  absl::Status clock() override;
  absl::Status barrier() override { return session_.barrier(); }

 protected:
  [[nodiscard]] Table<float>& table() { return table_; }
  /// The copies that are trained.
  [[nodiscard]] FactorRows& rows() { return rows_; }
  [[nodiscard]] TrainingWatch& watch() { return watch_; }

 private:
  Session& session_;
  Table<float>& table_;
  FactorRows rows_;
  TrainingWatch& watch_;
  std::vector<float> packed_;  // as pulled
  KeyRange range_;
};

/// The same for the rows of a dynamic table, which come to this worker's node block by block. A slice whose
/// rows are all here is held while it is trained: it is copied and copied back, because the kernel wants rows
/// to be aligned, but nothing is added. REQUIRES: Session::limit_lead(Turns::clocks_ahead).
class MovingItems final : public TableItems {
 public:
  /// `allocation` and `ahead`: as for MovingBlocks.
  MovingItems(Session& session, Table<float>& table, const RowFormat& format, std::size_t slice_rows,
              TrainingWatch& watch, RowAllocation allocation, bool ahead)
      : TableItems(session, table, format, slice_rows, watch),
        blocks_(session, table.untyped(), allocation, ahead) {}
  absl::Status block_begins(Upcoming upcoming) override { return blocks_.block_begins(upcoming); }
  absl::StatusOr<Rows> open(std::uint32_t first, std::uint32_t last) override;
  absl::Status close(std::uint64_t trained) override;

 private:
  MovingBlocks blocks_;
  HeldRows held_;
  std::vector<float*> places_;  ///< of the rows that are held; empty: none
};

/// Ratings and the rows that they need, which are fetched together.
struct MiniBatch {
  std::vector<Rating> ratings;        ///< Rating::item: once requested, an index into `places`
  std::vector<std::uint32_t> places;  ///< of the rows in the store
};

/// What any parameter server offers: the rows of a mini-batch are pulled, trained and pushed.
class MiniBatchItems {
 public:
  /// `ratings`: the most in a mini-batch. `ahead`: a mini-batch may be requested while the one before it is
  /// open.
  MiniBatchItems(RowStore& rows, std::size_t items, const RowFormat& format, std::size_t ratings, bool ahead)
      : store_(rows), rows_(std::min(ratings, items), format), index_of_item_(items), ahead_(ahead) {}
  [[nodiscard]] bool ahead() const { return ahead_; }
  void request(MiniBatch& batch);
  absl::StatusOr<Rows> open(const MiniBatch& batch);
  absl::Status close(const MiniBatch& batch);

 private:
  RowStore& store_;
  FactorRows rows_;
  std::vector<std::uint32_t> index_of_item_;  ///< index + 1; all 0 between two calls
  const bool ahead_;
  RowPointers packed_ = nullptr;  ///< of the open mini-batch
};

}  // namespace verbena::apps::mf
