#include "apps/ctr/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "apps/divergence.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::ctr {

Trainer::Trainer(const Schedule& schedule, Machine& machine, const protocol::InitialValues& initial_factors,
                 const MiniBatches& train, const MiniBatches& test, Parameters& parameters, bool is_first,
                 ScoreHistogram& scores)
    : schedule_(schedule),
      machine_(machine),
      initial_factors_(initial_factors),
      train_(train),
      test_(test),
      parameters_(parameters),
      is_first_(is_first),
      scores_(scores) {}

absl::Status Trainer::run(Reporter& reporter, const std::atomic<bool>& stop) {
  for (std::int64_t part = 0; part < schedule_.passes * kPartsOfPass; ++part) {
    RETURN_IF_ERROR(run_part(part, reporter, stop));
  }
  return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
}

absl::Status Trainer::run_part(std::int64_t part, Reporter& reporter, const std::atomic<bool>& stop) {
  IterationReport report{.iteration = part + 1, .sums = {{kProgressiveLoss, 0}, {kProgressiveWeight, 0}}};
  const auto of_pass = static_cast<std::size_t>(part % kPartsOfPass);
  constexpr auto kParts = static_cast<std::size_t>(kPartsOfPass);
  const auto start = std::chrono::steady_clock::now();
  const std::size_t last = schedule_.clocks_per_pass * (of_pass + 1) / kParts;
  for (std::size_t clock = schedule_.clocks_per_pass * of_pass / kParts; clock < last; ++clock) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    if (clock < train_.size()) {
      RETURN_IF_ERROR(train(train_[clock], report.sums));
      report.items += static_cast<double>(train_[clock].examples());
    }
    RETURN_IF_ERROR(parameters_.clock());
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!std::isfinite(report.sums[kProgressiveLoss])) {
    return diverged(fmt::format("training has diverged in part {} of pass {}: lower --alpha or --factor-rate",
                                of_pass + 1, part / kPartsOfPass + 1));
  }
  if (of_pass + 1 == kParts && schedule_.has_test) {
    RETURN_IF_ERROR(evaluate(report.sums, stop));
    if (!std::isfinite(report.sums[kTestLoss])) return diverged(kNoNumbers);
  }
  reporter.iteration(report);
  return absl::OkStatus();
}

absl::Status Trainer::read(const MiniBatch& batch) {
  numbers_.resize(batch.keys.size(), machine_.rank());
  return parameters_.read(batch.keys, numbers_);
}

absl::Status Trainer::train(const MiniBatch& batch, std::map<std::string, double>& sums) {
  RETURN_IF_ERROR(read(batch));
  parameters_.computing_begins();
  const ProgressiveLoss loss = machine_.gradients(batch, numbers_, gradients_);
  parameters_.computing_ends(batch.examples());
  sums[kProgressiveLoss] += loss.log_loss;
  sums[kProgressiveWeight] += loss.weight;
  return parameters_.step(batch.keys, gradients_);
}

absl::Status Trainer::evaluate(std::map<std::string, double>& sums, const std::atomic<bool>& stop) {
  RETURN_IF_ERROR(parameters_.barrier());
  ScoreHistogram scores;
  for (std::size_t i = 0; i < test_.size(); ++i) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    const MiniBatch batch = test_[i];
    RETURN_IF_ERROR(read(batch));
    zero_untrained(initial_factors_, batch.keys, machine_.rank(), numbers_.factors);
    machine_.scores(batch, numbers_,
                    [&](std::size_t e, double score) { scores.add(score, batch.labels[e] != 0); });
  }
  sums[kTestLoss] = scores.log_loss_sum();
  sums[kTestExamples] = static_cast<double>(test_.examples());
  RETURN_IF_ERROR(parameters_.merge(scores));
  if (is_first_) {
    if (const std::optional<double> auc = scores.auc()) sums[kTestAuc] = *auc;
    scores_ = std::move(scores);
  }
  return absl::OkStatus();
}

}  // namespace verbena::apps::ctr
