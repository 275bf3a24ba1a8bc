#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include <verbena/sampling.hpp>

namespace verbena {
namespace {

std::vector<double> frequencies(const KeyDistribution& distribution, int draws) {
  std::mt19937_64 random(1);
  std::vector<double> counts(distribution.range().size(), 0);
  for (int i = 0; i < draws; ++i) {
    const Key key = distribution.draw(random);
    EXPECT_TRUE(key >= distribution.range().first && key < distribution.range().last);
    counts[key - distribution.range().first] += 1.0 / draws;
  }
  return counts;
}

TEST(KeyDistributionTest, UniformIsUniform) {
  for (const double frequency : frequencies(KeyDistribution::uniform({100, 110}), 100'000))
    EXPECT_NEAR(frequency, 0.1, 0.01);
}

TEST(KeyDistributionTest, WeightsAreProportions) {
  const std::vector<double> weights = {0, 1, 100, 3, 0, 0.5, 7, 0};
  const auto distribution = KeyDistribution::weighted(20, weights);
  ASSERT_TRUE(distribution.ok());
  const std::vector<double> drawn = frequencies(*distribution, 200'000);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(drawn[i], weights[i] / 111.5, 0.01) << i;
    EXPECT_TRUE(weights[i] > 0 || drawn[i] == 0) << i;
  }
}

TEST(KeyDistributionTest, ImpossibleWeightsAreRefused) {
  const auto refused = [](std::vector<double> weights) {
    return !KeyDistribution::weighted(0, weights).ok();
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({0, 0}));
  EXPECT_TRUE(refused({1, -1}));
  EXPECT_TRUE(refused({1, std::nan("")}));
  EXPECT_TRUE(refused({1, std::numeric_limits<double>::infinity()}));
  EXPECT_FALSE(refused({1e-300, 1e-300}));
}

}  // namespace
}  // namespace verbena
