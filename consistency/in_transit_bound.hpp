// A worker's part of the bound of VAP (Wei et al., SoCC'15): see Vap in <verbena/consistency.hpp>.
#pragma once

#include <cmath>
#include <cstdint>

#include "consistency/rules.hpp"

namespace verbena::consistency {

/// How much one of `workers` may have in transit at `clock`.
inline double in_transit_bound(double value_bound, std::uint32_t workers, Clock clock) {
  return value_bound / workers / std::sqrt(static_cast<double>(clock + 1));
}

}  // namespace verbena::consistency
