#include "apps/ctr/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

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

namespace {

/// All that is trained is in the parameters, and the number of a part says where a worker is in its examples.
nlohmann::json nothing_to_save() {
  return nlohmann::json::object();
}

}  // namespace

absl::Status Trainer::run(Reporter& reporter, const std::atomic<bool>& stop, Checkpoints& checkpoints) {
  const std::int64_t done = checkpoints.first_iteration() - 1;
  for (std::int64_t pass = done / kPartsOfPass + 1; pass <= schedule_.passes; ++pass) {
    const std::int64_t parts_done = std::max<std::int64_t>(done - (pass - 1) * kPartsOfPass, 0);
    RETURN_IF_ERROR(run_pass(pass, parts_done, reporter, stop, checkpoints));
  }
  return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
}

absl::Status Trainer::run_pass(std::int64_t pass, std::int64_t parts_done, Reporter& reporter,
                               const std::atomic<bool>& stop, Checkpoints& checkpoints) {
  const auto go_on = [&] {
    return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
  };
  clock_ = clocks_of(parts_done);
  std::size_t trained_before = clock_;  // mini-batches, one in each clock
  const auto train_in_a_clock = [&](const MiniBatch& batch) {
    RETURN_IF_ERROR(go_on());
    if (trained_before > 0) {
      --trained_before;
      return absl::OkStatus();
    }
    if (!parameters_.is_catching_up()) RETURN_IF_ERROR(train(batch));
    return end_clock(reporter, checkpoints);
  };
  begin_part((pass - 1) * kPartsOfPass + parts_done + 1);
  RETURN_IF_ERROR(end_parts_but_last(reporter, checkpoints));
  RETURN_IF_ERROR(train_.for_each(train_in_a_clock));
  // Others may have one mini-batch more.
  while (clock_ < schedule_.clocks_per_pass) {
    RETURN_IF_ERROR(go_on());
    RETURN_IF_ERROR(end_clock(reporter, checkpoints));
  }
  RETURN_IF_ERROR(end_part());
  const bool is_tested = pass % schedule_.test_every == 0 || pass == schedule_.passes;
  if (schedule_.has_test && is_tested) RETURN_IF_ERROR(evaluation_.run(report_.sums, stop));
  reporter.iteration(report_);
  return checkpoints.after_iteration(report_.iteration, pass == schedule_.passes, nothing_to_save);
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

absl::Status Trainer::end_clock(Reporter& reporter, Checkpoints& checkpoints) {
  RETURN_IF_ERROR(parameters_.clock());
  ++clock_;
  return end_parts_but_last(reporter, checkpoints);
}

/// Ends the parts whose last clock has ended; where there are few clocks, parts may have none. The last part
/// ends with the pass.
absl::Status Trainer::end_parts_but_last(Reporter& reporter, Checkpoints& checkpoints) {
  while (report_.iteration % kPartsOfPass != 0) {
    if (clock_ < clocks_of(report_.iteration % kPartsOfPass)) break;
    RETURN_IF_ERROR(end_part());
    reporter.iteration(report_);
    RETURN_IF_ERROR(checkpoints.after_iteration(report_.iteration, /*is_last=*/false, nothing_to_save));
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
