// Runs that are made several times: what stands for all of them.
#pragma once

#include <algorithm>
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

}  // namespace verbena::apps
