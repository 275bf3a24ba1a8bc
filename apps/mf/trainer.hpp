// One worker's part of the training, or all of it in the plain loop: the same schedule over an ItemStore.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/mf/blocks.hpp"
#include "apps/mf/item_store.hpp"
#include "apps/mf/model.hpp"

namespace verbena::apps::mf {

struct TrainingOptions {
  std::int64_t iterations = 30;
  double learning_rate = 0.04;
  double decay = 0.93;  ///< factor of the learning rate from one iteration to the next
  double regularization = 0.07;
  std::int64_t evaluate_every = 1;
  std::uint64_t seed = 1;
};

/// What a worker trains: its users' ratings in blocks, scaled.
struct TrainingData {
  RatingBlocks train;
  RatingBlocks test;
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
};

/// Names of the sums in IterationReport, in squared units of the scaled ratings.
inline constexpr const char* kTrainSquaredError = "train_squared_error";
inline constexpr const char* kTestSquaredError = "test_squared_error";
inline constexpr const char* kTrainRatings = "train_ratings";
inline constexpr const char* kTestRatings = "test_ratings";

class Trainer {
 public:
  /// All arguments must outlive the trainer. `squared_unit`: what a squared error of 1 is in the input's
  /// units.
  Trainer(const TrainingOptions& options, const TrainingData& data, FactorRows& users, ItemStore& items,
          double squared_unit)
      : options_(options),
        shape_(users.format().shape()),
        data_(data),
        users_(users),
        items_(items),
        squared_unit_(squared_unit) {}

  /// All iterations. CANCELLED when `stop` is set; INVALID_ARGUMENT when the model has diverged.
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop);

 private:
  absl::Status run_iteration(std::int64_t iteration, Reporter& reporter, const std::atomic<bool>& stop);
  absl::Status train_block(const std::vector<Slice>& block, const Step& step, const std::atomic<bool>& stop);
  absl::Status evaluate(std::map<std::string, double>& sums);
  absl::StatusOr<double> squared_error_of(const RatingBlocks& ratings);

  const TrainingOptions& options_;
  Shape shape_;
  const TrainingData& data_;
  FactorRows& users_;
  ItemStore& items_;
  double squared_unit_;
};

}  // namespace verbena::apps::mf
