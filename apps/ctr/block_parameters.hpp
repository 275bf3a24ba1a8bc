// Where the weights live while the block solver trains them: a sparse table with the rule "proximal", whose
// rows are a weight and the gradient of its newest step, or the same rule in this process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/ctr/parameters.hpp"
#include "apps/data/score_histogram.hpp"
#include "apps/training_watch.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::apps::ctr {

/// Two numbers for each key: of a row, the weight and the gradient; of a push, the gradient and the bound on
/// the curvature.
inline constexpr std::uint32_t kPair = 2;

/// What workers tell each other after a pass.
struct PassNumbers {
  double log_loss = 0;   ///< over the worker's examples
  double penalty = 0;    ///< the first worker's: of all weights
  double violation = 0;  ///< the largest of a weight that is 0
};

class BlockParameters : public Parameters {
 public:
  virtual absl::Status read_pairs(std::span<const Key> keys, std::span<float> pairs) = 0;
  /// All workers' pushes of a clock become one step of each row.
  virtual absl::Status push_pairs(std::span<const Key> keys, std::span<const float> pairs) = 0;
  /// Adds up the numbers of all workers, but of violations takes the largest. All workers must call it.
  virtual absl::Status gather(PassNumbers& numbers) = 0;
};

class BlockTableParameters final : public InTables<BlockParameters> {
 public:
  /// As TableParameters::open(); of `rules`, those of weights, which are "proximal".
  static absl::StatusOr<BlockTableParameters> open(Session& session, const ConsistencyModel& consistency,
                                                   const Rules& rules, TrainingWatch& watch);

  absl::Status read_pairs(std::span<const Key> keys, std::span<float> pairs) override {
    return weights_.pull(keys, pairs);
  }
  absl::Status push_pairs(std::span<const Key> keys, std::span<const float> pairs) override {
    return weights_.push(keys, pairs);
  }
  absl::Status gather(PassNumbers& numbers) override;
  absl::Status read(std::span<const Key> keys, Numbers& parameters) override;
  absl::Status start_from(std::span<const Key> keys, const Numbers& parameters) override;
  absl::Status for_each(absl::FunctionRef<absl::Status(Key, float, std::span<const float>)> use) override;
  absl::StatusOr<MemoryOfTables> memory() override;

 private:
  using InTables::InTables;

  Table<float> weights_;
  Table<double> passes_;      ///< a row of PassNumbers for each worker, the sums of what it has pushed
  PassNumbers pushed_;        ///< this worker's row
  std::vector<float> pairs_;  ///< scratch
};

class BlockLocalParameters final : public BlockParameters {
 public:
  explicit BlockLocalParameters(const Rules& rules);

  absl::Status read_pairs(std::span<const Key> keys, std::span<float> pairs) override;
  absl::Status push_pairs(std::span<const Key> keys, std::span<const float> pairs) override;
  absl::Status gather(PassNumbers& /*numbers*/) override { return absl::OkStatus(); }
  absl::Status read(std::span<const Key> keys, Numbers& parameters) override;
  absl::Status start_from(std::span<const Key> keys, const Numbers& parameters) override;
  absl::Status clock() override { return absl::OkStatus(); }
  absl::Status barrier() override { return absl::OkStatus(); }
  absl::Status merge(ScoreHistogram& /*scores*/) override { return absl::OkStatus(); }
  absl::Status for_each(absl::FunctionRef<absl::Status(Key, float, std::span<const float>)> use) override;

 private:
  LocalTable weights_;
  std::vector<float> pairs_;  ///< scratch
};

}  // namespace verbena::apps::ctr
