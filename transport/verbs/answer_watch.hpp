// Tells whether a peer's device still answers, from what this side's device reports about what was sent.
//
// A device that has been silent for a while is asked, by an empty write. What has had no report for the whole
// of the patience never gets one. Only time in which this side has looked counts: a process that was stopped,
// or has computed for long, cannot tell whether the peer has answered meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "transport/transport.hpp"

namespace verbena::transport::verbs {

class AnswerWatch {
 public:
  enum class Finding : std::uint8_t { kFine, kSilent, kGone };

  explicit AnswerWatch(TimePoint now) : alive_at_(now) {}

  /// The peer was just met.
  void start(TimePoint now) { alive_at_ = now; }
  void on_completion() { ++completions_; }

  /// Call it at intervals. `awaits_report`: the device will report something that is outstanding, if it
  /// succeeds. kSilent: nothing is, so ask. kGone: the peer has not answered for `patience`.
  [[nodiscard]] Finding look(TimePoint now, Duration patience, bool awaits_report) {
    // If this side has not looked for a long time, it cannot tell whether the peer has answered.
    if (now - std::exchange(last_look_, now) > patience / 4) waiting_since_.reset();
    if (std::exchange(completions_at_look_, completions_) != completions_) {
      alive_at_ = now;
      waiting_since_.reset();
    } else if (!awaits_report) {
      waiting_since_.reset();
      if (now - alive_at_ > patience / 4) return Finding::kSilent;
    } else if (!waiting_since_) {
      waiting_since_ = now;
    } else if (now - *waiting_since_ > patience) {
      return Finding::kGone;
    }
    return Finding::kFine;
  }

 private:
  std::uint64_t completions_ = 0;
  std::uint64_t completions_at_look_ = 0;
  TimePoint last_look_;
  TimePoint alive_at_;  ///< when the peer's device was known to be alive, as of the last look
  std::optional<TimePoint> waiting_since_;  ///< for the device to report something
};

}  // namespace verbena::transport::verbs
