// Runs that are made several times: what stands for all of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace verbena::apps {

/// The middle element in the order of by(element); nullopt if there are no elements.
template <class T, class By>
std::optional<T> middle_of(std::vector<T> all, By by) {
  if (all.empty()) return std::nullopt;
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::ranges::nth_element(all, middle, {}, by);
  return *middle;
}
inline std::optional<double> median(std::vector<double> all) {
  return middle_of(std::move(all), std::identity());
}

/// The least of which at least that share is not above it.
inline std::optional<double> percentile(std::vector<double> all, double share) {
  if (all.empty()) return std::nullopt;
  std::ranges::sort(all);
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(all.size())));
  return all[std::max<std::size_t>(rank, 1) - 1];
}

}  // namespace verbena::apps
