// Held-out perplexity by document completion: the topics of a document are estimated from one half of its
// words, and the other half is predicted (Wallach, Murray, Salakhutdinov and Mimno, "Evaluation methods for
// topic models", ICML 2009; Asuncion, Welling, Smyth and Teh, "On smoothing and inference for topic models",
// UAI 2009).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/lda/training_data.hpp"
#include "apps/lda/word_counts.hpp"

namespace verbena::apps::lda {

struct HeldOutSums {
  double log_likelihood = 0;
  std::uint64_t tokens = 0;  ///< predicted
};

class HeldOutEvaluator {
 public:
  HeldOutEvaluator(std::size_t vocabulary, const Priors& priors) : vocabulary_(vocabulary), priors_(priors) {}

  /// REQUIRES: counts.totals() are up to date.
  absl::StatusOr<HeldOutSums> evaluate(const std::vector<HeldOutDocument>& documents, WordCounts& counts);

  /// How much of a document each topic has, estimated from all of its words, which are in ascending order; of
  /// a document without words all topics have the same. Valid until the next call.
  /// REQUIRES: counts.totals() are up to date, and the same in all calls.
  absl::StatusOr<std::span<const float>> topics_of(std::span<const std::uint32_t> words, WordCounts& counts);

 private:
  void prepare(WordCounts& counts);
  absl::Status load_words(std::span<const std::uint32_t> given, std::span<const std::uint32_t> predicted,
                          WordCounts& counts);
  [[nodiscard]] const float* word_given_topic(std::uint32_t word) const;
  void estimate_topics(std::span<const std::uint32_t> given);

  std::size_t vocabulary_;
  Priors priors_;
  std::size_t width_ = 0;   // topics, padded
  std::vector<Key> words_;  // of the document, ascending
  std::vector<std::int32_t> rows_;
  std::vector<float> inverse_totals_;
  std::vector<float> word_given_topic_;  // [words_.size(), width_]
  std::vector<float> topics_;            // of the document
};

}  // namespace verbena::apps::lda
