#include "apps/sketch/sketch_lines.hpp"

#include "apps/data/random.hpp"
#include "base/prefetch.hpp"

namespace verbena::apps::sketch {

Place::Place(Key key, std::uint64_t lines) {
  const std::uint64_t hash = mix(key);
  // By the upper bits; the lower ones choose the counters.
  line_ = static_cast<std::uint64_t>(static_cast<unsigned __int128>(hash) * lines >> 64);
  bits_ = hash;
}

Counts::Counts(std::uint64_t lines) : lines_(lines), counters_(lines * kCounters), is_counted_(lines) {}

void Counts::add(std::span<const Key> keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + base::kKeysAhead < keys.size()) {
      const std::uint64_t ahead = Place(keys[i + base::kKeysAhead], lines_).line();
      base::prefetch_to_write(&counters_[ahead * kCounters]);
      base::prefetch_to_write(&counters_[ahead * kCounters + kCounters / 2]);
    }
    const Place place(keys[i], lines_);
    place.count(line(place.line()));
    if (!is_counted_[place.line()]) {
      is_counted_[place.line()] = true;
      counted_.push_back(place.line());
    }
  }
}

Counts::Lines Counts::take() {
  taken_.clear();
  numbers_.swap(counted_);
  counted_.clear();
  std::sort(numbers_.begin(), numbers_.end());
  for (const Key number : numbers_) {
    const std::span<Counter> counters = line(number);
    taken_.insert(taken_.end(), counters.begin(), counters.end());
    std::fill(counters.begin(), counters.end(), 0);
    is_counted_[number] = false;
  }
  return {numbers_, taken_};
}

}  // namespace verbena::apps::sketch
