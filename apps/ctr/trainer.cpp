#include "apps/ctr/trainer.hpp"

#include <fmt/format.h>

#include <cmath>

#include "apps/divergence.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::ctr {

Trainer::Trainer(const Schedule& schedule, Machine& machine, const BatchSource& train,
                 StreamedParameters& parameters, Evaluation& evaluation)
    : schedule_(schedule),
      machine_(machine),
      train_(train),
      parameters_(parameters),
      evaluation_(evaluation) {}

absl::Status Trainer::run(Reporter& reporter, const std::atomic<bool>& stop) {
  for (std::int64_t pass = 1; pass <= schedule_.passes; ++pass)
    RETURN_IF_ERROR(run_pass(pass, reporter, stop));
  return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
}

absl::Status Trainer::run_pass(std::int64_t pass, Reporter& reporter, const std::atomic<bool>& stop) {
  const auto go_on = [&] {
    return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
  };
  const auto train_in_a_clock = [&](const MiniBatch& batch) {
    RETURN_IF_ERROR(go_on());
    RETURN_IF_ERROR(train(batch));
    return end_clock(reporter);
  };
  clock_ = 0;
  begin_part((pass - 1) * kPartsOfPass + 1);
  RETURN_IF_ERROR(end_parts_but_last(reporter));
  RETURN_IF_ERROR(train_.for_each(train_in_a_clock));
  // Others may have one mini-batch more.
  while (clock_ < schedule_.clocks_per_pass) {
    RETURN_IF_ERROR(go_on());
    RETURN_IF_ERROR(end_clock(reporter));
  }
  RETURN_IF_ERROR(end_part());
  const bool is_tested = pass % schedule_.test_every == 0 || pass == schedule_.passes;
  if (schedule_.has_test && is_tested) RETURN_IF_ERROR(evaluation_.run(report_.sums, stop));
  reporter.iteration(report_);
  return absl::OkStatus();
}

absl::Status Trainer::train(const MiniBatch& batch) {
  numbers_.resize(batch.keys.size(), machine_.rank());
  RETURN_IF_ERROR(parameters_.read(batch.keys, numbers_));
  parameters_.computing_begins();
  const ProgressiveLoss loss = machine_.gradients(batch, numbers_, gradients_);
  parameters_.computing_ends(batch.examples());
  report_.sums[kProgressiveLoss] += loss.log_loss;
  report_.sums[kProgressiveWeight] += loss.weight;
  report_.items += static_cast<double>(batch.examples());
  return parameters_.step(batch.keys, gradients_);
}

absl::Status Trainer::end_clock(Reporter& reporter) {
  RETURN_IF_ERROR(parameters_.clock());
  ++clock_;
  return end_parts_but_last(reporter);
}

/// Ends the parts whose last clock has ended; where there are few clocks, parts may have none. The last part
/// ends with the pass.
absl::Status Trainer::end_parts_but_last(Reporter& reporter) {
  while (report_.iteration % kPartsOfPass != 0) {
    const auto parts = static_cast<std::size_t>(report_.iteration % kPartsOfPass);
    if (clock_ < schedule_.clocks_per_pass * parts / kPartsOfPass) break;
    RETURN_IF_ERROR(end_part());
    reporter.iteration(report_);
    begin_part(report_.iteration + 1);
  }
  return absl::OkStatus();
}

void Trainer::begin_part(std::int64_t part) {
  report_ = {.iteration = part, .sums = {{kProgressiveLoss, 0}, {kProgressiveWeight, 0}}};
  part_began_ = std::chrono::steady_clock::now();
}

absl::Status Trainer::end_part() {
  report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - part_began_).count();
  if (std::isfinite(report_.sums[kProgressiveLoss])) return absl::OkStatus();
  return diverged(fmt::format("training has diverged in part {} of pass {}: lower --alpha or --factor-rate",
                              (report_.iteration - 1) % kPartsOfPass + 1,
                              (report_.iteration - 1) / kPartsOfPass + 1));
}

}  // namespace verbena::apps::ctr
