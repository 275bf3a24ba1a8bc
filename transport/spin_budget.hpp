// How long who waits for a peer looks for its answer before it gives its core away.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace verbena::transport {

/// Whoever else works needs the only one.
inline bool has_one_processor() {
  cpu_set_t processors;
  return ::sched_getaffinity(0, sizeof(processors), &processors) == 0 && CPU_COUNT(&processors) == 1;
}

/// Long while spinning pays, short while it does not. Spinning for as long as a wake-up takes, and not
/// longer, costs at most twice what the better of the two would have, whatever comes.
class SpinBudget {
 public:
  using Duration = std::chrono::steady_clock::duration;

  /// Zero with only one processor.
  explicit SpinBudget(Duration most) : most_(has_one_processor() ? Duration::zero() : most), now_(most_) {}

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
