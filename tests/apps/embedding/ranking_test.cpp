#include "apps/embedding/ranking.hpp"

#include <gtest/gtest.h>

namespace verbena::apps {
namespace {

/// Question i has rank 1 + i modulo 12.
void rank_some(std::size_t first, std::size_t count, std::span<double> ranks) {
  EXPECT_LE(count, 4U);
  EXPECT_EQ(ranks.size(), count);
  for (std::size_t i = 0; i < count; ++i) ranks[i] = 1 + static_cast<double>((first + i) % 12);
}

TEST(RankingTest, SumsAreThoseOfTheRanks) {
  const std::atomic<bool> stop = false;
  double last = 0;
  const auto sums = rank_all(22, 4, rank_some, {.stop = stop, .progress = [&](double done, double total) {
                                                  EXPECT_LE(done, total);
                                                  last = done / total;
                                                }});
  ASSERT_TRUE(sums.ok());
  EXPECT_EQ(last, 1);
  EXPECT_EQ(sums->questions, 22);
  EXPECT_EQ(sums->hits_at_1, 2);
  EXPECT_EQ(sums->hits_at_3, 6);
  EXPECT_EQ(sums->hits_at_10, 20);
  double reciprocal = 0;
  for (int i = 0; i < 22; ++i) reciprocal += 1.0 / (1 + i % 12);
  EXPECT_DOUBLE_EQ(sums->reciprocal_ranks, reciprocal);
  for (const unsigned threads : {2U, 3U}) {
    const auto same = rank_all(22, 4, rank_some, {.threads = threads, .stop = stop});
    ASSERT_TRUE(same.ok());
    EXPECT_EQ(same->reciprocal_ranks, sums->reciprocal_ranks);
  }
}

TEST(RankingTest, StopsWhenAsked) {
  const std::atomic<bool> stop = true;
  EXPECT_EQ(rank_all(22, 4, rank_some, {.stop = stop}).status().code(), absl::StatusCode::kCancelled);
}

TEST(RankingTest, ObjectivesAreMeansOverAllQuestions) {
  std::map<std::string, double> sums;
  report({.reciprocal_ranks = 1, .hits_at_1 = 0, .hits_at_3 = 2, .hits_at_10 = 4, .questions = 4}, "test_",
         sums);
  std::map<std::string, double> objectives;
  add_objectives("test_", sums, objectives);
  add_objectives("valid_", sums, objectives);
  EXPECT_EQ(objectives,
            (std::map<std::string, double>{
                {"test_mrr", 0.25}, {"test_hits_at_1", 0}, {"test_hits_at_3", 0.5}, {"test_hits_at_10", 1}}));
  for (auto& [name, sum] : sums) sum = 0;
  objectives.clear();
  add_objectives("test_", sums, objectives);
  EXPECT_TRUE(objectives.empty());
}

}  // namespace
}  // namespace verbena::apps
