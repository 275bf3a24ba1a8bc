// How a worker's means are weighted under A-BSP (Wang et al., Middleware'18): see ABsp in
// <verbena/consistency.hpp>.
#pragma once

#include <cstdint>

namespace verbena::consistency {

/// The counts of one worker, or of several together, in one clock.
struct ExampleCounts {
  std::uint64_t processed = 0;
  std::uint64_t planned = 0;  ///< all that it has; 0: it took no examples in this clock
  ExampleCounts& operator+=(const ExampleCounts& other) {
    processed += other.processed;
    planned += other.planned;
    return *this;
  }
};

/// A worker with more examples than this is surely a mistake; up to this number, the products below fit into
/// 128 bits.
inline constexpr std::uint64_t kMaxExamples = std::uint64_t{1} << 48;

/// The weight of a worker's means; `all` has the sums over the workers. 1 for a worker that took no examples:
/// what it pushed is not a mean of examples.
inline double weight_of_means(const ExampleCounts& own, const ExampleCounts& all) {
  using Wide = unsigned __int128;
  if (own.planned == 0 || Wide{own.processed} * all.planned == Wide{own.planned} * all.processed) return 1;
  return static_cast<double>(own.processed) * static_cast<double>(all.planned) /
         (static_cast<double>(own.planned) * static_cast<double>(all.processed));
}

}  // namespace verbena::consistency
