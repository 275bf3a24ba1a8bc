// Training over a RowStore, by one worker or in the plain loop: iterations are made of clocks, and clocks of
// mini-batches. This part is the same for every model.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/embedding/row_store.hpp"
#include "apps/resuming/checkpoints.hpp"
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

/// INVALID_ARGUMENT in one line, which names the option; not of the clocks. `most_batch`: the maximum of
/// --batch.
absl::Status check_schedule(const ScheduleOptions& options, std::int64_t most_batch);

/// INVALID_ARGUMENT in one line, which names the option. --iterations may be 0 if a model is loaded, to be
/// evaluated only, or saved in another format. `load`: what --load says; empty: it was not given.
absl::Status check_iterations(std::int64_t iterations, std::string_view load);

/// The largest number of mini-batches in a clock, with so many examples in an iteration.
std::size_t most_mini_batches(const ScheduleOptions& options, std::size_t examples);

/// Calls evaluate(), which reads rows, when all workers have trained; no worker trains on before all of them
/// have evaluated: what one still reads must not change, and whoever waits for one that still ranks would
/// take that for training. Collective: it has two barriers. A process that takes the place of a worker that
/// has died evaluates what that worker has not.
absl::Status evaluate_together(RowStore& rows, absl::FunctionRef<absl::Status()> evaluate);

/// Name of the sum in IterationReport that training must keep finite.
inline constexpr const char* kLoss = "loss";

class Training {
 public:
  virtual ~Training() = default;
  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;

  /// Runs all iterations, or those that are left. If there are none at all, evaluates the rows as they are,
  /// and reports that as iteration 0. CANCELLED when `stop` is set, and from `checkpoints`; diverged() when
  /// the model has diverged. DATA_LOSS: what was saved cannot be of this training.
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop, Checkpoints& checkpoints);
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop) {
    Checkpoints none;
    return run(reporter, stop, none);
  }

 protected:
  /// `options` and `rows` must outlive it. `examples`: how many this worker has. `cursors`: one over the
  /// examples of each clock, if an iteration may end early. Without cursors, all examples are trained.
  Training(const ScheduleOptions& options, std::size_t examples, RowStore& rows,
           std::vector<DataCursor> cursors);

  /// A mini-batch, and how far the training is when it begins.
  struct Place {
    ExampleRange examples;
    double passes = 0;  ///< over the data, done before it
  };

 private:
  /// The random numbers from which mini-batches are made, as text, and back: false if it is none.
  [[nodiscard]] virtual std::string random_state() const = 0;
  virtual bool set_random_state(const std::string& text) = 0;
  /// Makes a mini-batch and requests its rows. `slot`: where the mini-batch is kept until it is trained, one
  /// of slots().
  virtual void prepare(std::size_t slot, const Place& place) = 0;
  /// Trains the mini-batch, and adds to the sums.
  virtual void train(std::size_t slot, std::span<const RowPointers> rows,
                     std::map<std::string, double>& sums) = 0;
  virtual absl::Status evaluate(bool last, Reporter& reporter, const std::atomic<bool>& stop,
                                std::map<std::string, double>& sums) = 0;

  /// No mini-batch is prepared between iterations, and no update is under way.
  [[nodiscard]] nlohmann::json state() const;
  absl::Status restore(const nlohmann::json& saved);
  absl::Status evaluate_untrained(Reporter& reporter, const std::atomic<bool>& stop);
  absl::Status run_iteration(std::int64_t iteration, Reporter& reporter, const std::atomic<bool>& stop);
  /// Adds what was trained to `report`.
  absl::Status train_clock(std::size_t clock, IterationReport& report, const std::atomic<bool>& stop);
  /// The next mini-batch of the clock, after mini-batches with `handed_out` examples; empty at the clock's
  /// end.
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
