// Which of many updates matter most: managed communication sends those first (Wei et al., SoCC'15, relative
// magnitude).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <verbena/value_type.hpp>

namespace verbena::protocol {

/// By how much an update changes a row, 0 … 1: |u| / (|x| + |u|), the sums of absolute values. 1 for a row of
/// zeros; 0 where either is not a number. `row` and `update` hold `width` values. If the row holds the update
/// already, the result is at most twice as much and at least half as much.
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

/// The sort key, in descending order: only the importance's order of magnitude, so that items of equal
/// importance keep an order that is good for other reasons.
inline int importance_class(double importance) {
  return importance > 0 ? std::ilogb(importance) : FP_ILOGB0;
}

/// Within a clock, the candidates are the oldest items, this many times as many as can be sent; the most
/// important of them are chosen. So each item has its turn, and choosing costs no more than sending.
inline constexpr std::size_t kImportanceCandidates = 5;

template <class Item>
struct Ranked {
  int importance = 0;  ///< importance_class()
  Item item;
};

/// Puts the `first` most important to the front in that order, those of equal importance in the order of
/// their items.
template <class Item>
void put_most_important_first(std::vector<Ranked<Item>>& all, std::size_t first) {
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(first, all.size())),
                    all.end(), [](const Ranked<Item>& a, const Ranked<Item>& b) {
                      if (a.importance != b.importance) return a.importance > b.importance;
                      return a.item < b.item;
                    });
}

}  // namespace verbena::protocol
