#include <cassert>
#include <cmath>
#include <numeric>

#include <verbena/sampling.hpp>

namespace verbena {
namespace {

constexpr std::size_t kMostWeights = std::size_t{1} << 32U;

}  // namespace

AliasTable::AliasTable(std::span<const double> weights) : columns_(weights.size()) {
  assert(!weights.empty() && weights.size() <= kMostWeights);
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  // Each column is as high as the mean: a large weight fills what a small weight leaves of the column.
  std::vector<double> left(weights.size());
  std::vector<std::uint32_t> small;
  std::vector<std::uint32_t> large;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto number = static_cast<std::uint32_t>(i);
    left[i] = weights[i] / sum * static_cast<double>(weights.size());
    columns_[i].other = number;  // columns that nothing fills are full except for rounding
    (left[i] < 1 ? small : large).push_back(number);
  }
  while (!small.empty() && !large.empty()) {
    const std::uint32_t filled = small.back();
    const std::uint32_t filling = large.back();
    small.pop_back();
    columns_[filled] = {static_cast<std::uint32_t>(std::ldexp(left[filled], 32)), filling};
    left[filling] -= 1 - left[filled];
    if (left[filling] >= 1) continue;
    large.pop_back();
    small.push_back(filling);
  }
}

absl::StatusOr<KeyDistribution> KeyDistribution::weighted(Key first, std::span<const double> weights) {
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0)) return absl::InvalidArgumentError("a distribution needs weights of 0 or more");
    sum += weight;
  }
  if (!(sum > 0) || !std::isfinite(sum))
    return absl::InvalidArgumentError("a distribution needs weights whose sum is positive and finite");
  if (weights.size() > kMostWeights)
    return absl::InvalidArgumentError("a distribution needs no more than 2^32 weights");
  KeyDistribution distribution(first, weights.size());
  distribution.weighted_.emplace(weights);
  return distribution;
}

Key KeyDistribution::draw(std::mt19937_64& random) const {
  if (weighted_) return first_ + weighted_->draw(random);
  return first_ + std::uniform_int_distribution<std::uint64_t>(0, size_ - 1)(random);
}

}  // namespace verbena
