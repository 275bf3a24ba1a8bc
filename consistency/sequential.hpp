// Sequential consistency for each key (Lamport 1979; the promise of Lapse, VLDB'20, for synchronous
// operations). A push has been applied when it returns, and a pull reads the server's row: for each number of
// a row there is one order of all pushes and pulls that every worker agrees with, and an operation that began
// after another had ended comes after it (that is, each number is linearizable). Nothing is said of clocks;
// each push costs a round trip.
//
//   u ended before the read began ⇒ u ∈ R;   R₁ ⊆ R₂ or R₂ ⊆ R₁ for any two reads of a number
#pragma once

#include "consistency/rules.hpp"

namespace verbena::consistency {

struct Sequential {
  [[nodiscard]] static constexpr Rules rules() {
    return {.cache = CacheRule::kNever, .pushes_at_once = true};
  }
  friend bool operator==(const Sequential&, const Sequential&) = default;
};

}  // namespace verbena::consistency
