#include "worker/fixed/pull_ways.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace verbena::worker {

PullWays::Trip PullWays::begin(std::size_t keys, transport::TimePoint now) {
  Size& size = sizes_[size_class(keys)];
  Trip trip{.way = size.chosen, .keys = keys, .begun = now};
  if (!size.is_trying) {
    if (size.pulls_left > 0) {
      --size.pulls_left;
      return trip;
    }
    size.is_trying = true;
    size.tried = {};
  }
  if (size.tried[static_cast<std::size_t>(size.chosen)].begun == kMostInTrial) size.tried = {};
  // The chosen way first, then by turns. When enough are under way, more of them go the chosen way, and
  // count.
  const Way other = size.chosen == Way::kReads ? Way::kGather : Way::kReads;
  const Tried& of_other = size.tried[static_cast<std::size_t>(other)];
  if (of_other.begun < size.tried[static_cast<std::size_t>(trip.way)].begun && of_other.begun < kTries)
    trip.way = other;
  ++size.tried[static_cast<std::size_t>(trip.way)].begun;
  return trip;
}

bool PullWays::ended(const Trip& trip, transport::TimePoint now) {
  Size& size = sizes_[size_class(trip.keys)];
  if (!size.is_trying) return false;
  Tried& tried = size.tried[static_cast<std::size_t>(trip.way)];
  const double key_ns =
      std::chrono::duration<double, std::nano>(now - trip.begun).count() / static_cast<double>(trip.keys);
  tried.least_ns = tried.ended == 0 ? key_ns : std::min(tried.least_ns, key_ns);
  ++tried.ended;
  if (std::any_of(size.tried.begin(), size.tried.end(), [](const Tried& way) { return way.ended < kTries; }))
    return false;

  size.is_trying = false;
  size.pulls_left = size.pause;
  size.pause = std::min(2 * size.pause, kLongestPause);
  const Way other = size.chosen == Way::kReads ? Way::kGather : Way::kReads;
  const bool changes = size.tried[static_cast<std::size_t>(other)].least_ns <
                       kClearlyLess * size.tried[static_cast<std::size_t>(size.chosen)].least_ns;
  if (changes) size.chosen = other;
  return changes;
}

}  // namespace verbena::worker
