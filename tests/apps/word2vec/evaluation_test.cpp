#include "apps/word2vec/evaluation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace verbena::apps::word2vec {
namespace {

/// Vectors of one number, so that ranks are easy to see. The input of every word is 1.
class Word2VecEvaluationTest : public ::testing::Test {
 protected:
  Word2VecEvaluationTest() {
    for (std::size_t id = 0; id < 5; ++id) parameters_.inputs[id * parameters_.size] = 1;
    outputs({1, 5, 4, 3, 2});
  }
  void outputs(const std::vector<float>& values) {
    for (std::size_t id = 0; id < values.size(); ++id)
      parameters_.outputs[id * parameters_.size] = values[id];
  }
  /// The rank of `word` as the word between words 0 and 1.
  [[nodiscard]] double rank_of(std::uint32_t word) const {
    const MiniBatch gap{.inputs = {0, word, 1},
                        .outputs = {0, word, 1},
                        .windows = {{.first = 0, .last = 3, .middle = 1}},
                        .negatives = {}};
    double result = 0;
    rank(parameters_, chances_, gap, gap.windows, std::span(&result, 1));
    return result;
  }

  Parameters parameters_{5, padded(1)};
  std::vector<float> chances_ = std::vector<float>(5);
  std::atomic<bool> stop_ = false;
};

TEST_F(Word2VecEvaluationTest, RanksCountBetterWords) {
  EXPECT_EQ(rank_of(1), 1);
  EXPECT_EQ(rank_of(3), 3);
  EXPECT_EQ(rank_of(0), 5);
}

TEST_F(Word2VecEvaluationTest, BothSidesAreGivenAndTheMiddleIsNot) {
  parameters_.inputs[3 * parameters_.size] = -100;
  EXPECT_EQ(rank_of(3), 3);
  parameters_.inputs[0] = -3;  // word 1's is 1, so scores are -2 times the output
  EXPECT_EQ(rank_of(0), 1);
}

TEST_F(Word2VecEvaluationTest, AmongEqualsTheRightWordIsInTheMiddle) {
  outputs({1, 5, 3, 3, 3});
  EXPECT_EQ(rank_of(3), 3);
  outputs({0, 0, 0, 0, 0});
  EXPECT_EQ(rank_of(3), 3) << "a model that gives all the same score must not rank well";
}

TEST_F(Word2VecEvaluationTest, WhatIsNoNumberIsWorst) {
  outputs({1, 5, std::numeric_limits<float>::quiet_NaN(), 3, 2});
  EXPECT_EQ(rank_of(2), 5);
  EXPECT_EQ(rank_of(1), 2);
}

TEST_F(Word2VecEvaluationTest, ChanceCounts) {
  // Word 0 has the score 2 · 1, word 1 has 2 · 5.
  chances_[0] = 8.5F;
  EXPECT_EQ(rank_of(0), 1);
  chances_[0] = 7.5F;
  EXPECT_EQ(rank_of(0), 2);
}

TEST(ChancesTest, AreSharesOfTheSubsampledText) {
  const std::vector<std::uint64_t> counts = {900, 90, 10};
  const Subsampling subsampling(counts, 0.01);
  const std::vector<float> all = chances(counts, subsampling);
  double total = 0;
  for (const float one : all) total += std::exp(double{one});
  EXPECT_NEAR(total, 1, 1e-6);
  EXPECT_NEAR(std::exp(double{all[0]} - double{all[2]}), 90 * subsampling.share_kept(0), 1e-4);
}

TEST(GapsTest, DependOnSeedAndDocumentOnly) {
  const std::vector<std::uint64_t> counts = {900, 90, 10, 1, 1};
  const Subsampling subsampling(counts, 0.01);
  const NoiseDistribution noise(counts);
  const auto gaps = [&](std::span<const HeldOutDocument> documents, std::uint64_t seed) {
    return gaps_of(documents, subsampling, noise, 2, seed);
  };
  std::vector<std::uint32_t> words;
  for (std::uint32_t n = 0; n < 500; ++n) words.push_back(n % 5);
  const std::vector<HeldOutDocument> documents = {{7, words}, {9, words}};
  const MiniBatch both = gaps(documents, 1);
  const MiniBatch second = gaps(std::span(documents).last(1), 1);
  ASSERT_LT(second.inputs.size(), both.inputs.size());
  EXPECT_TRUE(std::equal(second.inputs.rbegin(), second.inputs.rend(), both.inputs.rbegin()));
  EXPECT_NE(second.inputs, gaps(std::span(documents).first(1), 1).inputs);
  EXPECT_NE(second.inputs, gaps(std::span(documents).last(1), 2).inputs);
  EXPECT_LT(both.inputs.size(), 1'000U) << "some of the frequent words are left out";
  EXPECT_EQ(both.windows.size(), both.inputs.size());
}

/// With more words than are compared at a time.
TEST_F(Word2VecEvaluationTest, ThreadsChangeNothing) {
  constexpr std::uint32_t kWords = 5'000;
  Parameters parameters(kWords, padded(20));
  for (std::size_t id = 0; id < kWords; ++id) {
    for (std::size_t k = 0; k < 20; ++k) {
      parameters.inputs[id * parameters.size + k] = static_cast<float>(random_number(1, id, k));
      parameters.outputs[id * parameters.size + k] = static_cast<float>(random_number(2, id, k));
    }
  }
  MiniBatch gaps;
  for (std::uint32_t n = 0; n < 100; ++n) {
    gaps.inputs.insert(gaps.inputs.end(), {n, kWords - 1 - n});
    gaps.windows.push_back({.first = 2 * n, .last = 2 * n + 2, .middle = 2 * n + 1});
  }
  gaps.outputs = gaps.inputs;
  const std::vector<float> chances(kWords);
  const auto one = evaluate(parameters, chances, gaps, {.threads = 1, .stop = stop_});
  const auto three = evaluate(parameters, chances, gaps, {.threads = 3, .stop = stop_});
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_EQ(one->reciprocal_ranks, three->reciprocal_ranks);
  EXPECT_EQ(one->questions, 100);
  // The same rank, computed in the plainest way.
  const std::span<const float> q(parameters.inputs.get() + 5 * parameters.size, parameters.size);
  std::vector<float> scores(kWords);
  score(q, parameters.outputs.get(), scores);
  const float right = scores[kWords - 6];
  std::vector<double> ranks(1);
  rank(parameters, chances, gaps, std::span(gaps.windows).subspan(5, 1), ranks);
  const auto better =
      std::count_if(scores.begin(), scores.end(), [&](float one_score) { return one_score > right; });
  EXPECT_EQ(ranks[0], 1 + static_cast<double>(better));
}

}  // namespace
}  // namespace verbena::apps::word2vec
