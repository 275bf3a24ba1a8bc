#include "apps/lda/likelihood.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

namespace verbena::apps::lda {
namespace {

/// By the chain rule: the sum of the logarithms of each token's predictive probability, given the tokens
/// before it.
double by_chain_rule(const std::vector<std::vector<std::pair<std::size_t, std::size_t>>>& documents,
                     std::size_t topics, std::size_t vocabulary, double alpha, double beta) {
  std::vector<std::vector<int>> words(topics, std::vector<int>(vocabulary, 0));
  std::vector<int> totals(topics, 0);
  double sum = 0;
  for (const auto& document : documents) {
    std::vector<int> counts(topics, 0);
    int length = 0;
    for (const auto& [word, topic] : document) {
      sum += std::log((counts[topic] + alpha) / (length + static_cast<double>(topics) * alpha));
      sum += std::log((words[topic][word] + beta) / (totals[topic] + static_cast<double>(vocabulary) * beta));
      ++counts[topic];
      ++length;
      ++words[topic][word];
      ++totals[topic];
    }
  }
  return sum;
}

TEST(LikelihoodTest, IsTheProductOfPredictiveProbabilities) {
  constexpr std::size_t kTopics = 5;
  constexpr std::size_t kFewWords = 9;
  constexpr double kAlpha = 0.3;
  constexpr double kBeta = 0.07;
  std::mt19937_64 random(4);
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> documents(30);
  std::vector<std::int32_t> rows(kTopics * kFewWords, 0);
  std::vector<std::int32_t> totals(kTopics, 0);
  std::vector<std::vector<std::int32_t>> counts(documents.size(), std::vector<std::int32_t>(kTopics, 0));
  std::vector<std::uint32_t> lengths;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    for (std::uint64_t n = random() % 600; n > 0; --n) {
      const std::size_t word = random() % kFewWords;
      const std::size_t topic = (word + random() % 2) % kTopics;
      documents[d].emplace_back(word, topic);
      ++rows[word * kTopics + topic];
      ++totals[topic];
      ++counts[d][topic];
    }
    lengths.push_back(static_cast<std::uint32_t>(documents[d].size()));
  }
  documents.emplace_back();
  lengths.push_back(0);
  DocumentTopics document_topics(lengths, kTopics);
  for (std::size_t d = 0; d < counts.size(); ++d) document_topics.set(d, counts[d]);

  const Likelihood likelihood(kTopics, kFewWords, kAlpha, kBeta);
  const double found =
      likelihood.of_totals(totals) + likelihood.of_words(rows) + likelihood.of_documents(document_topics);
  const double expected = by_chain_rule(documents, kTopics, kFewWords, kAlpha, kBeta);
  EXPECT_NEAR(found, expected, 1e-9 * std::abs(expected));
}

TEST(LogGammaRatioTest, IsTheSameWithinAndBeyondItsTable) {
  const LogGammaRatio ratio(0.01);
  double sum = 0;
  for (std::int32_t n = 0; n < 10'000; ++n) {
    ASSERT_NEAR(ratio(n), sum, 1e-9 * std::max(1.0, std::abs(sum))) << n;
    sum += std::log(n + 0.01);
  }
}

}  // namespace
}  // namespace verbena::apps::lda
