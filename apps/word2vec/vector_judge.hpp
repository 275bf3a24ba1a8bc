// The test of word2vec for vectors that other programs have trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/word2vec/text.hpp"

namespace verbena::apps::word2vec {

/// A text, split and tested as word2vec does it with its usual options.
class VectorJudge {
 public:
  /// Errors: those of read_corpus(); INVALID_ARGUMENT if nothing is left to train or to test.
  static absl::StatusOr<VectorJudge> read(const std::string& data, std::uint64_t seed);

  /// All words, by their ids.
  [[nodiscard]] const std::vector<std::string>& words() const { return words_; }
  /// What is to be trained.
  [[nodiscard]] const Text& train() const { return train_; }
  /// The objective held_out_mrr of vectors in files that load() reads: of words that are given, and of those
  /// that are sought between them. Words that a file lacks have 0. Errors: those of load(); INVALID_ARGUMENT
  /// if the files' vectors are not equally long.
  [[nodiscard]] absl::StatusOr<double> held_out_mrr(const std::string& inputs,
                                                    const std::string& outputs) const;

 private:
  VectorJudge() = default;

  std::vector<std::string> words_;
  Text train_;
  MiniBatch gaps_;
  std::vector<float> chances_;
};

}  // namespace verbena::apps::word2vec
