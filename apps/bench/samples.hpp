// Times of one operation, and how they are measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "apps/bench/stopwatch.hpp"

namespace verbena::apps::bench {

/// Times of single operations in nanoseconds. An operation too short for the clock is timed by batches; a
/// sample is then a batch's mean. Kept as a histogram, so that any number of samples takes the same memory:
/// the shortest and the longest are exact, the rest to within 0.2 %.
class Samples {
 public:
  /// A range of times: low ≤ time < high.
  struct Bucket {
    double low_ns = 0;
    double high_ns = 0;
    std::uint64_t samples = 0;
  };

  void add(double nanoseconds, std::size_t operations = 1);
  /// As many samples as the bucket has, from its middle.
  void add_bucket(const Bucket& bucket);
  void merge(const Samples& other);
  [[nodiscard]] bool empty() const { return samples_ == 0; }
  [[nodiscard]] std::size_t operations() const { return operations_; }
  /// REQUIRES: not empty. fraction in [0, 1]: 0 the shortest, 0.5 the median, 1 the longest.
  [[nodiscard]] double percentile(double fraction) const;
  [[nodiscard]] double operations_per_second() const;
  /// The buckets that are not empty, for people and files. There are 16 buckets to each doubling of the time.
  [[nodiscard]] std::vector<Bucket> histogram() const;

 private:
  std::vector<std::uint64_t> counts_;  ///< by bucket, see samples.cpp
  std::uint64_t samples_ = 0;
  std::size_t operations_ = 0;
  double shortest_ns_ = 0;
  double longest_ns_ = 0;
  double total_ns_ = 0;
};

struct TimingOptions {
  double seconds = 0.3;             ///< length of each measurement, after a warm-up of a tenth of it
  double batch_nanoseconds = 2000;  ///< shorter operations are timed by batches of about this length
  double reported_share = 1;        ///< part of the measured time: 0.5 if half a round trip is meant
};

/// Runs `operation` again and again and times it. Ends at its first error.
absl::Status time_operation(const TimingOptions& options, const std::function<absl::Status()>& operation,
                            Samples& samples);

/// The same for an operation that returns whether to go on. It is a template, so that there is no call
/// between the clock and the operation.
template <class Operation>
Samples time_while(const TimingOptions& options, Operation&& operation) {
  Samples samples;
  std::size_t batch = 1;
  const Stopwatch warm_up;
  while (warm_up.nanoseconds() < options.seconds * 1e8) {
    const Stopwatch one;
    for (std::size_t i = 0; i < batch; ++i) {
      if (!operation()) return samples;
    }
    if (one.nanoseconds() < options.batch_nanoseconds / 2) batch *= 2;
  }
  const Stopwatch all;
  while (all.nanoseconds() < options.seconds * 1e9) {
    const Stopwatch one;
    for (std::size_t i = 0; i < batch; ++i) {
      if (!operation()) return samples;
    }
    samples.add(one.nanoseconds() * options.reported_share / static_cast<double>(batch), batch);
  }
  return samples;
}

/// The same for an operation that cannot fail.
template <class Operation>
Samples time_plain(const TimingOptions& options, Operation&& operation) {
  return time_while(options, [&] {
    operation();
    return true;
  });
}

}  // namespace verbena::apps::bench
