#include "apps/word2vec/evaluation.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace verbena::apps::word2vec {
namespace {

constexpr std::size_t kWindowsAtOnce = 32;
constexpr std::size_t kScoreBytesAtOnce = std::size_t{128}
                                          << 10;  // of words: they stay in a second-level cache

struct Question {
  std::span<const float> q;
  float right = 0;  ///< score
  std::uint64_t better = 0;
  std::uint64_t equal = 0;
};

}  // namespace

MiniBatch gaps_of(std::span<const HeldOutDocument> documents, const Subsampling& subsampling,
                  const NoiseDistribution& noise, std::size_t window, std::uint64_t seed) {
  const WindowMaker maker(subsampling, noise, {.window = window, .negatives = 0, .shrinks = false});
  MiniBatch gaps;
  for (const HeldOutDocument& document : documents) {
    Random random(seed, document.index);
    maker.add({.words = document.words, .begin = {0, document.words.size()}}, 0, document.words.size(),
              random, gaps);
  }
  return gaps;
}

std::vector<float> chances(std::span<const std::uint64_t> counts, const Subsampling& subsampling) {
  std::vector<double> kept;
  kept.reserve(counts.size());
  double total = 0;
  for (std::uint32_t word = 0; word < counts.size(); ++word) {
    kept.push_back(static_cast<double>(counts[word]) * subsampling.share_kept(word));
    total += kept.back();
  }
  std::vector<float> result;
  result.reserve(kept.size());
  for (const double one : kept) result.push_back(static_cast<float>(std::log(one / total)));
  return result;
}

void rank(const Parameters& parameters, std::span<const float> chances, const MiniBatch& gaps,
          std::span<const Window> windows, std::span<double> ranks) {
  assert(ranks.size() == windows.size());
  const std::size_t size = parameters.size;
  const auto vectors = aligned_floats(windows.size() * size);
  std::vector<Question> questions;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const Window& window = windows[i];
    float* const q = vectors.get() + i * size;
    for (std::uint32_t place = window.first; place < window.last; ++place) {
      if (place == window.middle) continue;
      const float* const input = parameters.inputs.get() + gaps.inputs[place] * size;
      for (std::size_t k = 0; k < size; ++k) q[k] += input[k];
    }
    Question& question = questions.emplace_back(Question{.q = {q, size}});
    const std::uint32_t right = gaps.outputs[window.middle];
    score(question.q, parameters.outputs.get() + right * size, std::span(&question.right, 1));
    question.right += chances[right];
  }
  std::vector<float> scores(std::max<std::size_t>(kScoreBytesAtOnce / (size * sizeof(float)), 1));
  for (std::size_t first = 0; first < parameters.words; first += scores.size()) {
    const std::size_t count = std::min(scores.size(), parameters.words - first);
    for (Question& question : questions) {
      score(question.q, parameters.outputs.get() + first * size, std::span(scores).first(count));
      for (std::size_t i = 0; i < count; ++i) {
        const float with_chance = scores[i] + chances[first + i];
        question.better += with_chance <= question.right ? 0 : 1;
        question.equal += with_chance == question.right ? 1 : 0;
      }
    }
  }
  for (std::size_t i = 0; i < windows.size(); ++i) {
    // The right word itself is among those that were compared. If its score is not a number, it was counted
    // as better.
    const bool is_number = !std::isnan(questions[i].right);
    const std::uint64_t better = questions[i].better - (is_number ? 0 : 1);
    const std::uint64_t equal = questions[i].equal - (is_number ? 1 : 0);
    ranks[i] = 1 + static_cast<double>(better) + static_cast<double>(equal) / 2;
  }
}

absl::StatusOr<RankSums> evaluate(const Parameters& parameters, std::span<const float> chances,
                                  const MiniBatch& gaps, const RankingOptions& options) {
  return rank_all(
      gaps.windows.size(), kWindowsAtOnce,
      [&](std::size_t first, std::size_t count, std::span<double> ranks) {
        rank(parameters, chances, gaps, std::span(gaps.windows).subspan(first, count), ranks);
      },
      options);
}

}  // namespace verbena::apps::word2vec
