// Which keys belong to which part.
#pragma once

#include <cassert>
#include <cstdint>

#include <verbena/keys.hpp>

namespace verbena::protocol {

/// Range partition of keys [0, rows) into `parts` contiguous ranges whose sizes differ by at most one,
/// the larger ones first. Parts may be empty where rows < parts.
class RangePartition {
 public:
  constexpr RangePartition() = default;
  constexpr RangePartition(std::uint64_t rows, std::uint32_t parts)
      : rows_(rows), parts_(parts), small_(rows / parts), large_parts_(rows % parts) {
    assert(parts > 0);
  }
  [[nodiscard]] constexpr std::uint32_t parts() const { return parts_; }
  [[nodiscard]] constexpr std::uint64_t rows() const { return rows_; }
  [[nodiscard]] constexpr KeyRange range(std::uint32_t part) const {
    const std::uint64_t first = part * small_ + (part < large_parts_ ? part : large_parts_);
    return {first, first + small_ + (part < large_parts_ ? 1 : 0)};
  }
  /// REQUIRES: key < rows().
  [[nodiscard]] constexpr std::uint32_t part_of(Key key) const {
    const Key boundary = large_parts_ * (small_ + 1);
    return static_cast<std::uint32_t>(key < boundary ? key / (small_ + 1)
                                                     : large_parts_ + (key - boundary) / small_);
  }

 private:
  std::uint64_t rows_ = 0;
  std::uint32_t parts_ = 1;
  std::uint64_t small_ = 0;
  std::uint64_t large_parts_ = 0;
};

}  // namespace verbena::protocol
