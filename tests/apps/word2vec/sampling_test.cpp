#include "apps/word2vec/sampling.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "apps/data/random.hpp"

namespace verbena::apps::word2vec {
namespace {

constexpr int kDraws = 1'000'000;

/// Allows five standard deviations.
void expect_share(int found, double probability) {
  const double deviation = std::sqrt(kDraws * probability * (1 - probability));
  EXPECT_NEAR(found, kDraws * probability, 5 * deviation + 1e-6);
}

double weight(std::uint64_t count) {
  return std::pow(static_cast<double>(count), 0.75);
}

TEST(NoiseDistributionTest, DrawsByFrequencyToThePowerOfThreeQuarters) {
  for (const std::vector<std::uint64_t>& counts :
       {std::vector<std::uint64_t>{10'000, 1'000, 300, 100, 10, 2, 1, 1},
        {5, 5, 5},
        {7},
        {1'000'000'000'000, 1}}) {
    const NoiseDistribution noise(counts);
    std::vector<int> found(counts.size());
    Random random(1, 0);
    for (int n = 0; n < kDraws; ++n) ++found[noise.draw(random)];
    double total = 0;
    for (const std::uint64_t count : counts) total += weight(count);
    for (std::uint32_t word = 0; word < counts.size(); ++word) {
      EXPECT_DOUBLE_EQ(noise.share(word), weight(counts[word]) / total);
      expect_share(found[word], noise.share(word));
    }
  }
}

TEST(NoiseDistributionTest, KnowsManyWords) {
  std::vector<std::uint64_t> counts;
  for (std::uint64_t rank = 1; rank <= 5'000; ++rank) counts.push_back(1'000'000 / rank);
  const NoiseDistribution noise(counts);
  double total = 0;
  double of_frequent = 0;
  for (std::size_t word = 0; word < counts.size(); ++word) {
    total += weight(counts[word]);
    if (word < 100) of_frequent += weight(counts[word]);
  }
  Random random(2, 0);
  int found = 0;
  for (int n = 0; n < kDraws; ++n) found += noise.draw(random) < 100 ? 1 : 0;
  expect_share(found, of_frequent / total);
}

TEST(SubsamplingTest, KeepsRareWordsAndSomeOfFrequentOnes) {
  const std::vector<std::uint64_t> counts = {900, 90, 9, 1};
  const Subsampling subsampling(counts, 0.01);
  EXPECT_DOUBLE_EQ(subsampling.share_kept(0), std::sqrt(0.01 / 0.9) + 0.01 / 0.9);
  EXPECT_DOUBLE_EQ(subsampling.share_kept(1), std::sqrt(0.01 / 0.09) + 0.01 / 0.09);
  EXPECT_EQ(subsampling.share_kept(2), 1);
  EXPECT_EQ(subsampling.share_kept(3), 1);
  Random random(1, 0);
  for (std::uint32_t word = 0; word < counts.size(); ++word) {
    int kept = 0;
    for (int n = 0; n < kDraws; ++n) kept += subsampling.keeps(word, random) ? 1 : 0;
    expect_share(kept, subsampling.share_kept(word));
  }
}

TEST(SubsamplingTest, KeepsAllWithoutThreshold) {
  const Subsampling subsampling(std::vector<std::uint64_t>{1'000, 1}, 0);
  Random random(1, 0);
  for (int n = 0; n < 1'000; ++n) ASSERT_TRUE(subsampling.keeps(0, random));
}

}  // namespace
}  // namespace verbena::apps::word2vec
