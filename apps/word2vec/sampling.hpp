// Which words are left out of the text, and which ones are drawn as wrong.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <verbena/sampling.hpp>

namespace verbena::apps::word2vec {

/// Subsampling of frequent words. If a word makes up the share f of all words, √(t / f) + t / f of it are
/// kept, at most all. (As word2vec and fastText do it; the paper's formula is √(t / f).)
class Subsampling {
 public:
  /// `threshold` is t; 0: everything is kept.
  Subsampling(std::span<const std::uint64_t> counts, double threshold);
  [[nodiscard]] double share_kept(std::uint32_t word) const { return shares_[word]; }
  template <class Generator>
  [[nodiscard]] bool keeps(std::uint32_t word, Generator& random) const {
    return (random() >> 32U) < limits_[word];
  }

 private:
  std::vector<double> shares_;
  std::vector<std::uint64_t> limits_;  ///< shares · 2³²
};

/// Words drawn in proportion to their count to the power of 3/4.
class NoiseDistribution {
 public:
  /// REQUIRES: at least one count, none of them 0.
  explicit NoiseDistribution(std::span<const std::uint64_t> counts);
  template <class Generator>
  [[nodiscard]] std::uint32_t draw(Generator& random) const {
    return words_.draw(random);
  }
  /// The probability that it is drawn.
  [[nodiscard]] double share(std::uint32_t word) const { return shares_[word]; }

 private:
  std::vector<double> shares_;
  AliasTable words_;
};

}  // namespace verbena::apps::word2vec
