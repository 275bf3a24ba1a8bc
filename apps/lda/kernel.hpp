// Collapsed Gibbs sampling of the topics of one word's tokens: the innermost loop of training.
//
// p(topic k | all other topics) ∝ (n_dk + α) q_k, where q_k = (n_wk + β) / (n_k + Vβ), counted without the
// token. The part n_dk q_k is summed over the topics that document d has, with vectors; the part α q_k is a
// sum tree over all topics, kept up to date while the tokens of one word are sampled one after the other
// (F+LDA: Yu et al., "A scalable asynchronous distributed algorithm for topic modeling", WWW 2015). A token
// costs O(topics of its document + log topics); a row costs O(topics) once.
//
// Results do not depend on the instruction set: sums are taken in the same order at every vector width.
#pragma once

#include <hwy/aligned_allocator.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/random.hpp"
#include "apps/lanes.hpp"

namespace verbena::apps::lda {

inline constexpr std::size_t kMaxTopics = 65'535;
inline constexpr std::size_t kMaxLevels = 4;  ///< of the sum tree, whose fan-out is kLanes

/// How often each topic occurs in each document: for each document, a list of the topics that occur.
class DocumentTopics {
 public:
  /// REQUIRES: topics ≤ kMaxTopics. `lengths`: tokens of each document.
  DocumentTopics(std::span<const std::uint32_t> lengths, std::size_t topics);

  /// Sets a document's counts from one count for every topic.
  void set(std::size_t document, std::span<const std::int32_t> counts);
  /// Sets a document's list: how often each of these topics occurs. REQUIRES: they are different, and no more
  /// than set() has room for; each count is at least 1.
  void set_list(std::size_t document, std::span<const std::uint16_t> topics,
                std::span<const std::int32_t> counts);

  /// Chunks of kLanes topics, then their kLanes counts; unused ones are (no_topic, 0).
  [[nodiscard]] std::int32_t* chunks(std::size_t document) {
    return entries_.get() + 2 * kLanes * begin_[document];
  }
  [[nodiscard]] std::uint32_t& size(std::size_t document) { return sizes_[document]; }
  [[nodiscard]] std::int32_t no_topic() const { return static_cast<std::int32_t>(topics_); }
  [[nodiscard]] std::uint32_t size(std::size_t document) const { return sizes_[document]; }
  [[nodiscard]] std::size_t documents() const { return sizes_.size(); }

  template <class Use>
  void for_each(std::size_t document, const Use& use) const {
    const std::int32_t* const entries = entries_.get() + 2 * kLanes * begin_[document];
    for (std::size_t i = 0; i < sizes_[document]; ++i) {
      const std::int32_t* const topic = entries + 2 * kLanes * (i / kLanes) + i % kLanes;
      use(static_cast<std::size_t>(topic[0]), topic[kLanes]);
    }
  }

 private:
  std::size_t topics_;
  std::vector<std::uint64_t> begin_;  // in chunks
  std::vector<std::uint32_t> sizes_;
  hwy::AlignedFreeUniquePtr<std::int32_t[]> entries_;
};

/// The random numbers of a worker or a document.
Random random_stream(std::uint64_t seed, std::uint64_t stream);
/// Uniform below n, made from the upper 32 bits. REQUIRES: 0 < n < 2³².
inline std::uint32_t random_below_32(Random& random, std::uint64_t n) {
  return static_cast<std::uint32_t>((random() >> 32U) * n >> 32U);
}

struct Priors {
  float alpha = 0.1F;  ///< of every topic in a document
  float beta = 0.01F;  ///< of every word in a topic
};

class Sampler {
 public:
  /// REQUIRES: 1 ≤ topics ≤ kMaxTopics.
  Sampler(std::size_t topics, std::size_t vocabulary, const Priors& priors, const Random& random);

  /// Takes over the number of tokens of each topic, and changes it in place from now on. Negative numbers,
  /// which a stale read might show, count as 0.
  void set_totals(std::span<std::int32_t> totals);

  /// The tokens of one word: where they are and what topic each has.
  struct Tokens {
    std::span<const std::uint32_t> documents;
    std::span<std::uint16_t> topics;
  };
  /// Samples each token once. `row`: how many of the word's tokens each topic has; changed in place.
  void sample(std::int32_t* row, const Tokens& tokens, DocumentTopics& documents);

  /// Where its random numbers are.
  [[nodiscard]] const Random& random() const { return state_.random; }
  void set_random(const Random& random) { state_.random = random; }

  /// For the kernel only.
  struct State {
    std::size_t topics;
    std::size_t levels;
    std::array<float*, kMaxLevels> tree;  ///< [0]: q, one for each topic; [i + 1]: sums of kLanes of [i]
    std::array<std::size_t, kMaxLevels> sizes;
    float* inverse_totals;  ///< 1 / (n_k + Vβ)
    float* weights;         ///< of a document's topics
    std::int32_t* totals;
    float alpha;
    float beta;
    float vocabulary_beta;
    Random random;
  };

 private:
  hwy::AlignedFreeUniquePtr<float[]> memory_;
  State state_;
};

}  // namespace verbena::apps::lda
