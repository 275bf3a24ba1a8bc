// Stale synchronous parallel (Ho et al., NIPS'13). A read sees all updates but maybe those of the last
// `staleness` clocks and of the running one, of which it sees what happens to be there. A worker more than
// `staleness` clocks ahead of the slowest waits, in its read. What was read answers later reads as long as
// that bound allows.
//
//   { u : t(u) ≤ c − s − 1 } ∪ own ⊆ R(c),   m ≥ c − s
#pragma once

#include "consistency/rules.hpp"

namespace verbena::consistency {

struct Ssp {
  std::uint32_t staleness = 1;

  [[nodiscard]] constexpr Rules rules() const { return {.read_bound = staleness}; }
  friend bool operator==(const Ssp&, const Ssp&) = default;
};

}  // namespace verbena::consistency
