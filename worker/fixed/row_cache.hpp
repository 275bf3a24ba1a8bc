// The row cache: this worker's copies of one lane's rows of one table, each with the clock it is good for.
#pragma once

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "base/prefetch.hpp"
#include "base/zeroed_array.hpp"
#include "consistency/rules.hpp"
#include "protocol/row.hpp"
#include "worker/fixed/row_index.hpp"
#include "worker/row_copy.hpp"

namespace verbena::worker {

/// A cached row: its clock, then its values, so that one cache miss brings both. Zeros are an absent row.
class CachedRow {
 public:
  /// The clock of a row that eager pushes keep fresh: as good as the lane's min clock says.
  static constexpr consistency::Clock kLive = std::numeric_limits<consistency::Clock>::max() - 1;
  /// The clock of a row that is not cached: below any clock that a reader may need.
  static constexpr consistency::Clock kAbsent = -1;

  [[nodiscard]] consistency::Clock clock() const { return clock_ + kAbsent; }
  void set_clock(consistency::Clock clock) { clock_ = clock - kAbsent; }
  [[nodiscard]] std::byte* values() { return reinterpret_cast<std::byte*>(this + 1); }
  [[nodiscard]] const std::byte* values() const { return reinterpret_cast<const std::byte*>(this + 1); }

 private:
  consistency::Clock clock_ = 0;
};

/// If fewer rows may be cached than there are: a row that has been read since the hand last passed it gets a
/// second chance (the CLOCK algorithm), and the next row without one is evicted.
///
/// Invariant: a cached row contains all of this worker's own updates that their rule predicts, shipped or
/// not; if the table's updates are held back, none of the running clock. Thread safety: none; one owner. A
/// found row stays where it is until the next insert().
class RowCache {
 public:
  /// `rows`: how many there are, as RowIndex takes it, of which `most_rows` may be cached.
  RowCache(std::uint64_t rows, std::size_t stride_bytes, std::uint64_t most_rows);

  /// Rows may be evicted.
  [[nodiscard]] bool is_bounded() const { return most_rows_ < all_rows_; }

  /// The row. If it is not cached: a row with the clock kAbsent, which must not be changed.
  [[nodiscard]] CachedRow& at(protocol::Row row) const {
    if (flat_ != nullptr) return *row_at(flat_.get() + index_of(row) * row_bytes_);
    const std::uint32_t slot = index_.find(row);
    return slot == 0 ? absent_ : *slab_row(slot - 1);
  }
  /// nullptr: not cached.
  [[nodiscard]] CachedRow* find(protocol::Row row) const {
    CachedRow& cached = at(row);
    return cached.clock() == CachedRow::kAbsent ? nullptr : &cached;
  }
  struct Place {
    CachedRow* row = nullptr;              ///< nullptr: no row may be cached, or memory is short
    std::optional<protocol::Row> evicted;  ///< the row that had this place, and is no longer cached
  };
  /// A place for a row that is not cached yet. The row is cached once its clock is set.
  [[nodiscard]] Place insert(protocol::Row row);
  /// The row is not cached any more.
  void erase(protocol::Row row);
  /// The same, and a row that is cached gets a second chance.
  CachedRow& read(protocol::Row row) {
    if (flat_ != nullptr) return *row_at(flat_.get() + index_of(row) * row_bytes_);
    const std::uint32_t slot = index_.find(row);
    if (slot == 0) return absent_;
    if (is_bounded()) slots_[slot - 1].touched = true;
    return *slab_row(slot - 1);
  }
  /// at(), find() or read() will be called soon: asks the processor to fetch what they look at first.
  void prefetch_index(protocol::Row row) const {
    if (flat_ == nullptr) index_.prefetch(row);
  }
  /// The same a little later, once that has come: the row itself.
  void prefetch(protocol::Row row) const { prefetch_row(&at(row)); }

  /// If the cache has a place for each row, for a loop over keys to hold in registers: where the row of key 0
  /// would be, and the distance between rows, so that the loop need not subtract the first key from each. An
  /// address of 0: the cache has no such places.
  struct Places {
    std::uintptr_t address = 0;
    std::size_t row_bytes = 0;

    [[nodiscard]] const CachedRow& at(Key key) const {
      return *reinterpret_cast<const CachedRow*>(address + key * row_bytes);
    }
    /// Asks the processor to fetch a row that will soon be read with at(). Any key is allowed.
    void prefetch(Key key) const { prefetch_row(reinterpret_cast<const void*>(address + key * row_bytes)); }
  };
  [[nodiscard]] Places places(const protocol::RowRange& range) const {
    if (flat_ == nullptr) return {};
    return {reinterpret_cast<std::uintptr_t>(flat_.get()) - range.keys().first * row_bytes_, row_bytes_};
  }

 private:
  static CachedRow* row_at(std::byte* place) { return reinterpret_cast<CachedRow*>(place); }
  [[nodiscard]] std::uint32_t evict();
  [[nodiscard]] CachedRow* slab_row(std::uint32_t slot) const {
    return row_at(slabs_[slot >> slab_shift_].get() + (slot & ((1U << slab_shift_) - 1)) * row_bytes_);
  }

  const std::uint64_t all_rows_;
  const std::uint64_t most_rows_;
  const std::size_t row_bytes_;     ///< a multiple of 8
  const std::uint32_t slab_shift_;  ///< rows per slab, a power of two
  /// Either a place for each row, which needs no lookup, if that takes little memory and is allowed.
  base::ZeroedArray<std::byte> flat_;
  /// Or slabs of the rows that are cached, and an index.
  RowIndex index_;  ///< slot + 1
  std::vector<std::unique_ptr<std::byte[]>> slabs_;
  std::uint32_t rows_ = 0;                 ///< slots that have been used
  std::vector<std::uint32_t> free_slots_;  ///< those of erased rows
  struct Slot {
    protocol::Row row = {};
    bool touched = false;
  };
  std::vector<Slot> slots_;  ///< only of a bounded cache
  std::uint32_t hand_ = 0;   ///< the slot to be looked at next
  mutable CachedRow absent_;
};

}  // namespace verbena::worker
