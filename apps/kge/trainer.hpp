// One worker's part of the training, or all of it in the plain loop: the same schedule over a RowStore.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/embedding/row_store.hpp"
#include "apps/kge/evaluation.hpp"
#include "apps/kge/kernel.hpp"
#include "apps/kge/model.hpp"
#include "worker/data_cursor.hpp"

namespace verbena::apps::kge {

struct TrainingOptions {
  std::int64_t iterations = 40;
  std::int64_t batch = 64;           ///< triples
  std::int64_t negatives = 10;       ///< a side
  std::int64_t share_negatives = 8;  ///< triples of a mini-batch that have the same ones
  double learning_rate = 0.1;
  double regularization = 0.2;
  double relation_regularization = 0.2;
  Loss loss = Loss::kSoftmax;
  std::int64_t clocks_per_iteration = 16;
  std::int64_t evaluate_every = 0;  ///< iterations; 0: at the end only
  std::uint64_t seed = 1;
};

/// What a worker trains and evaluates.
struct TrainingData {
  std::vector<Triple> train;  ///< of this worker
  std::vector<Triple> valid;  ///< likewise
  std::vector<Triple> test;
  std::size_t entities = 0;
  std::size_t relations = 0;
  std::uint32_t rank = 0;
};

/// Names of the sums in IterationReport; beside them those of ranks, which begin with "valid_" or "test_".
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kQuestions = "questions";

/// Objectives from the sums.
std::map<std::string, double> objectives_of(const std::map<std::string, double>& sums);

/// Pulls all parameters.
absl::Status read_embeddings(RowStore& rows, Embeddings& embeddings);

class Trainer {
 public:
  /// All arguments must outlive the trainer. `evaluation_threads`: of this worker. `cursors`: over the triples of
  /// each clock, for a worker; the plain loop has none and trains all.
  Trainer(const TrainingOptions& options, const Shape& shape, const TrainingData& data,
          const KnownAnswers& known, RowStore& rows, unsigned evaluation_threads,
          std::vector<DataCursor> cursors = {});

  /// All iterations. CANCELLED when `stop` is set; INVALID_ARGUMENT when the model has diverged.
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop);

 private:
  absl::Status run_iteration(std::int64_t iteration, Reporter& reporter, const std::atomic<bool>& stop);
  /// Adds what was trained to `report`.
  absl::Status train_part(std::size_t part, IterationReport& report, const std::atomic<bool>& stop);
  /// The mini-batch after the first `done` triples of the part; without triples at its end.
  absl::Status fill(std::size_t part, std::uint64_t done, MiniBatch& batch);
  void draw_negatives(MiniBatch& batch);
  /// Its ids become places among the rows.
  void request(MiniBatch& batch);
  absl::Status evaluate(bool last, Reporter& reporter, const std::atomic<bool>& stop,
                        std::map<std::string, double>& sums);

  const TrainingOptions& options_;
  Shape shape_;
  const TrainingData& data_;
  const KnownAnswers& known_;
  RowStore& rows_;
  unsigned evaluation_threads_;
  std::vector<DataCursor> cursors_;  ///< by clock of an iteration
  std::mt19937_64 random_;           ///< of the negatives
  std::vector<std::uint32_t> shared_negatives_;
  std::vector<std::uint32_t> entities_;  ///< of a mini-batch that is requested: head and tail of each triple
  std::vector<std::uint32_t> relations_;
  MiniBatch batch_;
  MiniBatch next_batch_;
  Scratch scratch_;
};

}  // namespace verbena::apps::kge
