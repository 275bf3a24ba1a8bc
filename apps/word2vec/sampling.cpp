#include "apps/word2vec/sampling.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace verbena::apps::word2vec {
namespace {

constexpr double kPower = 0.75;

}  // namespace

Subsampling::Subsampling(std::span<const std::uint64_t> counts, double threshold) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  for (const std::uint64_t count : counts) {
    const double ratio = threshold * total / static_cast<double>(count);
    shares_.push_back(threshold == 0 ? 1.0 : std::min(std::sqrt(ratio) + ratio, 1.0));
    limits_.push_back(static_cast<std::uint64_t>(std::ldexp(shares_.back(), 32)));
  }
}

NoiseDistribution::NoiseDistribution(std::span<const std::uint64_t> counts) : columns_(counts.size()) {
  assert(!counts.empty());
  for (const std::uint64_t count : counts) shares_.push_back(std::pow(static_cast<double>(count), kPower));
  const double total = std::accumulate(shares_.begin(), shares_.end(), 0.0);
  std::vector<double> shares;  // of a column
  std::vector<std::uint32_t> less;
  std::vector<std::uint32_t> more;
  for (std::uint32_t word = 0; word < counts.size(); ++word) {
    shares_[word] /= total;
    shares.push_back(shares_[word] * static_cast<double>(counts.size()));
    columns_[word].other = word;  // a column that is not filled up is its own word's
    (shares[word] < 1 ? less : more).push_back(word);
  }
  while (!less.empty() && !more.empty()) {
    const std::uint32_t small = less.back();
    const std::uint32_t large = more.back();
    less.pop_back();
    columns_[small] = {static_cast<std::uint32_t>(std::ldexp(shares[small], 32)), large};
    shares[large] -= 1 - shares[small];
    if (shares[large] < 1) {
      more.pop_back();
      less.push_back(large);
    }
  }
}

}  // namespace verbena::apps::word2vec
