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

  explicit VectorClock(std::uint32_t workers) : clocks_(workers, 0), slowest_(workers) {
    assert(workers > 0);
  }

  [[nodiscard]] Clock clock(std::uint32_t worker) const { return clocks_[worker]; }
  [[nodiscard]] Clock min() const { return min_; }

  /// Sets one worker's clock; true if the minimum advanced. REQUIRES: clocks never go back. Looks at all
  /// workers only when the last of the slowest goes on.
  bool advance(std::uint32_t worker, Clock to) {
    Clock& clock = clocks_[worker];
    assert(to >= clock);
    const bool was_slowest = clock == min_ && to > min_;
    clock = to;
    if (!was_slowest || --slowest_ > 0) return false;
    min_ = *std::min_element(clocks_.begin(), clocks_.end());
    slowest_ = static_cast<std::size_t>(std::count(clocks_.begin(), clocks_.end(), min_));
    return true;
  }

 private:
  std::vector<Clock> clocks_;
  Clock min_ = 0;
  std::size_t slowest_;  ///< workers whose clock is the minimum
};

}  // namespace verbena::consistency
