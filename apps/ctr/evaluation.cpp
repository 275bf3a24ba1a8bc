#include "apps/ctr/evaluation.hpp"

#include <cmath>
#include <optional>
#include <utility>

#include "apps/divergence.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::ctr {

absl::Status Evaluation::run(std::map<std::string, double>& sums, const std::atomic<bool>& stop) {
  RETURN_IF_ERROR(parameters_.barrier());
  ScoreHistogram scores;
  const auto score = [&](const MiniBatch& batch) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    numbers_.resize(batch.keys.size(), machine_.rank());
    RETURN_IF_ERROR(parameters_.read(batch.keys, numbers_));
    zero_untrained(initial_factors_, batch.keys, machine_.rank(), numbers_.factors);
    machine_.scores(batch, numbers_,
                    [&](std::size_t e, double logit) { scores.add(logit, batch.labels[e] != 0); });
    return absl::OkStatus();
  };
  if (!parameters_.is_catching_up()) RETURN_IF_ERROR(test_.for_each(score));
  sums[kTestLoss] = scores.log_loss_sum();
  sums[kTestExamples] = static_cast<double>(scores.examples());
  RETURN_IF_ERROR(parameters_.merge(scores));
  if (is_first_) {
    if (const std::optional<double> auc = scores.auc()) sums[kTestAuc] = *auc;
    scores_ = std::move(scores);
  }
  return std::isfinite(sums[kTestLoss]) ? absl::OkStatus() : diverged(kNoNumbers);
}

}  // namespace verbena::apps::ctr
