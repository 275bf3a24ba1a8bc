// The models as rules: who may read what, who waits, what is held back. Pure functions of clocks.
//
// Notation: c is the reader's clock, the number of iterations it has finished; an update made at clock t
// carries t. The min clock m of a lane says that all updates of clocks < m, from every worker, are applied
// there.
//
//   BSP      a read at c sees exactly the updates of clocks < c and the reader's own:          m = c
//   SSP(s)   a read at c sees all updates of clocks ≤ c − s − 1, and maybe newer ones:         m ≥ c − s
//   ESSP(s)  as SSP; besides, dirty subscribed rows are pushed each time m advances
#pragma once

#include <algorithm>
#include <cstdint>

#include "consistency/model.hpp"

namespace verbena::consistency {

using Clock = std::int64_t;

/// The smallest min clock that lets a reader at `reader_clock` go on. `staleness_bound` is staleness(model).
inline Clock min_clock_needed(Clock staleness_bound, Clock reader_clock) {
  return std::max<Clock>(0, reader_clock - staleness_bound);
}

/// Updates of a clock wait on the server until every worker has finished it, then are applied in worker
/// order.
inline bool holds_updates_back(const ConsistencyModel& model) {
  return std::holds_alternative<Bsp>(model);
}

/// clock() returns only when the min clock has reached the worker's own.
inline bool waits_at_clock(const ConsistencyModel& model) {
  return std::holds_alternative<Bsp>(model);
}

/// The server pushes dirty subscribed rows when the min clock advances.
inline bool pushes_eagerly(const ConsistencyModel& model) {
  return std::holds_alternative<Essp>(model);
}

/// The newest clock a read surely includes, minus the reader's: −1 under BSP, −1 … −s−1 under SSP(s) and
/// ESSP(s).
inline Clock clock_differential(Clock min_clock, Clock reader_clock) {
  return min_clock - 1 - reader_clock;
}

}  // namespace verbena::consistency
