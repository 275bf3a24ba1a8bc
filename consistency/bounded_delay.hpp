// Bounded delay (Li et al., OSDI'14, section 3.4). A clock is a task: what all workers pull and push in it. A
// task starts only when all tasks more than `delay` before it have finished, that is, when all their updates
// are applied: the wait is in clock(), and no read waits for other workers. Within a clock operations run
// side by side but for the dependencies that they name (OperationOptions::after in worker/table.hpp). Delay 0
// is one task after the other, without BSP's order of sums.
//
//   { u : t(u) ≤ c − τ − 1 } ∪ own ⊆ R(c),   m ≥ c − τ when clock c begins
#pragma once

#include "consistency/rules.hpp"

namespace verbena::consistency {

struct BoundedDelay {
  std::uint32_t delay = 1;

  [[nodiscard]] constexpr Rules rules() const { return {.read_bound = delay, .clock_bound = delay}; }
  friend bool operator==(const BoundedDelay&, const BoundedDelay&) = default;
};

}  // namespace verbena::consistency
