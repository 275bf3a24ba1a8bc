// Delayed block proximal gradient for L1-regularized logistic regression (Li et al., OSDI'14, section 5.1;
// NIPS'14): minimizes the sum of the examples' log losses plus l1 · Σ |w|.
//
// A clock is one block of keys. A worker computes, for the block's active keys, the gradient of its examples
// and a bound on the curvature within the trust region, and pushes them; the rule "proximal" takes one step
// for the sum of all workers. Then the worker pulls the block's weights and corrects its examples' scores. Up
// to `delay` blocks are under way meanwhile, as the table's model allows.
//
// KKT filter: a key whose weight is 0, and whose gradient is so far from moving it that it will hardly do so
// soon, is not looked at any more. All workers see the same rows, and so decide alike. When the objective
// hardly falls any more, and in the last pass that is allowed, all keys are looked at once more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/ctr/block_parameters.hpp"
#include "apps/ctr/columns.hpp"
#include "apps/ctr/evaluation.hpp"
#include "apps/resuming/checkpoints.hpp"

namespace verbena::apps::ctr {

struct BlockOptions {
  double l1 = 1;
  std::int64_t delay = 0;          ///< of the table's model
  std::int64_t most_passes = 100;  ///< over all blocks
  double tolerance = 1e-5;         ///< ends when a pass lowers the objective by less than this share of it
  double kkt_ratio = 10;           ///< of the filter's threshold to the violation an example; 0: no filter
  std::uint64_t examples = 0;      ///< of all workers
  bool has_test = false;           ///< some worker has examples for the test
  std::int64_t test_every = 1;     ///< passes; what training ends with is tested in any case
  bool is_fresh = true;            ///< all weights begin as 0
};

// Names of the sums in IterationReport.
// ------------------------------------------------------------------------------------------------------------
inline constexpr const char* kObjective = "objective";
inline constexpr const char* kActiveKeys = "active_keys";
inline constexpr const char* kAllKeys = "keys";
// Of all passes so far: the keys whose gradients were pushed, and all.
inline constexpr const char* kPushedKeys = "pushed_keys";
inline constexpr const char* kPassedKeys = "passed_keys";

class BlockTrainer {
 public:
  /// All arguments but `options` must outlive it. `is_first`: of the workers, the one that counts the
  /// penalty.
  BlockTrainer(const BlockOptions& options, const Columns& columns, std::uint32_t blocks,
               BlockParameters& parameters, Evaluation& evaluation, bool is_first);

  /// CANCELLED when `stop` is set, and from `checkpoints`; diverged() when the model has diverged. DATA_LOSS:
  /// what was saved cannot be of these columns.
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop, Checkpoints& checkpoints);

  /// The objective hardly fell in the last pass, in which all keys were looked at.
  [[nodiscard]] bool has_converged() const { return has_converged_; }

 private:
  /// A block whose weights have not been pulled since its gradients were pushed.
  struct Flight {
    std::vector<std::uint32_t> columns;
    std::vector<Key> keys;
  };
  struct Column {
    float weight = 0;
    float trust = 1;  ///< the largest step
    bool is_active = true;
  };

  /// Between passes, when no block is under way.
  [[nodiscard]] nlohmann::json state() const;
  absl::Status restore(const nlohmann::json& saved);
  absl::Status read_weights();
  absl::Status run_pass(IterationReport& report, const std::atomic<bool>& stop);
  absl::Status push_block(std::uint32_t block);
  absl::Status take_oldest();
  void take(std::uint32_t column, float weight, float gradient);
  void add_to_scores(std::size_t column, double step);
  absl::Status end_pass(IterationReport& report);
  void activate_all();

  const BlockOptions options_;
  const Columns& data_;
  const std::uint32_t blocks_;
  BlockParameters& parameters_;
  Evaluation& evaluation_;
  const bool is_first_;
  std::vector<Column> columns_;
  std::vector<double> scores_;  ///< by example
  std::deque<Flight> flights_;  ///< the oldest first
  double threshold_;            ///< of the KKT filter
  double violation_ = 0;        ///< of this pass
  double objective_ = 0;        ///< after the newest pass
  double fall_ = 0;             ///< of the objective in it, as a share of it
  bool looks_at_all_ = true;    ///< in the next pass
  bool has_converged_ = false;
  std::uint64_t pushed_ = 0;  ///< keys
  std::uint64_t passed_ = 0;  ///< keys, pushed or not
  std::vector<float> pairs_;  ///< scratch
};

}  // namespace verbena::apps::ctr
