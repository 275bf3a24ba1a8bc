// Training over a RowStore, by one worker or in the plain loop: iterations of clocks of mini-batches. What is
// the same for every model.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/embedding/row_store.hpp"
#include <verbena/data_cursor.hpp>

namespace verbena::apps {

struct ScheduleOptions {
  std::int64_t iterations = 1;
  std::int64_t batch = 1;  ///< examples of a mini-batch
  std::int64_t clocks_per_iteration = 1;
  std::int64_t evaluate_every = 0;  ///< iterations; 0: at the end only
  std::int64_t barrier_every = 0;   ///< iterations after which workers wait for one another; 0: never
  double learning_rate = 0.1;       ///< at first
};

/// INVALID_ARGUMENT in one line, which names the option. `most_batch`: of --batch.
absl::Status check_schedule(const ScheduleOptions& options, std::int64_t most_batch);

/// What --load and --output name; empty: they were not given.
struct ModelFiles {
  std::string_view load;
  std::string_view output;
};
/// INVALID_ARGUMENT likewise: --iterations may be 0 where a model is loaded, to be looked at, and none is
/// saved.
absl::Status check_iterations(std::int64_t iterations, const ModelFiles& files);

/// In a clock, of so many examples in an iteration.
std::size_t most_mini_batches(const ScheduleOptions& options, std::size_t examples);

/// Name of the sum in IterationReport that training must keep finite.
inline constexpr const char* kLoss = "loss";

class Training {
 public:
  virtual ~Training() = default;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// All iterations; without any, the rows are evaluated as they are, which is reported as iteration 0.
  /// CANCELLED when `stop` is set; diverged() when the model has.
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop);

 protected:
  /// Options and store must outlive it. `examples`: of this worker. `cursors`: over those of each clock,
  /// where an iteration may end early; without any, all are trained.
  Training(const ScheduleOptions& options, std::size_t examples, RowStore& rows,
           std::vector<DataCursor> cursors);

  /// A mini-batch, and where the training then is.
  struct Place {
    ExampleRange examples;
    double passes = 0;  ///< over the data, done before it
  };

 private:
  /// Makes a mini-batch and requests its rows. `slot`: where it is kept until it is trained, one of slots().
  virtual void prepare(std::size_t slot, const Place& place) = 0;
  /// Trains it, and adds to the sums.
  virtual void train(std::size_t slot, std::span<const RowPointers> rows,
                     std::map<std::string, double>& sums) = 0;
  virtual absl::Status evaluate(bool last, Reporter& reporter, const std::atomic<bool>& stop,
                                std::map<std::string, double>& sums) = 0;

  absl::Status evaluate_untrained(Reporter& reporter, const std::atomic<bool>& stop);
  absl::Status run_iteration(std::int64_t iteration, Reporter& reporter, const std::atomic<bool>& stop);
  /// Adds what was trained to `report`.
  absl::Status train_clock(std::size_t clock, IterationReport& report, const std::atomic<bool>& stop);
  /// The mini-batch after those in which `handed_out` examples of the clock are; empty at its end.
  absl::StatusOr<ExampleRange> next_batch(std::size_t clock, std::uint64_t handed_out);

  const ScheduleOptions& options_;
  const std::size_t examples_;
  RowStore& rows_;
  std::vector<DataCursor> cursors_;  ///< by clock of an iteration

 protected:
  /// Mini-batches that may be prepared at a time.
  [[nodiscard]] std::size_t slots() const { return rows_.lookahead() + 1; }
};

}  // namespace verbena::apps
