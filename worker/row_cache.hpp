// The row cache: this worker's copies of one lane's rows of one table, each with the clock it is good for.
#pragma once

#include <limits>
#include <vector>

#include "consistency/rules.hpp"
#include "worker/local_memory.hpp"
#include "worker/update_buffer.hpp"

namespace verbena::worker {

/// Invariant: a cached row holds all of this worker's own updates, shipped or not.
/// Thread safety: none; one owner.
class RowCache {
 public:
  /// The clock of a row that eager pushes keep fresh: as good as the lane's min clock says.
  static constexpr consistency::Clock kLive = std::numeric_limits<consistency::Clock>::max();

  struct Row {
    std::byte* values = nullptr;  ///< nullptr: not cached
    consistency::Clock* clock = nullptr;
  };

  RowCache(protocol::KeyRange keys, std::size_t stride_bytes, LocalMemory& memory);

  [[nodiscard]] Row find(protocol::Key key) {
    const std::uint32_t slot = index_[key - keys_.first];
    return slot == 0 ? Row{} : Row{values(slot - 1), &clocks_[slot - 1]};
  }
  /// A place for a row that is not cached yet, values and clock not set. Not cached if memory is short.
  [[nodiscard]] Row insert(protocol::Key key);

  [[nodiscard]] std::size_t size() const { return clocks_.size(); }

 private:
  [[nodiscard]] std::byte* values(std::uint32_t slot) const {
    return slabs_[slot >> kSlabShift].bytes.data() + (slot & kSlabMask) * stride_bytes_;
  }

  static constexpr std::uint32_t kSlabShift = 8;
  static constexpr std::uint32_t kSlabMask = (1U << kSlabShift) - 1;

  const protocol::KeyRange keys_;
  const std::size_t stride_bytes_;
  LocalMemory& memory_;
  RowIndex index_;  ///< by row: slot + 1, 0 for none
  std::vector<LocalSpan> slabs_;
  std::vector<consistency::Clock> clocks_;  ///< by slot
};

}  // namespace verbena::worker
