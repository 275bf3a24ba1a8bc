// How long who waits for a peer looks for its answer before it gives its core away.
#pragma once

#include <algorithm>
#include <chrono>

#include "base/cores.hpp"

namespace verbena::transport {

/// Long while spinning pays, short while it does not. Spinning for as long as a wake-up takes, and not
/// longer, costs at most twice what the better of the two would have, whatever comes.
class SpinBudget {
 public:
  using Duration = std::chrono::steady_clock::duration;

  /// Zero where there is one core at hand, which whoever else works needs.
  explicit SpinBudget(Duration most)
      : most_(base::cores_at_hand() == 1 ? Duration::zero() : most), now_(most_) {}

  [[nodiscard]] Duration now() const { return now_; }
  /// Work came after `waited`.
  void learn(Duration waited) {
    now_ = waited <= 2 * most_ ? std::min(most_, now_ * 2) : std::max(most_ / 16, now_ / 2);
  }

 private:
  Duration most_;
  Duration now_;
};

}  // namespace verbena::transport
