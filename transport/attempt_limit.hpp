// How long an attempt to connect may take, for those who try again and again and have no time for others
// meanwhile. Short at first, for the other side may be gone, or another process may come in its place. If it
// is silent, the next one takes twice as long: far hosts, a subnet manager that all ask at once, and emulated
// devices need more time, and would never be reached else.
#pragma once

#include <algorithm>
#include <chrono>

#include "absl/status/status.h"
#include "transport/refusal.hpp"
#include "transport/transport.hpp"

namespace verbena::transport {

/// A value, to be copied; one for each address that is tried.
class AttemptLimit {
 public:
  [[nodiscard]] Duration next() const { return limit_; }
  static constexpr Duration kLongest = std::chrono::seconds(1);

  /// One has failed, by an error of Transport::connect(). The next ones take `longest` at most, which may
  /// differ from call to call, but never less than the first.
  void failed(const absl::Status& error, Duration longest = kLongest) {
    if (!is_refusal(error)) limit_ = std::max(kShortest, std::min(2 * limit_, longest));
  }

 private:
  static constexpr Duration kShortest = std::chrono::milliseconds(50);
  Duration limit_ = kShortest;
};

/// Of one who must not be taken for silent by others meanwhile. `silence_timeout`: theirs; 0: none.
inline Duration longest_attempt_beside(std::chrono::milliseconds silence_timeout) {
  constexpr Duration kLongest = AttemptLimit::kLongest;
  return silence_timeout.count() == 0 ? kLongest : std::min<Duration>(kLongest, silence_timeout / 4);
}

}  // namespace verbena::transport
