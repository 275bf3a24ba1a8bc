#include "apps/data/score_histogram.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "apps/data/random.hpp"

namespace verbena::apps {
namespace {

using ::testing::SizeIs;

struct Scored {
  double logit;
  bool is_positive;
};

double probability_of(double logit) {
  return 1 / (1 + std::exp(-logit));
}

/// Logits evenly from −6 to 3, and labels of exactly these probabilities.
std::vector<Scored> calibrated_scores(std::size_t count) {
  Random random(1);
  std::vector<Scored> scores(count);
  for (Scored& one : scores) {
    one.logit = 9 * to_unit_interval(random()) - 6;
    one.is_positive = to_unit_interval(random()) < probability_of(one.logit);
  }
  return scores;
}

ScoreHistogram histogram_of(const std::vector<Scored>& scores) {
  ScoreHistogram histogram;
  for (const Scored& one : scores) histogram.add(one.logit, one.is_positive);
  return histogram;
}

/// By the definition, with each pair in its turn.
double auc_by_pairs(const std::vector<Scored>& scores) {
  double right = 0;
  double pairs = 0;
  for (const Scored& positive : scores) {
    if (!positive.is_positive) continue;
    for (const Scored& negative : scores) {
      if (negative.is_positive) continue;
      ++pairs;
      right += positive.logit > negative.logit ? 1 : positive.logit == negative.logit ? 0.5 : 0;
    }
  }
  return right / pairs;
}

TEST(ScoreHistogramTest, AucIsThatOfThePairs) {
  std::vector<Scored> scores = calibrated_scores(3000);
  const double exact = auc_by_pairs(scores);
  EXPECT_GT(exact, 0.8);
  EXPECT_NEAR(histogram_of(scores).auc().value(), exact, 1e-4);
  // Coarse scores, with many ties, and others far out.
  for (Scored& one : scores) one.logit = std::round(one.logit);
  EXPECT_NEAR(histogram_of(scores).auc().value(), auc_by_pairs(scores), 1e-12);
  for (Scored& one : scores) one.logit *= 2;
  EXPECT_NEAR(histogram_of(scores).auc().value(), auc_by_pairs(scores), 1e-12);
}

TEST(ScoreHistogramTest, AucOfAFewExamples) {
  EXPECT_EQ(histogram_of({{-1, false}, {1, true}}).auc(), 1);
  EXPECT_EQ(histogram_of({{-1, true}, {1, false}}).auc(), 0);
  EXPECT_EQ(histogram_of({{0.3, true}, {0.3, false}, {0.3, false}}).auc(), 0.5);
  EXPECT_EQ(histogram_of({{1, true}, {1, false}, {0, false}, {2, false}}).auc(), 0.5);
  EXPECT_EQ(histogram_of({{2, true}, {1, true}, {1, false}}).auc(), 0.75);
}

TEST(ScoreHistogramTest, WithoutBothLabelsThereIsNoAuc) {
  EXPECT_EQ(ScoreHistogram().auc(), std::nullopt);
  EXPECT_EQ(ScoreHistogram().log_loss(), std::nullopt);
  EXPECT_THAT(ScoreHistogram().calibration(10), SizeIs(0));
  EXPECT_EQ(histogram_of({{1, true}, {2, true}}).auc(), std::nullopt);
  EXPECT_EQ(histogram_of({{1, false}}).auc(), std::nullopt);
  EXPECT_TRUE(histogram_of({{1, false}}).log_loss().has_value());
}

TEST(ScoreHistogramTest, LogLossIsExact) {
  const std::vector<Scored> scores = calibrated_scores(1000);
  double sum = 0;
  for (const Scored& one : scores) sum -= std::log(probability_of(one.is_positive ? one.logit : -one.logit));
  EXPECT_NEAR(histogram_of(scores).log_loss_sum(), sum, 1e-9);
  EXPECT_NEAR(histogram_of(scores).log_loss().value(), sum / 1000, 1e-12);
  // Where a probability in double precision would be 0 or 1.
  EXPECT_DOUBLE_EQ(histogram_of({{800, false}}).log_loss().value(), 800);
  EXPECT_DOUBLE_EQ(histogram_of({{-800, true}}).log_loss().value(), 800);
  EXPECT_DOUBLE_EQ(histogram_of({{50, true}}).log_loss().value(), std::exp(-50));
}

TEST(ScoreHistogramTest, TakesAnyScore) {
  const double infinity = std::numeric_limits<double>::infinity();
  ScoreHistogram histogram =
      histogram_of({{infinity, true}, {1e300, true}, {-1e300, false}, {-infinity, false}, {15.9, false}});
  EXPECT_EQ(histogram.auc(), 1);
  EXPECT_EQ(histogram.counts().front(), 2);
  EXPECT_EQ(histogram.counts().back(), 2);
  EXPECT_TRUE(std::isfinite(histogram.log_loss().value()));
  histogram.add(std::numeric_limits<double>::quiet_NaN(), true);
  EXPECT_EQ(histogram.counts()[1], 1);
  EXPECT_EQ(histogram.examples(), 6);
  EXPECT_TRUE(std::isnan(histogram.log_loss().value()));
}

TEST(ScoreHistogramTest, CountsByScoreAndLabel) {
  const ScoreHistogram histogram = histogram_of({{1e-9, true}, {1e-9, true}, {1e-9, false}, {-1e-9, true}});
  EXPECT_THAT(histogram.counts(), SizeIs(2 * ScoreHistogram::kBins));
  EXPECT_EQ(histogram.counts()[ScoreHistogram::kBins], 1);
  EXPECT_EQ(histogram.counts()[ScoreHistogram::kBins + 1], 2);
  EXPECT_EQ(histogram.counts()[ScoreHistogram::kBins - 1], 1);
  EXPECT_EQ(histogram.examples(), 4);
  EXPECT_EQ(histogram.positives(), 3);
}

TEST(ScoreHistogramTest, PartsMakeTheWhole) {
  const std::vector<Scored> scores = calibrated_scores(2000);
  const ScoreHistogram whole = histogram_of(scores);
  ScoreHistogram merged = histogram_of({scores.begin(), scores.begin() + 700});
  const ScoreHistogram rest = histogram_of({scores.begin() + 700, scores.end()});
  EXPECT_NE(merged.auc(), whole.auc());
  merged.merge(rest.counts(), rest.log_loss_sum());
  EXPECT_TRUE(std::ranges::equal(merged.counts(), whole.counts()));
  EXPECT_EQ(merged.auc(), whole.auc());
  EXPECT_NEAR(merged.log_loss().value(), whole.log_loss().value(), 1e-12);
}

TEST(ScoreHistogramTest, CalibrationComparesPredictionsWithLabels) {
  std::vector<Scored> scores = calibrated_scores(100'000);
  const auto groups = histogram_of(scores).calibration(10);
  ASSERT_THAT(groups, SizeIs(10));
  double least = 0;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    const auto& [examples, mean_prediction, positive_share] = groups[group];
    EXPECT_NEAR(static_cast<double>(examples), 10'000, 50);
    EXPECT_NEAR(mean_prediction, positive_share, 0.015);
    EXPECT_GT(mean_prediction, least) << "the groups are not in the order of the scores";
    least = mean_prediction;
  }
  // The mean of the probabilities of logits that are even from −6 to −5.1.
  EXPECT_NEAR(groups[0].mean_prediction, (std::log1p(std::exp(-5.1)) - std::log1p(std::exp(-6.0))) / 0.9,
              1e-4);
  for (Scored& one : scores) one.logit += 1;
  for (const auto& group : histogram_of(scores).calibration(10)) {
    EXPECT_GT(group.mean_prediction, group.positive_share + 0.002);
  }
}

TEST(ScoreHistogramTest, CalibrationLeavesEqualScoresTogether) {
  ScoreHistogram histogram;
  for (int n = 0; n < 40; ++n) histogram.add(0, n % 2 == 0);
  for (int n = 0; n < 60; ++n) histogram.add(2, true);
  for (const std::size_t wanted : {2U, 10U}) {
    const auto groups = histogram.calibration(wanted);
    ASSERT_THAT(groups, SizeIs(2));
    EXPECT_EQ(groups[0].examples, 40);
    EXPECT_NEAR(groups[0].mean_prediction, 0.5, 1e-4);
    EXPECT_EQ(groups[0].positive_share, 0.5);
    EXPECT_EQ(groups[1].examples, 60);
    EXPECT_NEAR(groups[1].mean_prediction, probability_of(2), 1e-4);
    EXPECT_EQ(groups[1].positive_share, 1);
  }
}

TEST(LogisticTest, IsExactForLargeLogits) {
  EXPECT_NEAR(logistic_loss(0, true), std::log(2), 1e-15);
  EXPECT_DOUBLE_EQ(logistic_loss(800, false), 800);
  EXPECT_DOUBLE_EQ(logistic_loss(-800, true), 800);
  EXPECT_EQ(logistic_loss(800, true), 0);
  EXPECT_NEAR(logistic_loss(-20, false), std::exp(-20), 1e-16);
  EXPECT_EQ(logistic(-800), 0);
  EXPECT_EQ(logistic(800), 1);
}

}  // namespace
}  // namespace verbena::apps
