#include "apps/word2vec/merging.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace verbena::apps::word2vec {
namespace {

std::vector<LikeWorkers> equal_workers(int count) {
  return {{.share = 1.0 / count, .count = static_cast<double>(count)}};
}

TEST(PushedShareTest, IsTheSumForRareWordsAndTheMeanForFrequentOnes) {
  EXPECT_EQ(pushed_share(0, equal_workers(4)), 1);
  EXPECT_NEAR(pushed_share(1e-6, equal_workers(4)), 1, 1e-5);
  EXPECT_NEAR(pushed_share(200, equal_workers(4)), 0.25, 1e-9);
  EXPECT_NEAR(pushed_share(1e9, equal_workers(4)), 0.25, 1e-9);
  EXPECT_EQ(pushed_share(3, equal_workers(1)), 1);
}

TEST(PushedShareTest, WorkersGoAsFarTogetherAsOneAfterTheOther) {
  const std::vector<std::vector<double>> all_parts = {
      {0.01}, {0.3, 0.3}, {1, 1, 1, 1, 1}, {4, 0.1}, {4, 1, 1, 0.01}};
  for (const std::vector<double>& parts : all_parts) {
    const double all = std::accumulate(parts.begin(), parts.end(), 0.0);
    std::vector<LikeWorkers> workers;
    double left = 1;
    double ways = 0;
    for (const double part : parts) {
      workers.push_back({.share = part / all, .count = 1});
      left *= std::exp(-part);
      ways += 1 - std::exp(-part);
    }
    EXPECT_NEAR(pushed_share(all, workers) * ways, 1 - left, 1e-12);
  }
}

TEST(LikeWorkersTest, AreThoseWithLikeShares) {
  EXPECT_TRUE(like_workers({0, 0}).empty());
  EXPECT_EQ(pushed_share(3, like_workers({0, 0})), 1);
  const std::vector<LikeWorkers> one = like_workers({0, 70, 0});
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].share, 1);
  EXPECT_EQ(one[0].count, 1);
  const std::vector<LikeWorkers> some = like_workers({1'000, 0, 98, 1'002, 102, 998});
  ASSERT_EQ(some.size(), 2U);
  EXPECT_EQ(some[0].count, 2);
  EXPECT_NEAR(some[0].share, 100 / 3'200.0, 1e-12);
  EXPECT_EQ(some[1].count, 3);
  EXPECT_NEAR(some[1].share, 1'000 / 3'200.0, 1e-12);
}

TEST(PushedSharesTest, FrequentWordsAndWrongWordsAreHeldBack) {
  const std::vector<std::uint64_t> counts = {100'000, 1'000, 10};
  const Subsampling subsampling(counts, 0);
  const NoiseDistribution noise(counts);
  MergingOptions options{.words = {9, 9, 9, 9}, .clocks_per_iteration = 4, .learning_rate = 0.05};
  const PushedShares shares = pushed_shares(counts, subsampling, noise, options);
  ASSERT_EQ(shares.inputs.size(), 3U);
  ASSERT_EQ(shares.outputs.size(), 3U);
  EXPECT_NEAR(shares.inputs[0], 0.25, 1e-3);
  EXPECT_GT(shares.inputs[2], 0.95);
  for (std::size_t word = 0; word < 3; ++word) {
    EXPECT_LE(shares.outputs[word], shares.inputs[word])
        << "an output is trained as a negative, too, so other workers train it more";
    EXPECT_TRUE(word == 0 || shares.inputs[word] > shares.inputs[word - 1]);
  }
  options.clocks_per_iteration = 1'000;
  EXPECT_GT(pushed_shares(counts, subsampling, noise, options).inputs[1], shares.inputs[1]);
  options.words = {9};
  EXPECT_EQ(pushed_shares(counts, subsampling, noise, options).outputs[0], 1);
  options.words = {0, 0, 9, 0};
  EXPECT_EQ(pushed_shares(counts, subsampling, noise, options).outputs[0], 1)
      << "workers without words must not count";
}

}  // namespace
}  // namespace verbena::apps::word2vec
