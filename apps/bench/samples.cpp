#include "apps/bench/samples.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace verbena::apps::bench {

void Samples::add(double nanoseconds, std::size_t operations) {
  sorted_.push_back(nanoseconds);
  is_sorted_ = false;
  operations_ += operations;
  total_ns_ += nanoseconds * static_cast<double>(operations);
}

double Samples::percentile(double fraction) const {
  assert(!empty());
  if (!is_sorted_) std::sort(sorted_.begin(), sorted_.end());
  is_sorted_ = true;
  const double rank = std::ceil(fraction * static_cast<double>(sorted_.size()));
  return sorted_[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

double Samples::operations_per_second() const {
  return total_ns_ > 0 ? static_cast<double>(operations_) * 1e9 / total_ns_ : 0;
}

absl::Status time_operation(const TimingOptions& options, const std::function<absl::Status()>& operation,
                            Samples& samples) {
  absl::Status status;
  samples = time_plain(options, [&] {
    if (status.ok()) status = operation();
  });
  return status;
}

}  // namespace verbena::apps::bench
