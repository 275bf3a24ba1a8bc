// How long poll(2) is to wait.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace verbena::base {

/// From now until `until`, in milliseconds, at most `most` of them; 0 if that is over. `until` may be any
/// time, also the least and the greatest, of which nothing can be subtracted.
inline int poll_timeout_ms(std::chrono::steady_clock::time_point until, std::chrono::milliseconds most) {
  const auto now = std::chrono::steady_clock::now();
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::clamp(until, now, now + most) - now);
  return static_cast<int>(left.count());
}

}  // namespace verbena::base
