// Whether rank 0 shows signs of life, for a guest of a rendezvous over a network.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "transport/transport.hpp"

namespace verbena::job {

/// Rank 0 beats in the thread that talks to the others, whatever else it does: so what stops that is a stop
/// of its process, or of its host. Thread safety: none.
class LeaderWatch {
 public:
  /// So often rank 0 says something at least.
  static constexpr std::chrono::milliseconds kBetweenBeats{500};

  /// `most`: so long it may say nothing; 0: as long as it likes.
  explicit LeaderWatch(std::chrono::milliseconds most) : most_(most) {}

  /// There is another one, or none: nobody is watched before it has beaten.
  void end() { looked_at_.reset(); }
  void hear_beat(transport::TimePoint now) {
    if (!looked_at_) looked_at_ = now;
  }
  /// It has said anything.
  void hear() { silent_ = transport::Duration::zero(); }
  /// To be called again and again, each time after what has come was heard. True: it has been silent for too
  /// long. Time counts only while this process has looked: it may have been stopped itself.
  bool look(transport::TimePoint now) {
    if (!looked_at_ || most_.count() == 0) return false;
    silent_ +=
        std::clamp<transport::Duration>(now - *looked_at_, transport::Duration::zero(), 2 * kBetweenBeats);
    looked_at_ = now;
    return silent_ >= most_;
  }
  [[nodiscard]] double silent_seconds() const { return std::chrono::duration<double>(silent_).count(); }

 private:
  const std::chrono::milliseconds most_;
  std::optional<transport::TimePoint> looked_at_;  ///< nullopt: nobody is watched
  transport::Duration silent_{0};
};

}  // namespace verbena::job
