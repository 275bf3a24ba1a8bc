// Times of one operation, and how they are taken.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "absl/status/status.h"

namespace verbena::apps::bench {

/// Times of single operations in nanoseconds. An operation too short for the clock is timed by batches; a
/// sample is then a batch's mean.
class Samples {
 public:
  void add(double nanoseconds, std::size_t operations = 1);
  [[nodiscard]] bool empty() const { return sorted_.empty(); }
  [[nodiscard]] std::size_t operations() const { return operations_; }
  /// REQUIRES: not empty. fraction in [0, 1]: 0 the shortest, 0.5 the median, 1 the longest.
  [[nodiscard]] double percentile(double fraction) const;
  [[nodiscard]] double operations_per_second() const;

 private:
  mutable std::vector<double> sorted_;
  mutable bool is_sorted_ = true;
  std::size_t operations_ = 0;
  double total_ns_ = 0;
};

struct TimingOptions {
  double seconds = 0.3;             ///< of each measurement, after a warm-up of a tenth of it
  double batch_nanoseconds = 2000;  ///< shorter operations are timed by batches of about this length
};

/// Runs `operation` again and again and times it. Ends at its first error.
absl::Status time_operation(const TimingOptions& options, const std::function<absl::Status()>& operation,
                            Samples& samples);

/// The same for what cannot fail; a template, so that nothing stands between the clock and the operation.
template <class Operation>
Samples time_plain(const TimingOptions& options, Operation&& operation) {
  using Clock = std::chrono::steady_clock;
  const auto elapsed_ns = [](Clock::time_point from) {
    return std::chrono::duration<double, std::nano>(Clock::now() - from).count();
  };
  std::size_t batch = 1;
  const Clock::time_point warm_up = Clock::now();
  while (elapsed_ns(warm_up) < options.seconds * 1e8) {
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < batch; ++i) operation();
    if (elapsed_ns(start) < options.batch_nanoseconds / 2) batch *= 2;
  }
  Samples samples;
  const Clock::time_point begin = Clock::now();
  while (elapsed_ns(begin) < options.seconds * 1e9) {
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < batch; ++i) operation();
    samples.add(elapsed_ns(start) / static_cast<double>(batch), batch);
  }
  return samples;
}

}  // namespace verbena::apps::bench
