#include "apps/data/corpus_collector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "apps/data/tokenizer.hpp"

namespace verbena::apps {
namespace {

constexpr std::uint32_t kDropped = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void CorpusCollector::begin_document(std::uint64_t document, std::string_view title) {
  corpus_.documents.push_back(document);
  corpus_.titles.emplace_back(title);
  corpus_.begin.push_back(corpus_.tokens.size());
}

std::uint32_t CorpusCollector::word(std::string_view text) {
  const auto found = by_text_.find(text);
  if (found != by_text_.end()) return found->second;
  return by_text_.emplace(text, add_word(std::string(text))).first->second;
}

std::uint32_t CorpusCollector::word(std::uint64_t id, std::uint64_t index,
                                    const std::vector<std::string>& vocabulary) {
  const auto [found, is_new] = by_id_.try_emplace(id, 0);
  if (is_new) {
    found->second = add_word(index < vocabulary.size() ? vocabulary[index] : fmt::format("word{}", id));
  }
  return found->second;
}

Corpus CorpusCollector::finish(const std::unordered_set<std::string>& stop_words) {
  corpus_.begin.push_back(corpus_.tokens.size());
  drop_and_renumber(rank_words(stop_words));
  return std::move(corpus_);
}

std::uint32_t CorpusCollector::add_word(std::string text) {
  words_.push_back(std::move(text));
  counts_.push_back(0);
  return static_cast<std::uint32_t>(words_.size() - 1);
}

std::vector<std::uint32_t> CorpusCollector::rank_words(const std::unordered_set<std::string>& stop_words) {
  std::vector<std::uint32_t> order(words_.size());
  std::iota(order.begin(), order.end(), 0U);
  Tokenizer tokenizer(options_.tokens);
  // A vocabulary may spell a word differently from a list of stop words.
  const auto is_stop_word = [&](const std::string& word) {
    return !stop_words.empty() &&
           (stop_words.contains(word) || stop_words.contains(tokenizer.vocabulary_form(word)));
  };
  std::erase_if(order, [&](std::uint32_t word) {
    return counts_[word] < options_.min_count || is_stop_word(words_[word]);
  });
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return counts_[a] != counts_[b] ? counts_[a] > counts_[b] : words_[a] < words_[b];
  });
  std::vector<std::uint32_t> final_ids(words_.size(), kDropped);
  for (std::uint32_t id = 0; id < order.size(); ++id) {
    final_ids[order[id]] = id;
    corpus_.vocabulary.push_back(std::move(words_[order[id]]));
    corpus_.counts.push_back(counts_[order[id]]);
    corpus_.total_tokens += counts_[order[id]];
  }
  return final_ids;
}

void CorpusCollector::drop_and_renumber(const std::vector<std::uint32_t>& final_ids) {
  std::uint64_t kept = 0;
  for (std::size_t document = 0; document < corpus_.documents.size(); ++document) {
    const std::uint64_t first = std::exchange(corpus_.begin[document], kept);
    for (std::uint64_t token = first; token < corpus_.begin[document + 1]; ++token) {
      const std::uint32_t id = final_ids[corpus_.tokens[token]];
      if (id != kDropped) corpus_.tokens[kept++] = id;
    }
  }
  corpus_.begin.back() = kept;
  corpus_.tokens.resize(kept);
}

}  // namespace verbena::apps
