#include "apps/word2vec/uses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace verbena::apps::word2vec {
namespace {

TEST(UsesTest, AreThoseOfAText) {
  // The words take turns, so that each piece of the text is like the whole.
  const std::vector<std::uint64_t> counts = {8'000, 4'000, 2'000, 1'000};
  const Subsampling subsampling(counts, 0.05);
  const NoiseDistribution noise(counts);
  const WindowOptions windows{.window = 3, .negatives = 4};
  Text text;
  for (int n = 0; n < 1'000; ++n) {
    for (std::uint32_t word = 0; word < counts.size(); ++word)
      text.words.insert(text.words.end(), counts[word] / 1'000, word);
  }
  text.begin.push_back(text.words.size());
  const std::uint64_t piece = text.words.size() / 2;
  MiniBatch batch;
  Random random(1, 0);
  WindowMaker(subsampling, noise, windows).add(text, 0, piece, random, batch);
  std::vector<double> inputs(counts.size());
  std::vector<double> outputs(counts.size());
  for (const std::uint32_t word : batch.inputs) ++inputs[word];
  for (const Window& window : batch.windows) ++outputs[batch.outputs[window.middle]];
  for (const std::uint32_t word : batch.negatives) ++outputs[word];

  const Uses uses = expected_uses(counts, subsampling, noise, windows, static_cast<double>(piece));
  for (std::size_t word = 0; word < counts.size(); ++word) {
    EXPECT_NEAR(uses.inputs[word], inputs[word], 0.1 * inputs[word]) << word;
    // A negative that equals the window's own word is left out. For the most frequent word that is a third of
    // them.
    EXPECT_GE(uses.outputs[word], 0.95 * outputs[word]) << word;
    EXPECT_LE(uses.outputs[word], 1.6 * outputs[word]) << word;
  }
}

}  // namespace
}  // namespace verbena::apps::word2vec
