// The time of a process that may be stopped.
#pragma once

#include <algorithm>
#include <chrono>

namespace verbena::base {

/// A clock that stands still while nobody looks at it, as when this process is stopped (SIGSTOP), or its host
/// hangs: what others do within a time they could not do meanwhile, since this process did not answer. What
/// it says is to be compared with nothing but what it has said. Thread safety: none.
class OwnTime {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// Between two looks no more counts. Whoever runs looks each second, or more often.
  static constexpr std::chrono::milliseconds kMostBetweenLooks{1500};

  /// It is so late, as any clock says.
  explicit OwnTime(TimePoint now) : now_(now), looked_at_(now) {}

  void look(TimePoint now) {
    now_ += std::clamp<TimePoint::duration>(now - looked_at_, TimePoint::duration::zero(), kMostBetweenLooks);
    looked_at_ = now;
  }
  /// At the last look.
  [[nodiscard]] TimePoint now() const { return now_; }

 private:
  TimePoint now_;
  TimePoint looked_at_;
};

}  // namespace verbena::base
