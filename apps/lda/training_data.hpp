// One worker's documents, laid out for training: tokens by word, so that a word's row is needed once an
// iteration.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/data/corpus.hpp"
#include "apps/lda/kernel.hpp"
#include <verbena/keys.hpp>

namespace verbena::apps::lda {

/// A document that is not trained: half of its tokens are given, the others are predicted. Both are in
/// ascending order.
struct HeldOutDocument {
  std::vector<std::uint32_t> given;
  std::vector<std::uint32_t> predicted;
};

struct TrainingData {
  std::vector<Key> words;                ///< that occur in these documents, by blocks
  std::vector<std::size_t> blocks;       ///< block b is words [blocks[b], blocks[b + 1])
  std::vector<std::uint64_t> begin;      ///< words[i] has tokens [begin[i], begin[i + 1])
  std::vector<std::uint32_t> documents;  ///< of each token, counted from 0 here
  std::vector<std::uint16_t> topics;     ///< of each token; random
  DocumentTopics document_topics;
  std::vector<HeldOutDocument> held_out;
};

struct SplitOptions {
  std::size_t topics = 50;
  double held_out = 0;  ///< share of documents, chosen by hashing (seed, document), independent of parts
  std::uint64_t seed = 1;
  /// The vocabulary is split, the same way in every worker, so that workers can train different words at a
  /// time.
  std::size_t blocks = 1;
};

/// The block of a word. Words are dealt out by falling frequency, back and forth, so that all blocks have
/// about as many tokens.
constexpr std::size_t block_of(std::size_t word, std::size_t blocks) {
  const std::size_t place = word % blocks;
  return word / blocks % 2 == 0 ? place : blocks - 1 - place;
}

bool is_held_out(const SplitOptions& options, std::uint64_t document);

/// Halves a held-out document by hashing (seed, document): if the number of tokens is odd, one more is given.
/// `tokens` are ascending: the result does not depend on the order in which they were written, so that a bag
/// of words gives what its text gives.
HeldOutDocument halve(std::span<const std::uint32_t> tokens, std::uint64_t seed, std::uint64_t document);

/// The blocks, and what training changes: the topics of tokens, and in which order a document lists its
/// topics, which decides in which order the sampler adds up numbers.
nlohmann::json saved(const TrainingData& data);
/// How many blocks the data had that was saved; any number. DATA_LOSS: it was not saved like this.
absl::StatusOr<std::size_t> saved_blocks(const nlohmann::json& saved);
/// Puts into data that was laid out in the same way what saved() has returned. DATA_LOSS: that cannot be of
/// this data, which is of no use then.
absl::Status restore(const nlohmann::json& saved, TrainingData& data);

/// Takes the tokens out of the corpus and leaves the rest of it. `random` draws the first topics. The order
/// of the tokens within a document makes no difference.
TrainingData lay_out(Corpus& corpus, const SplitOptions& options, Random& random);

}  // namespace verbena::apps::lda
