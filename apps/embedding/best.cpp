#include "apps/embedding/best.hpp"

#include <algorithm>
#include <cmath>

namespace verbena::apps {

std::vector<std::uint32_t> best(std::span<const float> scores, std::size_t count) {
  std::vector<std::uint32_t> places;
  for (std::uint32_t place = 0; place < scores.size(); ++place) {
    if (std::isfinite(scores[place])) places.push_back(place);
  }
  const auto end = places.begin() + static_cast<std::ptrdiff_t>(std::min(count, places.size()));
  std::partial_sort(places.begin(), end, places.end(), [&](std::uint32_t a, std::uint32_t b) {
    return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
  });
  places.erase(end, places.end());
  return places;
}

}  // namespace verbena::apps
