// How often the rows of each word are expected to be used.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "apps/word2vec/sampling.hpp"
#include "apps/word2vec/text.hpp"

namespace verbena::apps::word2vec {

/// By word.
struct Uses {
  std::vector<double> inputs;
  std::vector<double> outputs;
};

/// The expected uses in `words` words of a text with these counts.
Uses expected_uses(std::span<const std::uint64_t> counts, const Subsampling& subsampling,
                   const NoiseDistribution& noise, const WindowOptions& windows, double words);

}  // namespace verbena::apps::word2vec
