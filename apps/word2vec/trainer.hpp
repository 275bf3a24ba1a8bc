// One worker's part of the training, or all of it in the plain loop: the same schedule over a RowStore.
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
#include "apps/word2vec/evaluation.hpp"
#include "apps/word2vec/kernel.hpp"
#include "apps/word2vec/text.hpp"
#include "worker/data_cursor.hpp"

namespace verbena::apps::word2vec {

/// The tables, in the order of a RowStore's.
inline constexpr std::size_t kInputTable = 0;
inline constexpr std::size_t kOutputTable = 1;

struct TrainingOptions {
  std::int64_t iterations = 20;
  double learning_rate = 0.05;  ///< at first; falls in proportion to what is left, to nearly 0
  std::int64_t batch = 65'536;  ///< words
  std::int64_t clocks_per_iteration = 4;
  std::int64_t evaluate_every = 0;  ///< iterations; 0: at the end only
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

/// Names of the sums in IterationReport; beside them those of ranks.
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kPairs = "pairs";

/// Objectives from the sums.
std::map<std::string, double> objectives_of(const std::map<std::string, double>& sums);

class Trainer {
 public:
  /// All arguments must outlive the trainer. `evaluation_threads`: of this worker. `cursors`: over the words of each
  /// clock, for a worker; the plain loop has none and trains all.
  Trainer(const TrainingOptions& options, const TrainingData& data, const WindowMaker& windows,
          RowStore& rows, unsigned evaluation_threads, std::vector<DataCursor> cursors = {});

  /// All iterations. CANCELLED when `stop` is set; INVALID_ARGUMENT when the model has diverged.
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop);

 private:
  /// A piece of the text, and where the training then is.
  struct Piece {
    MiniBatch batch;
    std::uint64_t words = 0;  ///< as they stand in the text
    float learning_rate = 0;
  };

  absl::Status run_iteration(std::int64_t iteration, Reporter& reporter, const std::atomic<bool>& stop);
  /// Adds what was trained to `report`.
  absl::Status train_part(std::size_t part, IterationReport& report, const std::atomic<bool>& stop);
  /// The piece after the first `done` words of the part, requested; without words at its end.
  absl::Status prepare(std::size_t part, std::int64_t iteration, std::uint64_t done, Piece& piece);
  absl::Status evaluate(Reporter& reporter, const std::atomic<bool>& stop,
                        std::map<std::string, double>& sums);

  const TrainingOptions& options_;
  const TrainingData& data_;
  const WindowMaker& windows_;
  RowStore& rows_;
  unsigned evaluation_threads_;
  std::vector<DataCursor> cursors_;  ///< by clock of an iteration
  Random random_;
  Piece piece_;
  Piece next_piece_;
  Scratch scratch_;
};

}  // namespace verbena::apps::word2vec
