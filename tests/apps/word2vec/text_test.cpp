#include "apps/word2vec/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

namespace verbena::apps::word2vec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::vector<std::uint64_t> kCounts(20, 1);

/// Document d has d modulo 3 words, all of them d.
Corpus some_documents(std::uint32_t part, std::uint32_t parts) {
  Corpus corpus;
  for (std::uint32_t d = part; d < 400; d += parts) {
    corpus.documents.push_back(d);
    corpus.begin.push_back(corpus.tokens.size());
    corpus.tokens.insert(corpus.tokens.end(), d % 3, d);
  }
  corpus.begin.push_back(corpus.tokens.size());
  return corpus;
}

TEST(SplitTest, TheSameDocumentsAreHeldOutWhateverTheParts) {
  Corpus corpus = some_documents(0, 1);
  const SplitText whole = split(corpus, 0.25, 7);
  EXPECT_NEAR(static_cast<double>(whole.held_out.size()), 100, 40);
  EXPECT_EQ(whole.train.begin.size() - 1 + whole.held_out.size(), 400U);
  EXPECT_EQ(whole.train.begin.back(), whole.train.words.size());
  std::map<std::uint64_t, std::vector<std::uint32_t>> held_out;
  for (const std::uint32_t part : {0U, 1U, 2U}) {
    corpus = some_documents(part, 3);
    for (HeldOutDocument& one : split(corpus, 0.25, 7).held_out) held_out[one.index] = std::move(one.words);
  }
  EXPECT_EQ(held_out.size(), whole.held_out.size());
  for (const HeldOutDocument& one : whole.held_out) {
    EXPECT_EQ(held_out.at(one.index), one.words);
    EXPECT_EQ(one.words, std::vector<std::uint32_t>(one.index % 3, static_cast<std::uint32_t>(one.index)));
    EXPECT_EQ(std::count(whole.train.words.begin(), whole.train.words.end(), one.index), 0);
  }
  corpus = some_documents(0, 1);
  EXPECT_THAT(split(corpus, 0, 7).held_out, IsEmpty());
}

class WindowMakerTest : public ::testing::Test {
 protected:
  MiniBatch windows_of(std::uint64_t first, std::uint64_t last, const WindowOptions& options) {
    MiniBatch batch;
    WindowMaker(everything_, noise_, options).add(text_, first, last, random_, batch);
    return batch;
  }
  /// Two documents, with an empty one between them.
  Text text_{.words = {0, 1, 2, 3, 4, 5, 6, 7}, .begin = {0, 5, 5, 8}};
  Subsampling everything_{kCounts, 0};
  NoiseDistribution noise_{kCounts};
  Random random_{1, 0};
};

TEST_F(WindowMakerTest, WindowsEndWithTheDocument) {
  const MiniBatch batch = windows_of(0, 8, {.window = 2, .negatives = 0, .shrinks = false});
  EXPECT_THAT(batch.inputs, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_EQ(batch.outputs, batch.inputs);
  std::vector<std::array<std::uint32_t, 3>> windows;
  for (const Window& one : batch.windows) windows.push_back({one.first, one.middle, one.last});
  EXPECT_EQ(windows,
            (std::vector<std::array<std::uint32_t, 3>>{
                {0, 0, 3}, {0, 1, 4}, {0, 2, 5}, {1, 3, 5}, {2, 4, 5}, {5, 5, 8}, {5, 6, 8}, {5, 7, 8}}));
}

TEST_F(WindowMakerTest, PiecesAreCutOutAndAdded) {
  MiniBatch batch = windows_of(3, 7, {.window = 2, .negatives = 0, .shrinks = false});
  EXPECT_THAT(batch.inputs, ElementsAre(3, 4, 5, 6));
  ASSERT_EQ(batch.windows.size(), 4U);
  EXPECT_EQ(batch.windows[1].last, 2U);
  EXPECT_EQ(batch.windows[2].first, 2U);
  WindowMaker(everything_, noise_, {.window = 9, .negatives = 0, .shrinks = false})
      .add(text_, 0, 2, random_, batch);
  EXPECT_THAT(batch.inputs, ElementsAre(3, 4, 5, 6, 0, 1));
  ASSERT_EQ(batch.windows.size(), 6U);
  EXPECT_EQ(batch.windows[4].first, 4U);
  EXPECT_EQ(batch.windows[4].middle, 4U);
  EXPECT_EQ(batch.windows[4].last, 6U);
}

TEST_F(WindowMakerTest, AWordAloneHasNoWindow) {
  const MiniBatch batch = windows_of(4, 6, {.window = 2, .negatives = 5, .shrinks = false});
  EXPECT_THAT(batch.inputs, ElementsAre(4, 5));
  EXPECT_THAT(batch.windows, IsEmpty());
  EXPECT_THAT(batch.negatives, IsEmpty());
  EXPECT_THAT(windows_of(5, 5, {}).inputs, IsEmpty());
}

TEST_F(WindowMakerTest, WindowsShrinkEvenly) {
  text_.words.assign(30'000, 3);
  text_.begin = {0, 30'000};
  const MiniBatch batch = windows_of(0, 30'000, {.window = 3, .negatives = 0});
  std::map<std::uint32_t, int> pairs;
  for (std::size_t i = 3; i + 3 < batch.windows.size(); ++i) ++pairs[batch.windows[i].pairs()];
  ASSERT_EQ(pairs.size(), 3U);
  for (const std::uint32_t reach : {1U, 2U, 3U}) EXPECT_NEAR(pairs[2 * reach], 10'000, 500);
}

TEST_F(WindowMakerTest, WrongWordsAreNotTheMiddle) {
  text_.words.assign(1'000, 3);
  text_.begin = {0, 1'000};
  const MiniBatch batch = windows_of(0, 1'000, {.window = 2, .negatives = 10});
  EXPECT_EQ(std::count(batch.negatives.begin(), batch.negatives.end(), 3U), 0);
  EXPECT_EQ(batch.windows.back().negatives_end, batch.negatives.size());
  EXPECT_NEAR(static_cast<double>(batch.negatives.size()), 10'000 * 0.95, 150)
      << "negatives that are the word itself are left out, not drawn again";
}

TEST_F(WindowMakerTest, FrequentWordsAreLeftOut) {
  const std::vector<std::uint64_t> counts = {1'000'000, 10};
  text_.words.clear();
  for (int n = 0; n < 10'000; ++n) text_.words.insert(text_.words.end(), {0, 1});
  text_.begin = {0, text_.words.size()};
  const Subsampling subsampling(counts, 0.01);
  MiniBatch batch;
  WindowMaker(subsampling, noise_, {}).add(text_, 0, text_.words.size(), random_, batch);
  EXPECT_EQ(std::count(batch.inputs.begin(), batch.inputs.end(), 1U), 10'000);
  EXPECT_NEAR(static_cast<double>(std::count(batch.inputs.begin(), batch.inputs.end(), 0U)),
              10'000 * subsampling.share_kept(0), 200);
}

}  // namespace
}  // namespace verbena::apps::word2vec
