#include "apps/lda/kernel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace verbena::apps::lda {
namespace {

/// Calls a function with each instruction set of this processor. Restores the choice at the end.
class ForEachTarget {
 public:
  ~ForEachTarget() { hwy::SetSupportedTargetsForTest(0); }
  template <class Use>
  void run(const Use& use) {
    std::int64_t targets = hwy::SupportedTargets();
    ASSERT_NE(targets, 0);
    for (; targets != 0; targets &= targets - 1) {
      const std::int64_t target = targets & -targets;
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(target);
      SCOPED_TRACE(hwy::TargetName(target));
      use();
    }
  }
};

/// A document with some tokens. One of them is sampled again and again.
struct Setting {
  std::size_t topics = 0;
  Priors priors;
  std::vector<std::int32_t> row;       // counts of the word, by topic, with the token
  std::vector<std::int32_t> totals;    // counts of all tokens, by topic
  std::vector<std::int32_t> document;  // counts of the document, by topic, with the token
  std::uint16_t topic = 0;             // the token's

  [[nodiscard]] std::vector<double> conditional(std::size_t vocabulary) const {
    std::vector<double> p(topics);
    for (std::size_t k = 0; k < topics; ++k) {
      const int self = k == topic ? 1 : 0;
      p[k] = (document[k] - self + double{priors.alpha}) *
             (std::max(row[k], 0) - self + double{priors.beta}) /
             (totals[k] - self + static_cast<double>(vocabulary) * double{priors.beta});
    }
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& value : p) value /= sum;
    return p;
  }
};

constexpr std::size_t kVocabulary = 1000;

Setting random_setting(std::size_t topics, std::uint64_t seed, std::int32_t document_length,
                       std::int32_t word_count) {
  std::mt19937_64 random(seed);
  Setting setting{.topics = topics,
                  .priors = {.alpha = 0.1F, .beta = 0.01F},
                  .row = std::vector<std::int32_t>(topics, 0),
                  .totals = std::vector<std::int32_t>(topics, 0),
                  .document = std::vector<std::int32_t>(topics, 0)};
  for (std::int32_t& total : setting.totals) total = static_cast<std::int32_t>(random() % 500 + 100);
  setting.topic = static_cast<std::uint16_t>(random() % topics);
  for (std::int32_t i = 0; i < document_length; ++i) ++setting.document[random() % topics];
  for (std::int32_t i = 0; i < word_count; ++i) ++setting.row[random() % topics];
  ++setting.document[setting.topic];
  ++setting.row[setting.topic];
  setting.totals[setting.topic] += word_count;
  return setting;
}

std::vector<double> sampled(const Setting& setting, int draws) {
  const std::uint32_t lengths[] = {static_cast<std::uint32_t>(
      std::accumulate(setting.document.begin(), setting.document.end(), std::int32_t{0}))};
  Sampler sampler(setting.topics, kVocabulary, setting.priors, random_stream(5, 0));
  std::vector<double> frequency(setting.topics, 0);
  for (int draw = 0; draw < draws; ++draw) {
    DocumentTopics documents(lengths, setting.topics);
    documents.set(0, setting.document);
    std::vector<std::int32_t> row = setting.row;
    std::vector<std::int32_t> totals = setting.totals;
    sampler.set_totals(totals);
    const std::uint32_t document = 0;
    std::uint16_t topic = setting.topic;
    sampler.sample(row.data(), {std::span(&document, 1), std::span(&topic, 1)}, documents);
    ++frequency.at(topic);
  }
  return frequency;
}

/// Pearson's chi-squared statistic, standardized. Rare topics are counted together.
double deviation(const std::vector<double>& frequency, const std::vector<double>& probability, int draws) {
  double statistic = 0;
  double rare_expected = 0;
  double rare_found = 0;
  int cells = 0;
  const auto add = [&](double expected, double found) {
    if (expected == 0) return;
    statistic += (found - expected) * (found - expected) / expected;
    ++cells;
  };
  for (std::size_t k = 0; k < probability.size(); ++k) {
    const double expected = probability[k] * draws;
    if (expected >= 10) {
      add(expected, frequency[k]);
    } else {
      rare_expected += expected;
      rare_found += frequency[k];
    }
  }
  if (rare_expected >= 1) add(rare_expected, rare_found);
  return (statistic - (cells - 1)) / std::sqrt(2.0 * std::max(cells - 1, 1));
}

