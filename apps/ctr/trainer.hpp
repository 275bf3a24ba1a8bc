// One worker's part of the training, or all of it in the plain loop: mini-batch by mini-batch over
// Parameters.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/ctr/batches.hpp"
#include "apps/ctr/evaluation.hpp"
#include "apps/ctr/model.hpp"
#include "apps/ctr/parameters.hpp"
#include "apps/resuming/checkpoints.hpp"

namespace verbena::apps::ctr {

/// A pass is reported in so many parts, as iterations of the run.
inline constexpr std::int64_t kPartsOfPass = 10;

struct Schedule {
  std::int64_t passes = 1;
  std::size_t clocks_per_pass = 0;  ///< mini-batches of the worker that has the most
  bool has_test = false;            ///< some worker has examples for the test
  std::int64_t test_every = 1;      ///< passes; the last one is tested in any case
};

// Names of the sums in IterationReport.
// ------------------------------------------------------------------------------------------------------------
inline constexpr const char* kProgressiveLoss = "progressive_log_loss";
inline constexpr const char* kProgressiveWeight = "progressive_weight";

class Trainer {
 public:
  /// All arguments but `schedule` must outlive it.
  Trainer(const Schedule& schedule, Machine& machine, const BatchSource& train,
          StreamedParameters& parameters, Evaluation& evaluation);

  /// CANCELLED when `stop` is set, and from `checkpoints`; diverged() when the model has diverged.
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop, Checkpoints& checkpoints);

 private:
  /// Without its first `parts_done` parts.
  absl::Status run_pass(std::int64_t pass, std::int64_t parts_done, Reporter& reporter,
                        const std::atomic<bool>& stop, Checkpoints& checkpoints);
  /// How many clocks of a pass have ended with so many of its parts, in all workers.
  [[nodiscard]] std::size_t clocks_of(std::int64_t parts) const {
    return schedule_.clocks_per_pass * static_cast<std::size_t>(parts) /
           static_cast<std::size_t>(kPartsOfPass);
  }
  absl::Status train(const MiniBatch& batch);
  absl::Status end_clock(Reporter& reporter, Checkpoints& checkpoints);
  absl::Status end_parts_but_last(Reporter& reporter, Checkpoints& checkpoints);
  absl::Status end_part();
  void begin_part(std::int64_t part);

  const Schedule schedule_;
  Machine& machine_;
  const BatchSource& train_;
  StreamedParameters& parameters_;
  Evaluation& evaluation_;
  std::size_t clock_ = 0;   ///< of this pass, how many have ended
  IterationReport report_;  ///< of this part, whose number counts on over all passes
  std::chrono::steady_clock::time_point part_began_;
  Numbers numbers_;
  Numbers gradients_;
};

}  // namespace verbena::apps::ctr
