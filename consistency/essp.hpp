// Eager stale synchronous parallel (Dai et al., AAAI'15). The promise of SSP; besides, whoever has read a row
// has subscribed to it, and each time the min clock advances the server writes the rows that have changed
// into the subscribers' caches, rows first, then the clock. Reads are nearly always local and fresh, and the
// bound seldom makes anybody wait.
//
//   { u : t(u) ≤ c − s − 1 } ∪ own ⊆ R(c),   m ≥ c − s;   c − 1 − m is mostly 0
#pragma once

#include "consistency/rules.hpp"

namespace verbena::consistency {

struct Essp {
  std::uint32_t staleness = 1;

  [[nodiscard]] constexpr Rules rules() const { return {.read_bound = staleness, .pushes_eagerly = true}; }
  friend bool operator==(const Essp&, const Essp&) = default;
};

}  // namespace verbena::consistency
