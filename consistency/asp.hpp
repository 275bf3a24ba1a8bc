// Asynchronous parallel, also "eventual" (Li et al., OSDI'14) or Hogwild. A read sees what the server has when
// the row is first read in a clock; nobody ever waits for another worker, and nothing bounds how old what it
// sees is, but that updates arrive.
//
//   own ⊆ R(c)
#pragma once

#include "consistency/rules.hpp"

namespace verbena::consistency {

struct Asp {
  [[nodiscard]] static constexpr Rules rules() { return {.cache = CacheRule::kForOneClock}; }
  friend bool operator==(const Asp&, const Asp&) = default;
};

}  // namespace verbena::consistency
