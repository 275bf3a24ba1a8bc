// What a mini-batch's scores and gradients are, beside the formulas written out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "apps/ctr/model.hpp"
#include "apps/data/score_histogram.hpp"

namespace verbena::apps::ctr {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::size_t kRank = 3;

struct OwnedExample {
  std::vector<Feature> features;
  bool is_positive = false;
  float weight = 1;
};

void add(MiniBatches& batches, const std::vector<OwnedExample>& examples) {
  for (const OwnedExample& example : examples) {
    batches.add({.is_positive = example.is_positive, .weight = example.weight, .features = example.features});
  }
  batches.finish();
}

TEST(MiniBatchesTest, KeysAreThereOnceAMiniBatch) {
  MiniBatches batches(2);
  add(batches, {{{{7, 1}, {9, 1}}, true}, {{{9, 1}}, false}, {{{7, 1}}, true}});
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_EQ(batches.examples(), 3U);
  const MiniBatch first = batches[0];
  EXPECT_THAT(first.keys, ElementsAre(kBias, 7, 9));
  EXPECT_THAT(first.begin, ElementsAre(0, 2, 3));
  EXPECT_THAT(first.places, ElementsAre(1, 2, 2));
  EXPECT_THAT(first.labels, ElementsAre(1, 0));
  EXPECT_THAT(first.values, IsEmpty());
  EXPECT_THAT(first.weights, IsEmpty());
  const MiniBatch second = batches[1];
  EXPECT_THAT(second.keys, ElementsAre(kBias, 7));
  EXPECT_THAT(second.begin, ElementsAre(0, 1));
  EXPECT_THAT(second.places, ElementsAre(1));
  EXPECT_THAT(second.labels, ElementsAre(1));
}

TEST(MiniBatchesTest, ValuesAndWeightsAreKeptFromTheFirstThatIsNotOne) {
  MiniBatches batches(2);
  add(batches, {{{{7, 1}}, true}, {{{8, 1}, {9, 0.5F}}, false}, {{}, true, 3}});
  ASSERT_EQ(batches.size(), 2U);
  EXPECT_THAT(batches[0].values, ElementsAre(1, 1, 0.5F));
  EXPECT_THAT(batches[0].weights, ElementsAre(1, 1));
  EXPECT_THAT(batches[1].values, IsEmpty());
  EXPECT_THAT(batches[1].weights, ElementsAre(3));
  EXPECT_THAT(batches[1].begin, ElementsAre(0, 0));
}

class MachineTest : public ::testing::Test {
 protected:
  MachineTest() : batches_(100) {
    std::normal_distribution<float> normal(0, 0.5F);
    for (int e = 0; e < 20; ++e) {
      OwnedExample example{.is_positive = random_() % 3 == 0, .weight = 1 + static_cast<float>(e % 3)};
      for (Key key = 1; key < 9; ++key) {
        if (random_() % 2 == 0) example.features.push_back({key, normal(random_)});
      }
      examples_.push_back(example);
    }
    add(batches_, examples_);
    numbers_.resize(batches_[0].keys.size(), kRank);
    for (float& number : numbers_.weights) number = normal(random_);
    for (float& number : numbers_.factors) number = normal(random_);
  }

  /// Pair by pair.
  [[nodiscard]] double score(const OwnedExample& example) const {
    std::map<Key, std::size_t> place;
    for (std::size_t i = 0; i < batches_[0].keys.size(); ++i) place[batches_[0].keys[i]] = i;
    double sum = numbers_.weights[0];
    for (const Feature& one : example.features) {
      sum += double{numbers_.weights[place[one.key]]} * one.value;
      for (const Feature& other : example.features) {
        if (other.key <= one.key) continue;
        double product = 0;
        for (std::size_t k = 0; k < kRank; ++k) {
          product += double{numbers_.factors[place[one.key] * kRank + k]} *
                     numbers_.factors[place[other.key] * kRank + k];
        }
        sum += product * one.value * other.value;
      }
    }
    return sum;
  }
  [[nodiscard]] double loss() const {
    double sum = 0;
    for (const OwnedExample& example : examples_)
      sum += example.weight * logistic_loss(score(example), example.is_positive);
    return sum;
  }
  /// By how much the loss changes with the number.
  [[nodiscard]] double slope(float& number) const {
    constexpr float kStep = 1e-3F;
    const float before = number;
    number = before + kStep;
    const double more = loss();
    number = before - kStep;
    const double less = loss();
    number = before;
    return (more - less) / (2 * double{kStep});
  }

  std::mt19937_64 random_{3};
  std::vector<OwnedExample> examples_;
  MiniBatches batches_;
  Numbers numbers_;
};

TEST_F(MachineTest, ScoresAreTheSumsOverPairs) {
  Machine machine(kRank, 0);
  std::size_t seen = 0;
  machine.scores(batches_[0], numbers_, [&](std::size_t e, double found) {
    EXPECT_NEAR(found, score(examples_[e]), 1e-5);
    ++seen;
  });
  EXPECT_EQ(seen, examples_.size());
}

TEST_F(MachineTest, GradientsAreSlopesOfTheLoss) {
  Machine machine(kRank, 0);
  Numbers gradients;
  const ProgressiveLoss found = machine.gradients(batches_[0], numbers_, gradients);
  EXPECT_NEAR(found.log_loss, loss(), 1e-4);
  double weight = 0;
  for (const OwnedExample& example : examples_) weight += example.weight;
  EXPECT_EQ(found.weight, weight);
  for (std::size_t i = 0; i < numbers_.weights.size(); ++i)
    EXPECT_NEAR(gradients.weights[i], slope(numbers_.weights[i]), 1e-3) << i;
  for (std::size_t i = 0; i < numbers_.factors.size(); ++i)
    EXPECT_NEAR(gradients.factors[i], slope(numbers_.factors[i]), 1e-3) << i;
}

TEST_F(MachineTest, RegularizationCountsEachUseOfAFeature) {
  Numbers without;
  Numbers with;
  Machine(kRank, 0).gradients(batches_[0], numbers_, without);
  Machine(kRank, 0.5F).gradients(batches_[0], numbers_, with);
  EXPECT_EQ(with.weights, without.weights);
  std::map<Key, double> uses;
  for (const OwnedExample& example : examples_) {
    for (const Feature& feature : example.features) uses[feature.key] += example.weight;
  }
  for (std::size_t i = 1; i < batches_[0].keys.size(); ++i) {
    const auto expected = 0.5 * uses[batches_[0].keys[i]] * double{numbers_.factors[i * kRank]} +
                          double{without.factors[i * kRank]};
    EXPECT_NEAR(with.factors[i * kRank], expected, 1e-4);
  }
}

}  // namespace
}  // namespace verbena::apps::ctr
