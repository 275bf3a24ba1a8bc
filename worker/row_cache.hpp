// The row cache: this worker's copies of one lane's rows of one table, each with the clock it is good for.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "consistency/rules.hpp"
#include "protocol/partition.hpp"
#include "worker/row_index.hpp"

namespace verbena::worker {

/// Invariant: a cached row holds all of this worker's own updates, shipped or not.
/// Thread safety: none; one owner. A found row stays where it is as long as the cache lives.
class RowCache {
 public:
  /// The clock of a row that eager pushes keep fresh: as good as the lane's min clock says.
  static constexpr consistency::Clock kLive = std::numeric_limits<consistency::Clock>::max();

  /// A cached row: its clock, then its values, so that one cache miss brings both.
  struct Row {
    consistency::Clock clock = 0;
    [[nodiscard]] std::byte* values() { return reinterpret_cast<std::byte*>(this + 1); }
    [[nodiscard]] const std::byte* values() const { return reinterpret_cast<const std::byte*>(this + 1); }
  };

  RowCache(protocol::KeyRange keys, std::size_t stride_bytes);

  /// nullptr: not cached.
  [[nodiscard]] Row* find(protocol::Key key) const {
    const std::uint32_t slot = index_[key - keys_.first];
    return slot == 0 ? nullptr : row(slot - 1);
  }
  /// A place for a row that is not cached yet, values and clock not set. nullptr: memory is short.
  [[nodiscard]] Row* insert(protocol::Key key);

  [[nodiscard]] std::size_t size() const { return rows_; }

 private:
  [[nodiscard]] Row* row(std::uint32_t slot) const {
    return reinterpret_cast<Row*>(slabs_[slot >> slab_shift_].get() +
                                  (slot & ((1U << slab_shift_) - 1)) * row_bytes_);
  }

  const protocol::KeyRange keys_;
  const std::size_t row_bytes_;     ///< a multiple of 8
  const std::uint32_t slab_shift_;  ///< rows a slab, a power of two
  RowIndex index_;                  ///< by row: slot + 1, 0 for none
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  std::uint32_t rows_ = 0;
};

}  // namespace verbena::worker
