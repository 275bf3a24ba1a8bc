// The iteration of a worker's clock: how many of the worker's examples have been processed, and whether the
// iteration is over. Under A-BSP the first worker that finishes its examples ends the iteration for all
// workers.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "consistency/rules.hpp"
#include "consistency/weight_of_means.hpp"

namespace verbena::worker {

/// Thread safety: none; belongs to its session.
class Iteration {
 public:
  /// A data cursor over `examples` examples begins in `clock`. FAILED_PRECONDITION: another one has begun in
  /// this clock.
  absl::Status begin(consistency::Clock clock, std::uint64_t examples) {
    if (has_begun(clock)) {
      return absl::FailedPreconditionError(
          fmt::format("two data cursors in clock {}: an iteration is a clock, and has one", clock));
    }
    begun_ = clock;
    examples_ = {.planned = examples};
    return absl::OkStatus();
  }
  [[nodiscard]] bool has_begun(consistency::Clock clock) const { return begun_ == clock; }
  void count_processed(std::uint64_t examples) { examples_.processed += examples; }
  /// The examples that this worker's updates of `clock` are made of. None planned: it took no examples.
  [[nodiscard]] consistency::ExampleCounts examples_of(consistency::Clock clock) const {
    return has_begun(clock) ? examples_ : consistency::ExampleCounts{};
  }

  /// Some worker has finished its examples of that clock.
  void end(consistency::Clock clock) { ended_ = std::max(ended_, clock); }
  [[nodiscard]] bool has_ended(consistency::Clock clock) const { return ended_ >= clock; }

 private:
  consistency::Clock ended_ = -1;        ///< the newest clock that a worker has ended
  consistency::Clock begun_ = -1;        ///< the newest clock in which a data cursor has begun
  consistency::ExampleCounts examples_;  ///< in clock `begun_`
};

}  // namespace verbena::worker
