// Which words are left out of the text, and which ones are drawn as wrong.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/data/random.hpp"

namespace verbena::apps::word2vec {

/// Subsampling of frequent words: of a word that makes up the share f of all, √(t / f) + t / f are kept, at most all. (As
/// word2vec and fastText do it; the paper's formula is √(t / f).)
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

/// Words drawn in proportion to their count to the power of 3/4, each in constant time (alias method: Walker 1977, Vose
/// 1991).
class NoiseDistribution {
 public:
  /// REQUIRES: at least one count, none of them 0.
  explicit NoiseDistribution(std::span<const std::uint64_t> counts);
  template <class Generator>
  [[nodiscard]] std::uint32_t draw(Generator& random) const {
    const auto scaled = static_cast<unsigned __int128>(random()) * columns_.size();
    const auto word = static_cast<std::uint32_t>(scaled >> 64U);
    const Column& column = columns_[word];
    return static_cast<std::uint32_t>(scaled >> 32U) < column.limit ? word : column.other;
  }
  /// The probability that it is drawn.
  [[nodiscard]] double share(std::uint32_t word) const { return shares_[word]; }

 private:
  struct Column {
    std::uint32_t limit = 0;  ///< · 2⁻³²: the share of this column that is its own word's
    std::uint32_t other = 0;  ///< has the rest
  };
  std::vector<double> shares_;
  std::vector<Column> columns_;
};

}  // namespace verbena::apps::word2vec
