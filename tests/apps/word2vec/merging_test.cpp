#include "apps/word2vec/merging.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace verbena::apps::word2vec {
namespace {

TEST(PushedShareTest, IsTheSumForRareWordsAndTheMeanForFrequentOnes) {
  EXPECT_EQ(pushed_share(0, 4), 1);
  EXPECT_NEAR(pushed_share(1e-6, 4), 1, 1e-5);
  EXPECT_NEAR(pushed_share(50, 4), 0.25, 1e-9);
  EXPECT_NEAR(pushed_share(1e9, 4), 0.25, 1e-9);
  EXPECT_EQ(pushed_share(3, 1), 1);
}

TEST(PushedShareTest, WorkersGoAsFarTogetherAsOneAfterTheOther) {
  for (const double a : {0.01, 0.3, 1.0, 4.0}) {
    for (const std::uint32_t workers : {1U, 2U, 5U}) {
      const double step = 1 - std::exp(-a);
      EXPECT_NEAR(pushed_share(a, workers) * workers * step, 1 - std::pow(1 - step, workers), 1e-12);
    }
  }
}

TEST(PushedSharesTest, FrequentWordsAndWrongWordsAreHeldBack) {
  const std::vector<std::uint64_t> counts = {100'000, 1'000, 10};
  const Subsampling subsampling(counts, 0);
  const NoiseDistribution noise(counts);
  MergingOptions options{.workers = 4, .clocks_per_iteration = 4, .learning_rate = 0.05};
  const PushedShares shares = pushed_shares(counts, subsampling, noise, options);
  ASSERT_EQ(shares.inputs.size(), 3U);
  ASSERT_EQ(shares.outputs.size(), 3U);
  EXPECT_NEAR(shares.inputs[0], 0.25, 1e-3);
  EXPECT_GT(shares.inputs[2], 0.95);
  for (std::size_t word = 0; word < 3; ++word) {
    EXPECT_LE(shares.outputs[word], shares.inputs[word]) << "an output is trained as a wrong word, too";
    EXPECT_TRUE(word == 0 || shares.inputs[word] > shares.inputs[word - 1]);
  }
  options.clocks_per_iteration = 1'000;
  EXPECT_GT(pushed_shares(counts, subsampling, noise, options).inputs[1], shares.inputs[1]);
  options.workers = 1;
  EXPECT_EQ(pushed_shares(counts, subsampling, noise, options).outputs[0], 1);
}

}  // namespace
}  // namespace verbena::apps::word2vec
