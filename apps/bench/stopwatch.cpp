#include "apps/bench/stopwatch.hpp"

namespace verbena::apps::bench {

namespace {

using Clock = std::chrono::steady_clock;

struct Moment {
  Clock::time_point time;
  std::uint64_t ticks = 0;
};

/// Reads both clocks together. Of several tries it takes the one in which least passed between the counter's
/// two readings.
Moment read_both() {
  Moment best;
  std::uint64_t shortest = UINT64_MAX;
  for (int attempt = 0; attempt < 16; ++attempt) {
    const std::uint64_t before = Stopwatch::ticks();
    const Clock::time_point time = Clock::now();
    const std::uint64_t after = Stopwatch::ticks();
    if (after - before >= shortest) continue;
    shortest = after - before;
    best = {time, before + shortest / 2};
  }
  return best;
}

double measure() {
  const Moment begin = read_both();
  while (Clock::now() - begin.time < std::chrono::milliseconds(20)) {
  }
  const Moment end = read_both();
  return std::chrono::duration<double, std::nano>(end.time - begin.time).count() /
         static_cast<double>(end.ticks - begin.ticks);
}

}  // namespace

double Stopwatch::nanoseconds_a_tick() {
  static const double kMeasured = measure();
  return kMeasured;
}

}  // namespace verbena::apps::bench
