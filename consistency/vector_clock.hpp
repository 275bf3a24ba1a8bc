// One clock for each worker, and their minimum.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <vector>

#include "consistency/rules.hpp"

namespace verbena::consistency {

/// Thread safety: none; one owner.
class VectorClock {
 public:
  /// A worker that has left holds nobody back.
  static constexpr Clock kLeft = std::numeric_limits<Clock>::max();

  explicit VectorClock(std::uint32_t workers) : clocks_(workers, 0) { assert(workers > 0); }

  [[nodiscard]] Clock clock(std::uint32_t worker) const { return clocks_[worker]; }
  [[nodiscard]] Clock min() const { return min_; }

  /// Sets one worker's clock; true if the minimum advanced. REQUIRES: clocks never go back.
  bool advance(std::uint32_t worker, Clock to) {
    Clock& clock = clocks_[worker];
    assert(to >= clock);
    const bool was_slowest = clock == min_;
    clock = to;
    if (!was_slowest) return false;
    const Clock before = min_;
    min_ = *std::min_element(clocks_.begin(), clocks_.end());
    return min_ > before;
  }

 private:
  std::vector<Clock> clocks_;
  Clock min_ = 0;
};

}  // namespace verbena::consistency
