// One worker's part of the training, or all of it in the plain loop: the same schedule over an ItemStore.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/mf/blocks.hpp"
#include "apps/mf/item_store.hpp"
#include "apps/mf/model.hpp"
#include "apps/resuming/checkpoints.hpp"
#include <verbena/data_cursor.hpp>

namespace verbena::apps::mf {

struct TrainingOptions {
  std::int64_t iterations = 30;
  double learning_rate = 0.04;
  double decay = 0.93;  ///< factor of the learning rate from one iteration to the next
  double regularization = 0.07;
  std::int64_t batch = 1024;  ///< ratings between two checks for a stop or an early end of the clock
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
  /// units. `cursors`: for a worker, one over the ratings of each block; the plain loop has none and trains
  /// all ratings. `mini_batches`: if given, items are trained in it, a mini-batch at a time; otherwise they
  /// are trained in `items`.
  Trainer(const TrainingOptions& options, const TrainingData& data, FactorRows& users, ItemStore& items,
          double squared_unit, std::vector<DataCursor> cursors = {}, MiniBatchItems* mini_batches = nullptr);

  /// Runs all iterations, or those that are left. CANCELLED when `stop` is set, and from `checkpoints`;
  /// diverged() when the model has diverged.
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop, Checkpoints& checkpoints);
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop) {
    Checkpoints none;
    return run(reporter, stop, none);
  }
  /// What `checkpoints` have saved: the users' rows; and where the cursors of so many blocks were. DATA_LOSS:
  /// it cannot be of these.
  static absl::Status restore(const nlohmann::json& saved, FactorRows& users);
  static absl::StatusOr<std::vector<std::uint64_t>> places(const nlohmann::json& saved, std::size_t blocks);

 private:
  absl::Status run_iteration(std::int64_t iteration, Reporter& reporter, const std::atomic<bool>& stop,
                             const Checkpoints& checkpoints);
  [[nodiscard]] nlohmann::json state() const;
  [[nodiscard]] bool is_evaluated(std::int64_t iteration) const;
  /// The block of that clock, counted from the start of the iteration and on into later ones.
  [[nodiscard]] UpcomingBlock upcoming(std::int64_t iteration, std::size_t clock, std::size_t ahead,
                                       const Checkpoints& checkpoints) const;
  struct PlacedTile {
    Tile tile;
    const Slice* slice = nullptr;
  };

  /// Returns how many ratings were trained: all, unless the clock has ended early.
  absl::StatusOr<std::uint64_t> train_block(std::size_t block, const Step& step,
                                            const std::atomic<bool>& stop);
  absl::StatusOr<std::uint64_t> train_mini_batches(std::size_t block, const Step& step,
                                                   const std::atomic<bool>& stop);
  /// Fills `batch` with the ratings after the first `taken` of the block; with none at the block's end.
  absl::Status fill(std::size_t block, std::uint64_t taken, MiniBatch& batch);
  absl::StatusOr<ExampleRange> next_batch(std::size_t block, std::uint64_t trained);
  /// Calls `use(slice, part of a tile)` for each part of the batch.
  template <class Use>
  absl::Status for_parts(std::size_t block, const ExampleRange& batch, const Use& use) const;
  absl::Status train_batch(std::size_t block, const ExampleRange& batch, const Step& step);
  absl::Status open(const Slice* slice);
  absl::Status evaluate(std::map<std::string, double>& sums);
  absl::StatusOr<double> squared_error_of(const RatingBlocks& ratings);

  const TrainingOptions& options_;
  Shape shape_;
  const TrainingData& data_;
  FactorRows& users_;
  ItemStore& items_;
  double squared_unit_;
  std::vector<DataCursor> cursors_;  ///< by block
  MiniBatchItems* mini_batches_;
  MiniBatch batch_;
  MiniBatch next_batch_;
  std::vector<std::vector<PlacedTile>> tiles_;  ///< by block, in the order of the ratings
  const Slice* open_ = nullptr;                 ///< the slice whose items are being trained
  Rows open_items_;
  std::uint64_t trained_since_ = 0;  ///< ratings, since a mini-batch began or a slice was opened
};

}  // namespace verbena::apps::mf
