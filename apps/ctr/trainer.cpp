#include "apps/ctr/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "apps/divergence.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::ctr {

Trainer::Trainer(const Schedule& schedule, Machine& machine, const MiniBatches& train,
                 StreamedParameters& parameters, Evaluation& evaluation)
    : schedule_(schedule),
      machine_(machine),
      train_(train),
      parameters_(parameters),
      evaluation_(evaluation) {}

absl::Status Trainer::run(Reporter& reporter, const std::atomic<bool>& stop) {
  for (std::int64_t part = 0; part < schedule_.passes * kPartsOfPass; ++part) {
    RETURN_IF_ERROR(run_part(part, reporter, stop));
  }
  return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
}

absl::Status Trainer::run_part(std::int64_t part, Reporter& reporter, const std::atomic<bool>& stop) {
  IterationReport report{.iteration = part + 1, .sums = {{kProgressiveLoss, 0}, {kProgressiveWeight, 0}}};
  const auto of_pass = static_cast<std::size_t>(part % kPartsOfPass);
  const std::int64_t pass = part / kPartsOfPass + 1;
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
                                of_pass + 1, pass));
  }
  const bool is_tested = pass % schedule_.test_every == 0 || pass == schedule_.passes;
  if (of_pass + 1 == kParts && schedule_.has_test && is_tested)
    RETURN_IF_ERROR(evaluation_.run(report.sums, stop));
  reporter.iteration(report);
  return absl::OkStatus();
}

absl::Status Trainer::train(const MiniBatch& batch, std::map<std::string, double>& sums) {
  numbers_.resize(batch.keys.size(), machine_.rank());
  RETURN_IF_ERROR(parameters_.read(batch.keys, numbers_));
  parameters_.computing_begins();
  const ProgressiveLoss loss = machine_.gradients(batch, numbers_, gradients_);
  parameters_.computing_ends(batch.examples());
  sums[kProgressiveLoss] += loss.log_loss;
  sums[kProgressiveWeight] += loss.weight;
  return parameters_.step(batch.keys, gradients_);
}

}  // namespace verbena::apps::ctr
