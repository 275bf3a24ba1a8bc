// How good predicted probabilities are: AUC, log loss and calibration, of any number of examples in little
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace verbena::apps {

/// The probability that a logit stands for.
double logistic(double logit);
/// −log of the probability that an example of this logit has its label, in nats; exact for any logit.
double logistic_loss(double logit, bool is_positive);

/// Counts the examples by the logit of their predicted probability, in bins of equal width. Examples of one
/// bin count as ties. With bins this narrow, the AUC of a model's scores is within 1e-4 of the one found by
/// sorting them. Scores beyond ±kLargestLogit (a probability of 1e-7) are in the outermost bins.
///
/// Workers add up what each of them has counted: all that is asked for follows from counts() and
/// log_loss_sum(), which are sums over the examples.
class ScoreHistogram {
 public:
  static constexpr std::size_t kBins = std::size_t{1} << 16;
  static constexpr double kLargestLogit = 16;

  ScoreHistogram() : counts_(2 * kBins) {}

  /// A logit that is not a number counts as the least one, and makes log_loss() not a number, either.
  void add(double logit, bool is_positive);
  /// Adds what another histogram has counted. `counts` must have its size, 2 · kBins.
  void merge(std::span<const std::int64_t> counts, double log_loss_sum);

  /// [2 · bin] negative and [2 · bin + 1] positive examples; the bins are in the order of the scores.
  [[nodiscard]] std::span<const std::int64_t> counts() const { return counts_; }
  /// Exact, not by bins; in nats.
  [[nodiscard]] double log_loss_sum() const { return log_loss_sum_; }

  [[nodiscard]] std::int64_t examples() const;
  [[nodiscard]] std::int64_t positives() const;
  /// The share of the pairs of a positive and a negative example whose scores are in the right order, where
  /// a tie is half a pair. nullopt if all labels are the same.
  [[nodiscard]] std::optional<double> auc() const;
  /// Mean over the examples, in nats. nullopt without any.
  [[nodiscard]] std::optional<double> log_loss() const;

  struct CalibrationGroup {
    std::int64_t examples = 0;
    double mean_prediction = 0;  ///< of the probability; within 1e-4
    double positive_share = 0;   ///< the same as mean_prediction, but for chance, if the model is calibrated
  };
  /// The examples in the order of their scores, in `groups` of about equal size. A bin is in one group as a
  /// whole: groups are less equal, or fewer, where many examples have the same score.
  /// REQUIRES: groups > 0
  [[nodiscard]] std::vector<CalibrationGroup> calibration(std::size_t groups) const;

 private:
  std::vector<std::int64_t> counts_;
  double log_loss_sum_ = 0;
};

}  // namespace verbena::apps
