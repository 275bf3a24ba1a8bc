#include "apps/word2vec/uses.hpp"

#include <numeric>

namespace verbena::apps::word2vec {

Uses expected_uses(std::span<const std::uint64_t> counts, const Subsampling& subsampling,
                   const NoiseDistribution& noise, const WindowOptions& windows, double words) {
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
  Uses uses;
  double kept = 0;
  for (std::uint32_t word = 0; word < counts.size(); ++word) {
    uses.inputs.push_back(words * static_cast<double>(counts[word]) / total * subsampling.share_kept(word));
    kept += uses.inputs.back();
  }
  for (std::uint32_t word = 0; word < counts.size(); ++word) {
    const double wrong = kept * static_cast<double>(windows.negatives) * noise.share(word);
    uses.outputs.push_back(uses.inputs[word] + wrong);
  }
  return uses;
}

}  // namespace verbena::apps::word2vec
