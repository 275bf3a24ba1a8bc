// Value-bounded asynchronous parallel (Wei et al., SoCC'15; Dai et al., AAAI'15). In every coordinate the sum
// of all updates that not all workers can see yet is at most v₀ / √t, t counting the iterations from 1. A
// read is of the server's row, so that an update is seen by all once it is applied, and the producer alone
// can keep the bound: each of P workers keeps its own sum below v₀ / (P √t). A push that would exceed it
// waits until its updates are applied; so does clock(), since the bound shrinks. Nobody waits for another
// worker's clock.
//
//   | Σ { u : u pushed, not seen by all } | ≤ v₀ / √t   in every coordinate, whenever anyone reads
#pragma once

#include <cmath>

#include "consistency/rules.hpp"

namespace verbena::consistency {

struct Vap {
  double value_bound = 1;  ///< v₀ > 0, finite

  [[nodiscard]] constexpr Rules rules() const {
    return {.cache = CacheRule::kNever, .value_bound = value_bound};
  }
  friend bool operator==(const Vap&, const Vap&) = default;
};

/// What one of `workers` may have in transit at `clock`.
inline double in_transit_bound(double value_bound, std::uint32_t workers, Clock clock) {
  return value_bound / workers / std::sqrt(static_cast<double>(clock + 1));
}

}  // namespace verbena::consistency
