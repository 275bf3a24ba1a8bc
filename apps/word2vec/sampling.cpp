#include "apps/word2vec/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace verbena::apps::word2vec {
namespace {

constexpr double kPower = 0.75;

std::vector<double> shares_of(std::span<const std::uint64_t> counts) {
  std::vector<double> shares;
  for (const std::uint64_t count : counts) shares.push_back(std::pow(static_cast<double>(count), kPower));
  const double total = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= total;
  return shares;
}

}  // namespace

Subsampling::Subsampling(std::span<const std::uint64_t> counts, double threshold) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  for (const std::uint64_t count : counts) {
    const double ratio = threshold * total / static_cast<double>(count);
    shares_.push_back(threshold == 0 ? 1.0 : std::min(std::sqrt(ratio) + ratio, 1.0));
    limits_.push_back(static_cast<std::uint64_t>(std::ldexp(shares_.back(), 32)));
  }
}

NoiseDistribution::NoiseDistribution(std::span<const std::uint64_t> counts)
    : shares_(shares_of(counts)), words_(shares_) {}

}  // namespace verbena::apps::word2vec
