// How well the vectors know text that was not trained: in each of its windows the middle is left out, and all
// words are ranked by how well they fit there.
//
// The score of a word w for a gap with the words c₁ … cₙ around it is ln P(w) + Σ v(cᵢ) · u(w), where P(w) is
// its share of the subsampled text. Skip-gram with negative sampling learns how much more often two words
// meet than they would by chance; P adds the chance. Vectors that know nothing rank by frequency.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/embedding/ranking.hpp"
#include "apps/embedding/row_source.hpp"
#include "apps/word2vec/sampling.hpp"
#include "apps/word2vec/text.hpp"

namespace verbena::apps::word2vec {

/// All rows of both tables.
struct Parameters {
  Parameters(std::size_t its_words, std::size_t its_size)
      : words(its_words),
        size(its_size),
        inputs(aligned_floats(words * size)),
        outputs(aligned_floats(words * size)) {}
  std::size_t words;
  std::size_t size;  ///< of a row
  hwy::AlignedFreeUniquePtr<float[]> inputs;
  hwy::AlignedFreeUniquePtr<float[]> outputs;
};

/// The windows of some documents, with `window` words a side; which words are left out depends only on `seed`
/// and the document.
MiniBatch gaps_of(std::span<const HeldOutDocument> documents, const Subsampling& subsampling,
                  const NoiseDistribution& noise, std::size_t window, std::uint64_t seed);

/// ln P of each word.
std::vector<float> chances(std::span<const std::uint64_t> counts, const Subsampling& subsampling);

/// The rank of each window's middle: 1 + the number of better words + half the number of equal ones; a
/// word counts as better if its score or the right one's is not a number. REQUIRES: a rank for each window;
/// `gaps` has ids.
void rank(const Parameters& parameters, std::span<const float> chances, const MiniBatch& gaps,
          std::span<const Window> windows, std::span<double> ranks);

/// As rank_all().
absl::StatusOr<RankSums> evaluate(const Parameters& parameters, std::span<const float> chances,
                                  const MiniBatch& gaps, const RankingOptions& options);

}  // namespace verbena::apps::word2vec
