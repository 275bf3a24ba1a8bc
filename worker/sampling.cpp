#include "worker/sampling.hpp"

#include <cmath>
#include <numeric>

namespace verbena {

absl::StatusOr<KeyDistribution> KeyDistribution::weighted(protocol::Key first,
                                                          std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0)) return absl::InvalidArgumentError("a distribution needs weights of 0 or more");
    sum += weight;
  }
  if (!(sum > 0) || !std::isfinite(sum))
    return absl::InvalidArgumentError("a distribution needs weights whose sum is positive and finite");
  KeyDistribution distribution(first, weights.size());
  distribution.columns_.resize(weights.size());
  // Each column is as high as the mean: what a small weight leaves of it a large one fills.
  std::vector<double> left(weights.size());
  std::vector<std::size_t> small;
  std::vector<std::size_t> large;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    left[i] = weights[i] / sum * static_cast<double>(weights.size());
    (left[i] < 1 ? small : large).push_back(i);
  }
  while (!small.empty() && !large.empty()) {
    const std::size_t filled = small.back();
    const std::size_t filling = large.back();
    small.pop_back();
    distribution.columns_[filled] = {left[filled], filling};
    left[filling] -= 1 - left[filled];
    if (left[filling] >= 1) continue;
    large.pop_back();
    small.push_back(filling);
  }
  // Those that are left are full but for rounding.
  return distribution;
}

protocol::Key KeyDistribution::draw(std::mt19937_64& random) const {
  const std::uint64_t i = std::uniform_int_distribution<std::uint64_t>(0, size_ - 1)(random);
  if (columns_.empty()) return first_ + i;
  const Column& column = columns_[i];
  const bool keeps = column.keep >= 1 || std::uniform_real_distribution<double>()(random) < column.keep;
  return first_ + (keeps ? i : column.other);
}

}  // namespace verbena
