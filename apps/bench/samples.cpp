#include "apps/bench/samples.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace verbena::apps::bench {

namespace {

constexpr double kUnitsEach = 1000;    // in a nanosecond: buckets count picoseconds
constexpr unsigned kFineBits = 8;      // 256 buckets to each doubling
constexpr unsigned kShownBits = 4;     // 16 shown buckets to each doubling
constexpr double kMostUnits = 0x1p60;  // 13 days

/// The bucket of a whole number of units: below 2^bits there is one bucket for each number, above that 2^bits
/// buckets for each doubling.
std::size_t bucket_of(std::uint64_t units, unsigned bits) {
  const auto width = static_cast<unsigned>(std::bit_width(units));
  if (width <= bits) return units;
  const unsigned shift = width - bits - 1;
  return (std::size_t{shift} << bits) + (units >> shift);
}

double low_of(std::size_t bucket, unsigned bits) {
  if (bucket >> bits <= 1) return static_cast<double>(bucket);
  const std::size_t shift = (bucket >> bits) - 1;
  return std::ldexp(static_cast<double>(bucket - (shift << bits)), static_cast<int>(shift));
}

}  // namespace

void Samples::add(double nanoseconds, std::size_t operations) {
  const double units = std::clamp(nanoseconds * kUnitsEach, 0.0, kMostUnits);
  const std::size_t bucket = bucket_of(static_cast<std::uint64_t>(units), kFineBits);
  if (bucket >= counts_.size()) counts_.resize(bucket + 1);
  ++counts_[bucket];
  shortest_ns_ = samples_ == 0 ? nanoseconds : std::min(shortest_ns_, nanoseconds);
  longest_ns_ = std::max(longest_ns_, nanoseconds);
  ++samples_;
  operations_ += operations;
  total_ns_ += nanoseconds * static_cast<double>(operations);
}

void Samples::add_bucket(const Bucket& bucket) {
  for (std::uint64_t i = 0; i < bucket.samples; ++i) add((bucket.low_ns + bucket.high_ns) / 2);
}

void Samples::merge(const Samples& other) {
  if (other.empty()) return;
  counts_.resize(std::max(counts_.size(), other.counts_.size()));
  for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  shortest_ns_ = empty() ? other.shortest_ns_ : std::min(shortest_ns_, other.shortest_ns_);
  longest_ns_ = std::max(longest_ns_, other.longest_ns_);
  samples_ += other.samples_;
  operations_ += other.operations_;
  total_ns_ += other.total_ns_;
}

double Samples::percentile(double fraction) const {
  assert(!empty());
  const double all = static_cast<double>(samples_);
  const double rank = std::clamp(std::ceil(fraction * all), 1.0, all);
  if (rank == 1) return shortest_ns_;
  if (rank == all) return longest_ns_;
  double below = 0;
  std::size_t bucket = 0;
  while (below + static_cast<double>(counts_[bucket]) < rank) below += static_cast<double>(counts_[bucket++]);
  const double middle = (low_of(bucket, kFineBits) + low_of(bucket + 1, kFineBits)) / 2;
  return std::clamp(middle / kUnitsEach, shortest_ns_, longest_ns_);
}

double Samples::operations_per_second() const {
  return total_ns_ > 0 ? static_cast<double>(operations_) * 1e9 / total_ns_ : 0;
}

std::vector<Samples::Bucket> Samples::histogram() const {
  std::vector<Bucket> shown;
  std::size_t last = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0) continue;
    const std::size_t bucket = bucket_of(static_cast<std::uint64_t>(low_of(i, kFineBits)), kShownBits);
    if (shown.empty() || bucket != last) {
      shown.push_back({.low_ns = low_of(bucket, kShownBits) / kUnitsEach,
                       .high_ns = low_of(bucket + 1, kShownBits) / kUnitsEach});
    }
    shown.back().samples += counts_[i];
    last = bucket;
  }
  return shown;
}

absl::Status time_operation(const TimingOptions& options, const std::function<absl::Status()>& operation,
                            Samples& samples) {
  absl::Status status;
  samples = time_while(options, [&] {
    status = operation();
    return status.ok();
  });
  return status;
}

}  // namespace verbena::apps::bench
