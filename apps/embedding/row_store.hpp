// Where the rows live while they are trained: in local arrays for the plain loop, in tables of the parameter server
// for a worker.
#pragma once

#include <hwy/aligned_allocator.h>

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/conditions/slowdown.hpp"
#include "apps/embedding/row_source.hpp"
#include "worker/table.hpp"

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
  /// The rows of the mini-batch, by table, one whole row after the other: to be trained in place until close().
  virtual absl::StatusOr<std::span<float* const>> open() = 0;
  /// Adds what was trained since open(): so many items, as throughput counts them.
  virtual absl::Status close(std::uint64_t items) = 0;
  /// This worker has finished a clock. No mini-batch is requested or open.
  virtual absl::Status clock() = 0;
  /// Afterwards reads see all that any worker has trained, until the next barrier.
  virtual absl::Status barrier() = 0;
  /// The first `numbers` of all rows of a table, one row after the other.
  virtual absl::Status read(std::size_t table, std::size_t numbers, float* to) = 0;
};

class LocalRows final : public RowStore {
 public:
  explicit LocalRows(std::span<const RowSource> first);
  [[nodiscard]] std::size_t lookahead() const override { return 1; }
  void request(std::span<const NeededRows> /*needed*/) override {}
  absl::StatusOr<std::span<float* const>> open() override { return std::span<float* const>(rows_); }
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
  std::vector<float*> rows_;
};

/// The rows of one table that two mini-batches need: the one that is trained and the next.
class FetchedRows {
 public:
  explicit FetchedRows(Table<float>& table);

  void begin();  ///< what a mini-batch needs
  /// Its place among the rows, which is the same for the same key.
  std::uint32_t place_of(std::uint32_t key);
  /// Begins to pull them.
  void fetch();
  /// The rows of the mini-batch that began first, when they have come.
  absl::StatusOr<float*> open();
  /// Pushes what was added to them since.
  absl::Status close();
  /// See TableRows.
  void push_shares(std::vector<float> shares) { shares_ = std::move(shares); }

 private:
  /// First the rows that the mini-batch before has, too: as trained there, for they are not pushed yet when the others are
  /// pulled. Then, from a place that leaves room for as many as could be, those that are pulled.
  struct Frame {
    std::vector<std::uint32_t> places;  ///< by key, + 1; 0: not needed
    std::vector<Key> handed_over;
    std::vector<std::uint32_t> places_before;  ///< of these
    std::vector<Key> pulled;
    std::size_t first_pulled = 0;  ///< place
    hwy::AlignedFreeUniquePtr<float[]> values;
    std::size_t capacity = 0;     ///< of `values`, in rows
    std::vector<float> opened;    ///< `values` when they were opened, then what was added
    std::optional<Pending> pull;  ///< begun, and not opened yet

    [[nodiscard]] std::size_t keys() const { return handed_over.size() + pulled.size(); }
    [[nodiscard]] std::size_t end() const { return first_pulled + pulled.size(); }
  };

  Table<float>& table_;
  std::vector<float> shares_;  ///< empty: all 1
  std::array<Frame, 2> frames_;
  std::size_t first_ = 0;  ///< the frame to be opened next, or that is open
  std::size_t begun_ = 0;  ///< frames in use, first_ first
};

/// Pulls the rows of a mini-batch while the one before it is trained; pushes the differences.
class TableRows final : public RowStore {
 public:
  /// What is done between open() and close() is what `slowdown` slows.
  TableRows(Session& session, std::span<Table<float>* const> tables, Slowdown& slowdown);

  /// Pushes this worker's share of the first rows; all workers' are seen when it returns.
  absl::Status initialize(std::span<const RowSource> first);

  /// From now on, of what is added to the row of key k only shares[k] are pushed, for the sum over workers may be too
  /// much. Mini-batches of a clock still hand rows over as they were trained.
  void push_shares(std::size_t table, std::vector<float> shares) {
    fetched_[table].push_shares(std::move(shares));
  }

  [[nodiscard]] std::size_t lookahead() const override { return 1; }
  void request(std::span<const NeededRows> needed) override;
  absl::StatusOr<std::span<float* const>> open() override;
  absl::Status close(std::uint64_t items) override;
  absl::Status clock() override;
  absl::Status barrier() override { return session_.barrier(); }
  absl::Status read(std::size_t table, std::size_t numbers, float* to) override;

 private:
  Session& session_;
  std::vector<Table<float>*> tables_;
  std::deque<FetchedRows> fetched_;  ///< by table
  std::vector<float*> open_;         ///< likewise
  Slowdown& slowdown_;
};

}  // namespace verbena::apps
