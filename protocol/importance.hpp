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

/// |u| / (|x| + |u|), the sums of absolute values over `width` numbers; `change(i)` is u, `row` is x. 1 for a
/// row of zeros; 0 where either is not a number.
template <class Value, class Change>
double relative_size(const Value* row, std::uint32_t width, const Change& change) {
  double size = 0;
  double changed = 0;
  for (std::uint32_t i = 0; i < width; ++i) {
    size += std::abs(static_cast<double>(row[i]));
    changed += std::abs(change(i));
  }
  const double relative = changed / (size + changed);
  return relative > 0 ? relative : 0;
}

/// By how much an update that is added changes a row, 0 … 1: see relative_size(). `row` and `update` hold
/// `width` values. If the row holds the update already, the result is at most twice as much and at least half
/// as much.
inline double relative_change(ValueType type, std::uint32_t width, const std::byte* row,
                              const std::byte* update) {
  return visit_value_type(type, [&]<class Value>() {
    const auto* const u = reinterpret_cast<const Value*>(update);
    return relative_size(reinterpret_cast<const Value*>(row), width,
                         [u](std::uint32_t i) { return static_cast<double>(u[i]); });
  });
}

/// The same of a row that was `before` and is `after`.
inline double relative_difference(ValueType type, std::uint32_t width, const std::byte* before,
                                  const std::byte* after) {
  return visit_value_type(type, [&]<class Value>() {
    const auto* const x = reinterpret_cast<const Value*>(before);
    const auto* const y = reinterpret_cast<const Value*>(after);
    return relative_size(
        x, width, [x, y](std::uint32_t i) { return static_cast<double>(y[i]) - static_cast<double>(x[i]); });
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