class ConditionalTest : public ::testing::TestWithParam<std::size_t> {};

TEST_P(ConditionalTest, IsWhatIsDrawnOnEveryInstructionSet) {
  const std::size_t topics = GetParam();
#ifdef VERBENA_SANITIZED
  constexpr int kDraws = 1'000;
#else
  constexpr int kDraws = 20'000;
#endif
  const std::pair<std::int32_t, std::int32_t> sizes[] = {{0, 0}, {3, 5}, {40, 300}, {900, 20}, {0, 400}};
  for (const auto& size : sizes) {
    const std::int32_t document_length = size.first;
    const std::int32_t word_count = size.second;
    const Setting setting = random_setting(topics, topics, document_length, word_count);
    const std::vector<double> expected = setting.conditional(kVocabulary);
    std::vector<double> first;
    ForEachTarget().run([&] {
      const std::vector<double> frequency = sampled(setting, kDraws);
      EXPECT_LT(deviation(frequency, expected, kDraws), 5) << document_length << ' ' << word_count;
      if (first.empty()) first = frequency;
      EXPECT_EQ(frequency, first) << "draws must not depend on the instruction set";
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Topics, ConditionalTest, ::testing::Values(1, 2, 15, 16, 17, 50, 256, 300),
                         ::testing::PrintToStringParamName());

TEST(ConditionalTest, IsWhatIsDrawnFromAHighTree) {
#ifdef VERBENA_SANITIZED
  constexpr int kDraws = 100;
#else
  constexpr int kDraws = 1'000;
#endif
  for (const std::size_t topics : {std::size_t{4'100}, kMaxTopics}) {
    Setting setting = random_setting(topics, 3, 2, 0);
    // A few topics, at the ends of the blocks of the tree's levels, have nearly all of the probability.
    const std::size_t chosen[] = {0, 15, 16, 255, 256, 4'095, 4'096, topics - 1};
    for (const std::size_t k : chosen) setting.row[k] = static_cast<std::int32_t>(100'000 + k);
    setting.document.assign(topics, 0);
    setting.document[setting.topic] = 1;
    ForEachTarget().run([&] {
      EXPECT_LT(deviation(sampled(setting, kDraws), setting.conditional(kVocabulary), kDraws), 5) << topics;
    });
  }
}

TEST(SamplerTest, NegativeCountsOfAStaleReadAreZero) {
  Setting setting = random_setting(20, 1, 5, 5);
  setting.row[3] = setting.topic == 3 ? setting.row[3] : -2;
  setting.row[7] = setting.topic == 7 ? setting.row[7] : -1;
  EXPECT_LT(deviation(sampled(setting, 20'000), setting.conditional(kVocabulary), 20'000), 5);
  setting.totals.assign(20, -5);
  setting.row.assign(20, -5);
  const std::vector<double> frequency = sampled(setting, 100);
  EXPECT_EQ(std::accumulate(frequency.begin(), frequency.end(), 0.0), 100);
}

/// A generator whose next number is so large that the share of a sum that it selects is only just below the
/// sum.
Random before_the_largest_share() {
  for (Random random = random_stream(1, 0);;) {
    const Random before = random;
    if (random() >> 40U == 0xffffffU) return before;
  }
}

TEST(SamplerTest, RoundingDrawsNoTopicThatThereIsNot) {
  const Random random = before_the_largest_share();
  ForEachTarget().run([&] {
    for (const std::size_t topics : {3U, 7U, 11U}) {
      for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        Setting setting = random_setting(topics, seed, 200, 200);
        setting.priors.alpha = 1e-20F;  // only topics that the document has are drawn
        const std::uint32_t length[] = {201};
        DocumentTopics documents(length, topics);
        documents.set(0, setting.document);
        const std::int32_t total = std::accumulate(setting.totals.begin(), setting.totals.end(), 0);
        Sampler sampler(topics, kVocabulary, setting.priors, random);
        sampler.set_totals(setting.totals);
        // Room for a topic beyond the last one, should it be drawn.
        setting.row.resize(topics + 1);
        const std::uint32_t document = 0;
        sampler.sample(setting.row.data(), {std::span(&document, 1), std::span(&setting.topic, 1)},
                       documents);
        ASSERT_LT(setting.topic, topics) << seed;
        ASSERT_EQ(std::accumulate(setting.totals.begin(), setting.totals.end(), 0), total);
      }
    }
  });
}

/// Documents of random lengths with all words of a small vocabulary. The counts must stay those of the
/// tokens.
TEST(SamplerTest, KeepsAllCountsInStep) {
  ForEachTarget().run([&] {
    constexpr std::size_t kDocuments = 50;
    constexpr std::size_t kWords = 20;
    const std::size_t topics = 40;
    std::mt19937_64 random(9);
    std::vector<std::vector<std::uint32_t>> documents_of(kWords);
    std::vector<std::uint32_t> lengths(kDocuments, 0);
    for (int token = 0; token < 6'000; ++token) {
      const auto document =
          static_cast<std::uint32_t>(std::min(random() % kDocuments, random() % kDocuments));
      documents_of[random() % kWords].push_back(document);
      ++lengths[document];
    }
    std::vector<std::vector<std::uint16_t>> topics_of(kWords);
    std::vector<std::vector<std::int32_t>> rows(kWords, std::vector<std::int32_t>(topics, 0));
    std::vector<std::vector<std::int32_t>> counts(kDocuments, std::vector<std::int32_t>(topics, 0));
    std::vector<std::int32_t> totals(topics, 0);
    const auto count_all = [&] {
      for (std::size_t word = 0; word < kWords; ++word) {
        for (std::size_t i = 0; i < topics_of[word].size(); ++i) {
          const std::uint16_t topic = topics_of[word][i];
          rows[word][topic] += 1;
          counts[documents_of[word][i]][topic] += 1;
          totals[topic] += 1;
        }
      }
    };
    for (std::size_t word = 0; word < kWords; ++word) {
      for (std::size_t i = 0; i < documents_of[word].size(); ++i) {
        topics_of[word].push_back(static_cast<std::uint16_t>(random() % topics));
      }
    }
    count_all();
    DocumentTopics documents(lengths, topics);
    for (std::size_t d = 0; d < kDocuments; ++d) documents.set(d, counts[d]);
    Sampler sampler(topics, kWords, {.alpha = 0.1F, .beta = 0.5F}, random_stream(1, 0));
    for (int iteration = 0; iteration < 20; ++iteration) {
      const std::vector<std::vector<std::uint16_t>> before = topics_of;
      sampler.set_totals(totals);
      for (std::size_t word = 0; word < kWords; ++word) {
        sampler.sample(rows[word].data(), {documents_of[word], topics_of[word]}, documents);
      }
      EXPECT_NE(before, topics_of);
      for (auto& row : counts) std::fill(row.begin(), row.end(), 0);
      std::vector<std::vector<std::int32_t>> expected_rows(kWords, std::vector<std::int32_t>(topics, 0));
      std::vector<std::int32_t> expected_totals(topics, 0);
      for (std::size_t word = 0; word < kWords; ++word) {
        for (std::size_t i = 0; i < topics_of[word].size(); ++i) {
          const std::uint16_t topic = topics_of[word][i];
          ASSERT_LT(topic, topics);
          ++expected_rows[word][topic];
          ++counts[documents_of[word][i]][topic];
          ++expected_totals[topic];
        }
      }
      ASSERT_EQ(rows, expected_rows);
      ASSERT_EQ(totals, expected_totals);
      for (std::size_t d = 0; d < kDocuments; ++d) {
        std::vector<std::int32_t> found(topics, 0);
        documents.for_each(d, [&](std::size_t topic, std::int32_t count) {
          EXPECT_GT(count, 0);
          EXPECT_EQ(found[topic], 0) << "listed twice";
          found[topic] = count;
        });
        ASSERT_EQ(found, counts[d]);
      }
    }
  });
}

TEST(RandomTest, StreamsDifferAndBelowIsUniform) {
  Random a = random_stream(1, 0);
  Random b = random_stream(1, 1);
  Random c = random_stream(2, 0);
  EXPECT_NE(a(), b());
  EXPECT_NE(a(), c());
  std::vector<double> frequency(7, 0);
  for (int i = 0; i < 70'000; ++i) ++frequency.at(random_below_32(a, 7));
  EXPECT_LT(deviation(frequency, std::vector<double>(7, 1.0 / 7), 70'000), 5);
}

}  // namespace
}  // namespace verbena::apps::lda
