// How good the model is on the examples of the test, while it is trained by all workers.
#pragma once

#include <atomic>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "apps/ctr/batches.hpp"
#include "apps/ctr/model.hpp"
#include "apps/ctr/parameters.hpp"
#include "apps/data/score_histogram.hpp"
#include "protocol/initial_values.hpp"

namespace verbena::apps::ctr {

// Names of the sums in IterationReport.
// ------------------------------------------------------------------------------------------------------------
inline constexpr const char* kTestLoss = "test_log_loss";
inline constexpr const char* kTestExamples = "test_examples";
inline constexpr const char* kTestAuc = "test_auc";

class Evaluation {
 public:
  /// All arguments must outlive it. `is_first`: of the workers, the one that reports what all have counted
  /// together. `scores`: of the newest test; the first worker's has all.
  Evaluation(Machine& machine, const protocol::InitialValues& initial_factors, const BatchSource& test,
             Parameters& parameters, bool is_first, ScoreHistogram& scores)
      : machine_(machine),
        initial_factors_(initial_factors),
        test_(test),
        parameters_(parameters),
        is_first_(is_first),
        scores_(scores) {}

  /// Adds this worker's part to the sums. All workers must call it. CANCELLED when `stop` is set;
  /// diverged() if a score is no number.
  absl::Status run(std::map<std::string, double>& sums, const std::atomic<bool>& stop);

 private:
  Machine& machine_;
  const protocol::InitialValues& initial_factors_;
  const BatchSource& test_;
  Parameters& parameters_;
  const bool is_first_;
  ScoreHistogram& scores_;
  Numbers numbers_;
};

}  // namespace verbena::apps::ctr
