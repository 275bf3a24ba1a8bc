// Bulk synchronous parallel (Valiant, CACM'90). A read sees exactly the updates of all finished clocks, and
// the reader's own: nothing that another worker does in the running clock. The server adds the updates of a
// clock when all have finished it, in the order of workers and pushes, so that two runs are equal bit for
// bit. All wait for the slowest at each clock().
//
//   R(c) = { u : t(u) < c } ∪ own,   m = c at each read
#pragma once

#include "consistency/rules.hpp"

namespace verbena::consistency {

struct Bsp {
  [[nodiscard]] static constexpr Rules rules() {
    return {.read_bound = 0, .clock_bound = 0, .holds_updates_back = true};
  }
  friend bool operator==(const Bsp&, const Bsp&) = default;
};

}  // namespace verbena::consistency
