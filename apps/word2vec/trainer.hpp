// One worker's part of the training, or all of it in the plain loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/embedding/row_store.hpp"
#include "apps/embedding/training.hpp"
#include "apps/word2vec/evaluation.hpp"
#include "apps/word2vec/kernel.hpp"
#include "apps/word2vec/text.hpp"
#include "apps/word2vec/usual_options.hpp"

namespace verbena::apps::word2vec {

/// The tables, in the order of a RowStore's.
inline constexpr std::size_t kInputTable = 0;
inline constexpr std::size_t kOutputTable = 1;

/// The learning rate falls in proportion to the training that is left, to nearly 0.
struct TrainingOptions : ScheduleOptions {
  TrainingOptions()
      : ScheduleOptions{.iterations = 20, .batch = 65'536, .learning_rate = usual::kLearningRate} {}
  std::uint64_t seed = 1;
};

/// What a worker trains and evaluates.
struct TrainingData {
  Text text;                   ///< of this worker
  MiniBatch gaps;              ///< of this worker's held-out documents
  std::vector<float> chances;  ///< see evaluation.hpp; of all words
  std::size_t dimension = 1;
  std::uint32_t rank = 0;
};

/// Name of a sum in IterationReport. The other sums are the loss, and those of ranks.
inline constexpr const char* kPairs = "pairs";

/// Computes the objectives from the sums.
std::map<std::string, double> objectives_of(const std::map<std::string, double>& sums);

class Trainer final : public Training {
 public:
  /// All arguments must outlive the trainer. `evaluation_threads`: of this worker.
  Trainer(const TrainingOptions& options, const TrainingData& data, const WindowMaker& windows,
          RowStore& rows, unsigned evaluation_threads, std::vector<DataCursor> cursors = {});

 private:
  /// A piece of the text.
  struct Piece {
    MiniBatch batch;
    float learning_rate = 0;
  };

  [[nodiscard]] std::string random_state() const override;
  bool set_random_state(const std::string& text) override;
  void prepare(std::size_t slot, const Place& place) override;
  void train(std::size_t slot, std::span<const RowPointers> rows,
             std::map<std::string, double>& sums) override;
  absl::Status evaluate(bool last, Reporter& reporter, const std::atomic<bool>& stop,
                        std::map<std::string, double>& sums) override;

  const TrainingOptions& options_;
  const TrainingData& data_;
  const WindowMaker& windows_;
  RowStore& rows_;
  unsigned evaluation_threads_;
  Random random_;
  std::vector<Piece> pieces_;  ///< by slot
  Scratch scratch_;
};

}  // namespace verbena::apps::word2vec
