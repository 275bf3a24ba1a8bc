// Asynchronous parallel, also "eventual" (Li et al., OSDI'14) or Hogwild. A read sees what the server has
// when the row is first read in a clock; nobody ever waits for another worker, and nothing bounds how old
// what it sees is, but that updates arrive.
//
//   own ⊆ R(c)
//
// Of a dynamic table rows are read where they lie, or, where intents have made a replica of one, in the
// replica. Those have a bound, so that no server needs to be quick and none may be forgotten: with K =
// kMostClocksBehind, an update of clock t is applied when its worker begins clock t + 2K + 1, and a read at
// clock c sees all that was applied when its worker began clock c − K.
#pragma once

#include "consistency/rules.hpp"

namespace verbena::consistency {

struct Asp {
  /// Of replicas of dynamic tables. Those of rows that are told clock by clock are mostly one clock behind; a
  /// clock may be short, and a server busy.
  static constexpr Clock kMostClocksBehind = 8;

  [[nodiscard]] static constexpr Rules rules() { return {.cache = CacheRule::kForOneClock}; }
  friend bool operator==(const Asp&, const Asp&) = default;
};

}  // namespace verbena::consistency
