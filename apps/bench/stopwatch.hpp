// Time that has passed, cheaply: by the processor's own counter where it has one that runs evenly, as
// perftest does. The system's clock costs a system call where the machine's clock cannot be read without one,
// as in emulated machines; that would be most of a short operation's time.
#pragma once

#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace verbena::apps::bench {

class Stopwatch {
 public:
  Stopwatch() : begin_(ticks()) {}
  [[nodiscard]] double nanoseconds() const {
    return static_cast<double>(static_cast<std::int64_t>(ticks() - begin_)) * nanoseconds_a_tick();
  }

  static std::uint64_t ticks() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
  }

 private:
  /// Measured once, for some 20 ms, against the system's clock.
  static double nanoseconds_a_tick();

  std::uint64_t begin_;
};

}  // namespace verbena::apps::bench
