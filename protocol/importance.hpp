// Which of many updates matter most: managed communication sends those first (Wei et al., SoCC'15, relative
// magnitude).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "protocol/value_type.hpp"

namespace verbena::protocol {

/// By how much an update changes a row, 0 … 1: |u| / (|x| + |u|), the sums of absolute values. 1 for a row of
/// zeros; 0 where either is not a number. `row` and `update` hold `width` values.
inline double relative_change(ValueType type, std::uint32_t width, const std::byte* row,
                              const std::byte* update) {
  return visit_value_type(type, [&]<class Value>() {
    const auto* const x = reinterpret_cast<const Value*>(row);
    const auto* const u = reinterpret_cast<const Value*>(update);
    double size = 0;
    double change = 0;
    for (std::uint32_t i = 0; i < width; ++i) {
      size += std::abs(static_cast<double>(x[i]));
      change += std::abs(static_cast<double>(u[i]));
    }
    const double relative = change / (size + change);
    return relative > 0 ? relative : 0;
  });
}

/// What to sort by, in descending order: the importance's order of magnitude only, so that among equals an
/// order that is good for other reasons remains.
inline int importance_class(double importance) {
  return importance > 0 ? std::ilogb(importance) : FP_ILOGB0;
}

}  // namespace verbena::protocol
