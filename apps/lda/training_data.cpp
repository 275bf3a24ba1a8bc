#include "apps/lda/training_data.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace verbena::apps::lda {
namespace {

/// Documents that are trained, by their index in the corpus's part.
struct Split {
  std::vector<std::size_t> trained;
  std::vector<std::uint32_t> lengths;
  std::vector<HeldOutDocument> held_out;
};

Split split(const Corpus& corpus, const SplitOptions& options) {
  Split result;
  for (std::size_t d = 0; d < corpus.documents.size(); ++d) {
    const auto first = corpus.tokens.begin() + static_cast<std::ptrdiff_t>(corpus.begin[d]);
    const auto last = corpus.tokens.begin() + static_cast<std::ptrdiff_t>(corpus.begin[d + 1]);
    if (is_held_out(options, corpus.documents[d])) {
      result.held_out.push_back(halve({first, last}, options.seed, corpus.documents[d]));
    } else {
      result.trained.push_back(d);
      result.lengths.push_back(static_cast<std::uint32_t>(last - first));
    }
  }
  return result;
}

/// The order of a document's tokens must not matter to the model.
void sort_tokens(Corpus& corpus) {
  for (std::size_t d = 0; d < corpus.documents.size(); ++d) {
    std::sort(corpus.tokens.begin() + static_cast<std::ptrdiff_t>(corpus.begin[d]),
              corpus.tokens.begin() + static_cast<std::ptrdiff_t>(corpus.begin[d + 1]));
  }
}

std::vector<std::uint64_t> count_words(const Corpus& corpus, const Split& split) {
  std::vector<std::uint64_t> counts(corpus.vocabulary.size(), 0);
  for (const std::size_t d : split.trained) {
    for (std::uint64_t t = corpus.begin[d]; t < corpus.begin[d + 1]; ++t) ++counts[corpus.tokens[t]];
  }
  return counts;
}

}  // namespace

bool is_held_out(const SplitOptions& options, std::uint64_t document) {
  if (options.held_out <= 0) return false;
  return to_unit_interval(random_stream(options.seed, ~document)()) < options.held_out;
}

HeldOutDocument halve(std::span<const std::uint32_t> tokens, std::uint64_t seed, std::uint64_t document) {
  // Selection sampling: all choices of `to_predict` tokens are equally likely (Knuth, volume 2, 3.4.2).
  Random random(mix(seed), document);
  std::size_t to_predict = tokens.size() / 2;
  HeldOutDocument result;
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    const bool is_predicted = random_below(random, tokens.size() - t) < to_predict;
    (is_predicted ? result.predicted : result.given).push_back(tokens[t]);
    if (is_predicted) --to_predict;
  }
  return result;
}

TrainingData lay_out(Corpus& corpus, const SplitOptions& options, Random& random) {
  sort_tokens(corpus);
  Split parts = split(corpus, options);
  const std::vector<std::uint64_t> frequency = count_words(corpus, parts);
  const std::uint64_t tokens = std::accumulate(frequency.begin(), frequency.end(), std::uint64_t{0});
  TrainingData data{.words = {},
                    .blocks = {},
                    .begin = {0},
                    .documents = std::vector<std::uint32_t>(tokens),
                    .topics = std::vector<std::uint16_t>(tokens),
                    .document_topics = DocumentTopics(parts.lengths, options.topics),
                    .held_out = std::move(parts.held_out)};
  std::vector<std::uint64_t> next(frequency.size());  // places of each word's tokens
  for (std::size_t block = 0; block < options.blocks; ++block) {
    data.blocks.push_back(data.words.size());
    for (std::size_t word = 0; word < frequency.size(); ++word) {
      if (frequency[word] == 0 || block_of(word, options.blocks) != block) continue;
      data.words.push_back(word);
      next[word] = data.begin.back();
      data.begin.push_back(data.begin.back() + frequency[word]);
    }
  }
  data.blocks.push_back(data.words.size());

  std::vector<std::int32_t> counts(options.topics);
  for (std::size_t document = 0; document < parts.trained.size(); ++document) {
    const std::size_t d = parts.trained[document];
    std::fill(counts.begin(), counts.end(), 0);
    for (std::uint64_t t = corpus.begin[d]; t < corpus.begin[d + 1]; ++t) {
      const std::uint64_t place = next[corpus.tokens[t]]++;
      const std::uint32_t topic = random_below_32(random, options.topics);
      data.documents[place] = static_cast<std::uint32_t>(document);
      data.topics[place] = static_cast<std::uint16_t>(topic);
      ++counts[topic];
    }
    data.document_topics.set(document, counts);
  }
  std::vector<std::uint32_t>().swap(corpus.tokens);
  return data;
}

}  // namespace verbena::apps::lda
