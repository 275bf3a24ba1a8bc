#include "apps/lda/training_data.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "apps/resuming/saved_state.hpp"

namespace verbena::apps::lda {
namespace {

constexpr const char* kBlocks = "blocks";
constexpr const char* kTopics = "topics";
constexpr const char* kListed = "listed_topics";
constexpr const char* kListSizes = "list_sizes";

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

nlohmann::json saved(const TrainingData& data) {
  std::vector<std::uint16_t> listed;
  std::vector<std::uint32_t> sizes;
  for (std::size_t document = 0; document < data.document_topics.documents(); ++document) {
    sizes.push_back(data.document_topics.size(document));
    data.document_topics.for_each(document, [&](std::size_t topic, std::int32_t /*count*/) {
      listed.push_back(static_cast<std::uint16_t>(topic));
    });
  }
  nlohmann::json state = nlohmann::json::object();
  state[kBlocks] = std::uint64_t{data.blocks.size() - 1};
  state[kTopics] = saved_array(std::span(data.topics));
  state[kListed] = saved_array(std::span(listed));
  state[kListSizes] = saved_array(std::span(sizes));
  return state;
}

absl::StatusOr<std::size_t> saved_blocks(const nlohmann::json& saved) {
  return SavedState(saved).whole_number(kBlocks);
}

absl::Status restore(const nlohmann::json& saved, TrainingData& data) {
  const SavedState state(saved);
  DocumentTopics& lists = data.document_topics;
  absl::StatusOr<std::vector<std::uint16_t>> topics = state.array<std::uint16_t>(kTopics, data.topics.size());
  if (!topics.ok()) return topics.status();
  const auto listed = state.array<std::uint16_t>(kListed);
  if (!listed.ok()) return listed.status();
  const auto sizes = state.array<std::uint32_t>(kListSizes, lists.documents());
  if (!sizes.ok()) return sizes.status();
  std::vector<std::size_t> begin = {0};  // of each document's list
  for (const std::uint32_t size : *sizes) begin.push_back(begin.back() + size);
  if (begin.back() != listed->size()) return wrong_state("the documents' topics have other sizes");
  // What is listed more often than it occurs, or occurs and is not listed, cannot be right: then all lists
  // have the room that they need.
  std::vector<std::int32_t> counts(listed->size(), 0);
  for (std::size_t token = 0; token < topics->size(); ++token) {
    const std::size_t document = data.documents[token];
    const auto first = listed->begin() + static_cast<std::ptrdiff_t>(begin[document]);
    const auto last = listed->begin() + static_cast<std::ptrdiff_t>(begin[document + 1]);
    const auto found = std::find(first, last, (*topics)[token]);
    if (found == last || *found >= lists.no_topic()) return wrong_state("a token has an impossible topic");
    ++counts[static_cast<std::size_t>(found - listed->begin())];
  }
  if (std::find(counts.begin(), counts.end(), 0) != counts.end())
    return wrong_state("a document lists a topic that it does not have");
  for (std::size_t document = 0; document < sizes->size(); ++document) {
    lists.set_list(document, std::span(*listed).subspan(begin[document], (*sizes)[document]),
                   std::span(counts).subspan(begin[document], (*sizes)[document]));
  }
  data.topics = *std::move(topics);
  return absl::OkStatus();
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
