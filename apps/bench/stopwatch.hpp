// Measures elapsed time cheaply: with the processor's own counter if it has one that runs evenly, as perftest
// does. On some machines, such as emulated ones, reading the system's clock needs a system call; that would
// be most of a short operation's time.
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
  /// Measured once, for about 20 ms, against the system's clock.
  static double nanoseconds_a_tick();

  std::uint64_t begin_;
};

}  // namespace verbena::apps::bench
