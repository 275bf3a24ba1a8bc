// When to try again what has failed: later each time, up to a second.
#pragma once

#include <algorithm>
#include <chrono>

#include "cluster/store.hpp"

namespace verbena::cluster {

class Backoff {
 public:
  static constexpr Duration kFirst = std::chrono::milliseconds(50);
  static constexpr Duration kLongest = std::chrono::seconds(1);

  void fail(TimePoint now) {
    pause_ = std::clamp(2 * pause_, kFirst, kLongest);
    next_ = now + pause_;
  }
  void succeed() {
    pause_ = Duration::zero();
    next_ = TimePoint::min();
  }
  /// The next attempt is not before this.
  [[nodiscard]] TimePoint next() const { return next_; }

 private:
  Duration pause_ = Duration::zero();
  TimePoint next_ = TimePoint::min();
};

}  // namespace verbena::cluster
