#include "apps/mf/trainer.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

namespace verbena::apps::mf {

absl::Status Trainer::run(Reporter& reporter, const std::atomic<bool>& stop) {
  for (std::int64_t iteration = 1; iteration <= options_.iterations; ++iteration) {
    if (absl::Status status = run_iteration(iteration, reporter, stop); !status.ok()) return status;
  }
  return stop.load(std::memory_order_relaxed) ? absl::CancelledError("stopped") : absl::OkStatus();
}

absl::Status Trainer::run_iteration(std::int64_t iteration, Reporter& reporter,
                                    const std::atomic<bool>& stop) {
  const double learning_rate =
      options_.learning_rate * std::pow(options_.decay, static_cast<double>(iteration - 1));
  const Step step{.learning_rate = static_cast<float>(learning_rate),
                  .regularization = static_cast<float>(options_.regularization)};
  const std::size_t blocks = data_.train.blocks.size();
  IterationReport report{.iteration = iteration, .items = static_cast<double>(data_.train.ratings.size())};
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t clock = 0; clock < blocks; ++clock) {
    const std::size_t block = scheduled_block(clock, data_.rank, data_.workers, blocks);
    if (absl::Status status = train_block(data_.train.blocks[block], step, stop); !status.ok()) return status;
    if (absl::Status status = items_.clock(); !status.ok()) return status;
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (iteration % options_.evaluate_every == 0 || iteration == options_.iterations) {
    if (absl::Status status = evaluate(report.sums); !status.ok()) return status;
    if (!std::isfinite(report.sums[kTrainSquaredError]) || !std::isfinite(report.sums[kTestSquaredError])) {
      return absl::InvalidArgumentError(
          fmt::format("training has diverged in iteration {}: lower --learning-rate (it is {})", iteration,
                      options_.learning_rate));
    }
  }
  reporter.iteration(report);
  return absl::OkStatus();
}

absl::Status Trainer::train_block(const std::vector<Slice>& block, const Step& step,
                                  const std::atomic<bool>& stop) {
  for (const Slice& slice : block) {
    if (stop.load(std::memory_order_relaxed)) return absl::CancelledError("stopped");
    const absl::StatusOr<Rows> items = items_.open(slice.first_row, slice.last_row);
    if (!items.ok()) return items.status();
    for (const Tile& tile : slice.tiles) train(data_.train.of(tile), users_.rows(), *items, shape_, step);
    if (absl::Status status = items_.close(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Trainer::evaluate(std::map<std::string, double>& sums) {
  if (absl::Status status = items_.barrier(); !status.ok()) return status;
  const absl::StatusOr<double> train_error = squared_error_of(data_.train);
  if (!train_error.ok()) return train_error.status();
  const absl::StatusOr<double> test_error = squared_error_of(data_.test);
  if (!test_error.ok()) return test_error.status();
  sums = {{kTrainSquaredError, *train_error * squared_unit_},
          {kTestSquaredError, *test_error * squared_unit_},
          {kTrainRatings, static_cast<double>(data_.train.ratings.size())},
          {kTestRatings, static_cast<double>(data_.test.ratings.size())}};
  // Nobody goes on training while another still reads.
  return items_.barrier();
}

absl::StatusOr<double> Trainer::squared_error_of(const RatingBlocks& ratings) {
  double sum = 0;
  for (const std::vector<Slice>& block : ratings.blocks) {
    for (const Slice& slice : block) {
      const absl::StatusOr<Rows> items = items_.open(slice.first_row, slice.last_row);
      if (!items.ok()) return items.status();
      for (const Tile& tile : slice.tiles) {
        sum += squared_error(ratings.of(tile), users_.rows(), *items, shape_);
      }
    }
  }
  return sum;
}

}  // namespace verbena::apps::mf
