#include "apps/data/score_histogram.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace verbena::apps {
namespace {

constexpr double kBinsPerLogit =
    static_cast<double>(ScoreHistogram::kBins) / (2 * ScoreHistogram::kLargestLogit);

std::size_t bin_of_logit(double logit) {
  const double place = (logit + ScoreHistogram::kLargestLogit) * kBinsPerLogit;
  if (!(place > 0)) return 0;  // also if it is not a number
  return static_cast<std::size_t>(std::min(place, static_cast<double>(ScoreHistogram::kBins - 1)));
}

/// The probability in the middle of a bin.
double probability_of_bin(std::size_t bin) {
  const double logit = (static_cast<double>(bin) + 0.5) / kBinsPerLogit - ScoreHistogram::kLargestLogit;
  return logistic(logit);
}

}  // namespace

double logistic(double logit) {
  return 1 / (1 + std::exp(-logit));
}

double logistic_loss(double logit, bool is_positive) {
  // In a form that neither overflows nor rounds to nothing.
  const double wrongness = is_positive ? -logit : logit;
  return std::max(wrongness, 0.0) + std::log1p(std::exp(-std::abs(wrongness)));
}

void ScoreHistogram::add(double logit, bool is_positive) {
  ++counts_[2 * bin_of_logit(logit) + (is_positive ? 1 : 0)];
  log_loss_sum_ += logistic_loss(logit, is_positive);
}

void ScoreHistogram::merge(std::span<const std::int64_t> counts, double log_loss_sum) {
  assert(counts.size() == counts_.size());
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += counts[i];
  log_loss_sum_ += log_loss_sum;
}

std::int64_t ScoreHistogram::examples() const {
  std::int64_t sum = 0;
  for (const std::int64_t count : counts_) sum += count;
  return sum;
}

std::int64_t ScoreHistogram::positives() const {
  std::int64_t sum = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) sum += counts_[2 * bin + 1];
  return sum;
}

std::optional<double> ScoreHistogram::auc() const {
  double negatives_below = 0;
  double positives_below = 0;
  double right_pairs = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const auto negatives = static_cast<double>(counts_[2 * bin]);
    const auto positives = static_cast<double>(counts_[2 * bin + 1]);
    right_pairs += positives * (negatives_below + negatives / 2);
    negatives_below += negatives;
    positives_below += positives;
  }
  if (negatives_below == 0 || positives_below == 0) return std::nullopt;
  return right_pairs / (negatives_below * positives_below);
}

std::optional<double> ScoreHistogram::log_loss() const {
  const std::int64_t count = examples();
  if (count == 0) return std::nullopt;
  return log_loss_sum_ / static_cast<double>(count);
}

std::vector<ScoreHistogram::CalibrationGroup> ScoreHistogram::calibration(std::size_t groups) const {
  const auto all = static_cast<double>(examples());
  std::vector<CalibrationGroup> sums(groups);
  double below = 0;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const std::int64_t count = counts_[2 * bin] + counts_[2 * bin + 1];
    if (count == 0) continue;
    const auto weight = static_cast<double>(count);
    // Where the middle one of the bin's examples belongs.
    const double share_below = (below + weight / 2) / all;
    CalibrationGroup& group = sums[static_cast<std::size_t>(share_below * static_cast<double>(groups))];
    group.examples += count;
    group.mean_prediction += weight * probability_of_bin(bin);
    group.positive_share += static_cast<double>(counts_[2 * bin + 1]);
    below += weight;
  }
  std::erase_if(sums, [](const CalibrationGroup& group) { return group.examples == 0; });
  for (CalibrationGroup& group : sums) {
    group.mean_prediction /= static_cast<double>(group.examples);
    group.positive_share /= static_cast<double>(group.examples);
  }
  return sums;
}

}  // namespace verbena::apps
