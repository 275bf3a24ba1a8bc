// One worker's part of the training, or all of it in the plain loop: the same schedule over WordCounts.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/lda/held_out.hpp"
#include "apps/lda/kernel.hpp"
#include "apps/lda/likelihood.hpp"
#include "apps/lda/training_data.hpp"
#include "apps/lda/word_counts.hpp"
#include "apps/resuming/checkpoints.hpp"
#include <verbena/data_cursor.hpp>

namespace verbena::apps::lda {

/// How many rows are opened or read at a time where nobody has said it: they stay in a core's second-level
/// cache, together with a copy.
std::size_t rows_at_once(std::size_t topics);

struct TrainingOptions {
  std::int64_t iterations = 200;
  double alpha = 0.1;  ///< of every topic
  double beta = 0.01;  ///< of every word
  std::int64_t evaluate_every = 10;
  std::uint64_t seed = 1;
  std::int64_t batch = 0;  ///< words whose rows are opened at a time; 0: rows_at_once()
  [[nodiscard]] std::size_t words_at_once(std::size_t topics) const {
    return batch > 0 ? static_cast<std::size_t>(batch) : rows_at_once(topics);
  }
  [[nodiscard]] Priors priors() const {
    return {.alpha = static_cast<float>(alpha), .beta = static_cast<float>(beta)};
  }
};

/// Which part of the work is this worker's.
struct Part {
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
};

/// Names of the sums in IterationReport.
inline constexpr const char* kLogLikelihood = "log_likelihood";
inline constexpr const char* kTokens = "tokens";
inline constexpr const char* kHeldOutLogLikelihood = "held_out_log_likelihood";
inline constexpr const char* kHeldOutTokens = "held_out_tokens";

class Trainer {
 public:
  /// `options`, `data` and `counts` must outlive the trainer. `random`: this worker's. `cursors`: for a
  /// worker, one over the words of each block, with words_at_once() in a mini-batch; the plain loop has none
  /// and samples all words.
  Trainer(const TrainingOptions& options, std::size_t vocabulary, const Part& part, const Random& random,
          TrainingData& data, WordCounts& counts, std::vector<DataCursor> cursors = {});

  /// Counts the topics that the tokens have at first. When it returns, those of all workers are counted.
  absl::Status count_topics();
  /// Instead: goes on with what was saved, where all topics are counted. The cursors are where they were.
  /// DATA_LOSS: it cannot be of this data.
  absl::Status resume(const nlohmann::json& saved);
  /// How many blocks there were, as laid out.
  static absl::StatusOr<std::size_t> blocks(const nlohmann::json& saved);
  /// Where the cursors of so many blocks were.
  static absl::StatusOr<std::vector<std::uint64_t>> places(const nlohmann::json& saved, std::size_t blocks);
  /// Runs all iterations, or those that are left. CANCELLED when `stop` is set, and from `checkpoints`, which
  /// must be those of all calls of train().
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop, Checkpoints& checkpoints);
  absl::Status run(Reporter& reporter, const std::atomic<bool>& stop) {
    Checkpoints none;
    return run(reporter, stop, none);
  }

  /// Samples each token once, or fewer tokens if a clock ends early. Calls clock() between blocks of words,
  /// but not at the end. Workers train the blocks in turns. Returns how many tokens were sampled.
  absl::StatusOr<std::uint64_t> train(std::int64_t iteration, const std::atomic<bool>& stop) {
    return train(iteration, stop, Checkpoints());
  }
  /// Adds this worker's parts of the objectives. Collective; it sees all updates.
  absl::Status evaluate(std::map<std::string, double>& sums);

 private:
  absl::StatusOr<std::uint64_t> train(std::int64_t iteration, const std::atomic<bool>& stop,
                                      const Checkpoints& checkpoints);
  [[nodiscard]] nlohmann::json state() const;
  /// Calls use(row, tokens) for each word of a mini-batch, while its rows are open.
  template <class Use>
  absl::Status for_each_word(std::size_t block, const ExampleRange& words, const Use& use);
  [[nodiscard]] std::size_t words_of(std::size_t block) const {
    return data_.blocks[block + 1] - data_.blocks[block];
  }
  /// The mini-batch after the first `done` words of the block; empty at its end.
  [[nodiscard]] ExampleRange batch_after(std::size_t block, std::uint64_t done) const;
  absl::StatusOr<std::uint64_t> train_block(std::size_t block, const std::atomic<bool>& stop);
  [[nodiscard]] bool is_evaluated(std::int64_t iteration) const {
    return iteration == options_.iterations || iteration % options_.evaluate_every == 0;
  }
  /// What this worker trains `ahead` clocks after the clock `clock` of an iteration.
  [[nodiscard]] UpcomingBlock upcoming(std::int64_t iteration, std::size_t clock, std::size_t ahead,
                                       const Checkpoints& checkpoints) const;

  const TrainingOptions& options_;
  std::size_t vocabulary_;
  Part part_;
  TrainingData& data_;
  WordCounts& counts_;
  Sampler sampler_;
  Likelihood likelihood_;
  HeldOutEvaluator held_out_;
  std::vector<DataCursor> cursors_;  ///< by block
};

}  // namespace verbena::apps::lda
