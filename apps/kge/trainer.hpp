// One worker's part of the training, or all of it in the plain loop.
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
#include "apps/embedding/training.hpp"
#include "apps/kge/evaluation.hpp"
#include "apps/kge/kernel.hpp"
#include "apps/kge/model.hpp"

namespace verbena::apps::kge {

struct TrainingOptions : ScheduleOptions {
  TrainingOptions() : ScheduleOptions{.iterations = 40, .batch = 64, .learning_rate = 0.1} {}
  std::int64_t negatives = 10;       ///< a side
  std::int64_t share_negatives = 8;  ///< triples of a mini-batch that have the same negatives
  double regularization = 0.2;
  double relation_regularization = 0.2;
  double margin = 6;
  Loss loss = Loss::kSoftmax;
  std::uint64_t seed = 1;
};

/// What a worker trains and evaluates.
struct TrainingData {
  std::vector<Triple> train;  ///< of this worker
  std::vector<Triple> valid;  ///< of this worker
  std::vector<Triple> test;
  std::size_t entities = 0;
  std::size_t relations = 0;
  std::uint32_t rank = 0;
};

/// Name of a sum in IterationReport. The other sums are the loss, and those of ranks, which begin with
/// "valid_" or "test_".
inline constexpr const char* kQuestions = "questions";

/// Computes the objectives from the sums.
std::map<std::string, double> objectives_of(const std::map<std::string, double>& sums);

/// Pulls all parameters.
absl::Status read_embeddings(RowStore& rows, Embeddings& embeddings);

class Trainer final : public Training {
 public:
  /// All arguments must outlive the trainer. `evaluation_threads`: of this worker.
  Trainer(const TrainingOptions& options, const Shape& shape, const TrainingData& data,
          const KnownAnswers& known, RowStore& rows, unsigned evaluation_threads,
          std::vector<DataCursor> cursors = {});

 private:
  [[nodiscard]] std::string random_state() const override;
  bool set_random_state(const std::string& text) override;
  void prepare(std::size_t slot, const Place& place) override;
  void train(std::size_t slot, std::span<const RowPointers> rows,
             std::map<std::string, double>& sums) override;
  absl::Status evaluate(bool last, Reporter& reporter, const std::atomic<bool>& stop,
                        std::map<std::string, double>& sums) override;
  void draw_negatives(MiniBatch& batch);
  /// Requests the rows of the mini-batch. Its ids become places among the rows.
  void request(MiniBatch& batch);

  const TrainingOptions& options_;
  Shape shape_;
  const TrainingData& data_;
  const KnownAnswers& known_;
  RowStore& rows_;
  unsigned evaluation_threads_;
  std::mt19937_64 random_;  ///< of the negatives
  std::vector<std::uint32_t> shared_negatives_;
  std::vector<std::uint32_t> entities_;  ///< of a mini-batch that is requested: head and tail of each triple
  std::vector<std::uint32_t> relations_;
  std::vector<MiniBatch> batches_;  ///< by slot
  Scratch scratch_;
};

}  // namespace verbena::apps::kge
