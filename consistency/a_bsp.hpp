// A-BSP, advanced bulk synchronous (Wang et al., Middleware'18).
//
// The promise. As BSP: a read at clock c sees exactly the updates of clocks < c, and the reader's own.
// Besides, the iteration of a clock ends for all when the first worker has finished its examples: each
// finishes its mini-batch and pushes what it has; the examples that it left come first in its next iteration.
// No one waits for a straggler's full pass. Where all finish in time, every bit is BSP's.
//
// The weights. Updates that are sums over examples weigh what they should however many examples they hold.
// Those that are means do not: a mean over a tenth of the examples is pushed as large as one over all of
// them. So worker p's means of a clock in which it has processed n_p of its D_p examples are multiplied by
//
//   w_p = (n_p / Σn) / (D_p / ΣD),   the sums over all workers that took examples in this clock,
//
// which is 1, and nothing is multiplied, where all have processed all.
#pragma once

#include <cstdint>

#include "consistency/rules.hpp"

namespace verbena::consistency {

/// What the updates of a table are, of the examples that they were made from.
enum class Updates : std::uint8_t {
  kSums,   ///< a term for each example: gradients added up, counts
  kMeans,  ///< divided by the number of examples: mean gradients, models to be averaged
};

struct ABsp {
  Updates updates = Updates::kSums;

  [[nodiscard]] constexpr Rules rules() const {
    return {.read_bound = 0,
            .clock_bound = 0,
            .holds_updates_back = true,
            .ends_early = true,
            .weighs_means = updates == Updates::kMeans};
  }
  friend bool operator==(const ABsp&, const ABsp&) = default;
};

/// Of one worker, or of several together, in one clock.
struct ExampleCounts {
  std::uint64_t processed = 0;
  std::uint64_t planned = 0;  ///< what it has in all; 0: it took no examples in this clock
  ExampleCounts& operator+=(const ExampleCounts& other) {
    processed += other.processed;
    planned += other.planned;
    return *this;
  }
};

/// A worker with more examples than this is a slip of the hand; the products below fit into 128 bits.
inline constexpr std::uint64_t kMaxExamples = std::uint64_t{1} << 48;

/// The weight of a worker's means, `all` being the sums over the workers. 1 for one that took no examples:
/// what it pushed is no mean of any.
inline double weight_of_means(const ExampleCounts& own, const ExampleCounts& all) {
  using Wide = unsigned __int128;
  if (own.planned == 0 || Wide{own.processed} * all.planned == Wide{own.planned} * all.processed) return 1;
  return static_cast<double>(own.processed) * static_cast<double>(all.planned) /
         (static_cast<double>(own.planned) * static_cast<double>(all.processed));
}

}  // namespace verbena::consistency
