#include "apps/sketch/sampled_counts.hpp"

#include <bit>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "apps/data/random.hpp"

namespace verbena::apps::sketch {
namespace {

/// Of another hash than that which says where a key's counters are.
int zeros_of(Key key) {
  return std::countr_zero(mix(~key));
}

}  // namespace

void SampledCounts::add(Key key) {
  if (zeros_of(key) < least_zeros_) return;
  ++counts_[key];
  while (counts_.size() > kMostKeys) {
    ++least_zeros_;
    absl::erase_if(counts_, [&](const auto& one) { return zeros_of(one.first) < least_zeros_; });
  }
}

double SampledCounts::relative_error(std::span<const Counter> counters, std::uint64_t lines) const {
  double wrong = 0;
  double all = 0;
  for (const auto& [key, count] : counts_) {
    const Place place(key, lines);
    const Counter estimate = place.estimate(counters.subspan(place.line() * kCounters, kCounters));
    wrong += static_cast<double>(estimate < count ? count - estimate : estimate - count);
    all += static_cast<double>(count);
  }
  return all > 0 ? wrong / all : 0;
}

}  // namespace verbena::apps::sketch
