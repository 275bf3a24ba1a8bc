#include "apps/kge/evaluation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace verbena::apps::kge {
namespace {

using ::testing::ElementsAre;

/// DistMult of one number: a triple's score is head · relation · tail, so ranks are easy to see.
class EvaluationTest : public ::testing::Test {
 protected:
  EvaluationTest() {
    relation(1);
    entities({1, 5, 4, 3, 2});
  }
  void entities(const std::vector<float>& values) {
    for (std::size_t id = 0; id < values.size(); ++id) embeddings_.entity(id)[0] = values[id];
  }
  void relation(float value) { embeddings_.relation(0)[0] = value; }
  [[nodiscard]] std::vector<double> ranks(const Triple& triple, const std::vector<Triple>& known) const {
    KnowledgeGraph graph;
    graph.train = known;
    graph.test = {triple};
    std::vector<double> result(2);
    rank(embeddings_, std::span(&triple, 1), KnownAnswers(graph), result);
    return result;
  }

  Embeddings embeddings_{{.model = Model::kDistMult, .dimension = 1}, 5, 1};
  std::atomic<bool> stop_ = false;
};

TEST_F(EvaluationTest, RanksCountBetterAnswers) {
  EXPECT_THAT(ranks({0, 0, 1}, {}), ElementsAre(1, 5));  // tails by score, best first: 1 2 3 4 0
  EXPECT_THAT(ranks({0, 0, 3}, {}), ElementsAre(3, 5));
  EXPECT_THAT(ranks({2, 0, 4}, {}), ElementsAre(4, 2));
}

TEST_F(EvaluationTest, KnownAnswersAreLeftOut) {
  EXPECT_THAT(ranks({0, 0, 3}, {{0, 0, 1}}), ElementsAre(2, 5));
  EXPECT_THAT(ranks({0, 0, 3}, {{0, 0, 1}, {0, 0, 1}, {0, 0, 2}, {0, 0, 3}}), ElementsAre(1, 5));
  EXPECT_THAT(ranks({0, 0, 3}, {{0, 0, 4}}), ElementsAre(3, 5))
      << "the known answer has a lower score anyway";
  EXPECT_THAT(ranks({0, 0, 3}, {{2, 0, 3}, {1, 0, 3}}), ElementsAre(3, 3)) << "known heads are left out, too";
  EXPECT_THAT(ranks({0, 0, 3}, {{3, 0, 1}, {1, 0, 0}}), ElementsAre(3, 5))
      << "answers to other questions count";
}

TEST_F(EvaluationTest, AmongEqualsTheRightAnswerIsInTheMiddle) {
  entities({1, 5, 3, 3, 3});
  EXPECT_THAT(ranks({0, 0, 3}, {}), ElementsAre(3, 5));  // 1 is first; 2, 3 and 4 share the places 2 to 4
  EXPECT_THAT(ranks({0, 0, 3}, {{0, 0, 2}}), ElementsAre(2.5, 5));
  relation(0);
  EXPECT_THAT(ranks({0, 0, 3}, {}), ElementsAre(3, 3))
      << "a model that gives all the same score must not rank well";
}

TEST_F(EvaluationTest, WhatIsNoNumberIsWorst) {
  entities({1, 5, std::numeric_limits<float>::quiet_NaN(), 3, 2});
  EXPECT_THAT(ranks({0, 0, 2}, {}), ElementsAre(5, 5));
  EXPECT_THAT(ranks({0, 0, 1}, {}), ElementsAre(2, 5));
}

TEST_F(EvaluationTest, SumsAreThoseOfTheRanks) {
  KnowledgeGraph graph;
  // The ranks are 1 and 5, then 3 and 5; without known answers 1 and 5, then 2 and 5.
  graph.test = {{0, 0, 1}, {0, 0, 3}};
  const auto sums = evaluate(embeddings_, graph.test, KnownAnswers(graph), {.stop = stop_, .progress = {}});
  ASSERT_TRUE(sums.ok());
  EXPECT_DOUBLE_EQ(sums->reciprocal_ranks, 1 + 0.2 + 0.5 + 0.2);
  EXPECT_EQ(sums->hits_at_1, 1);
  EXPECT_EQ(sums->hits_at_3, 2);
  EXPECT_EQ(sums->hits_at_10, 4);
  EXPECT_EQ(sums->questions, 4);
}

/// With more entities than are compared at a time.
TEST_F(EvaluationTest, ThreadsChangeNothing) {
  const Shape shape{.model = Model::kComplEx, .dimension = 20};
  constexpr std::uint32_t kEntities = 5'000;
  Embeddings embeddings(shape, kEntities, 2);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  for (std::size_t id = 0; id < kEntities; ++id) {
    for (std::size_t k = 0; k < shape.dimension; ++k) embeddings.entity(id)[k] = normal(random);
  }
  for (std::size_t k = 0; k < shape.dimension; ++k) embeddings.relation(1)[k] = normal(random);
  KnowledgeGraph graph;
  for (std::uint32_t n = 0; n < 100; ++n) graph.test.push_back({n, 1, kEntities - 1 - n});
  const KnownAnswers known(graph);
  double last = 0;
  const auto one = evaluate(embeddings, graph.test, known,
                            {.threads = 1, .stop = stop_, .progress = [&](double done, double total) {
                               EXPECT_LE(done, total);
                               last = done / total;
                             }});
  const auto three = evaluate(embeddings, graph.test, known, {.threads = 3, .stop = stop_, .progress = {}});
  ASSERT_TRUE(one.ok() && three.ok());
  EXPECT_EQ(one->reciprocal_ranks, three->reciprocal_ranks);
  EXPECT_EQ(one->questions, 200);
  EXPECT_EQ(three->questions, 200);
  EXPECT_EQ(last, 1);
  std::vector<double> ranks(2);
  rank(embeddings, std::span(graph.test).first(1), known, ranks);
  // The same rank, computed in the plainest way.
  const auto q = aligned_floats(shape.entity_size());
  ask(shape, Side::kTail, embeddings.entity(0), embeddings.relation(1), q.get());
  const float right = score(shape, q.get(), embeddings.entity(kEntities - 1));
  double better = 0;
  for (std::size_t id = 0; id < kEntities; ++id) {
    better += score(shape, q.get(), embeddings.entity(id)) > right ? 1 : 0;
  }
  EXPECT_EQ(ranks[0], 1 + better);
}

TEST_F(EvaluationTest, StopsWhenAsked) {
  stop_ = true;
  KnowledgeGraph graph;
  graph.test = {{0, 0, 1}};
  EXPECT_EQ(
      evaluate(embeddings_, graph.test, KnownAnswers(graph), {.stop = stop_, .progress = {}}).status().code(),
      absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace verbena::apps::kge
