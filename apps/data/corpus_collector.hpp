// Where the readers of documents put what they find.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "apps/data/corpus.hpp"

namespace verbena::apps {

/// Collects one part of a corpus; word ids are by first appearance until finish() knows the frequencies.
class CorpusCollector {
 public:
  /// `options` must outlive it.
  explicit CorpusCollector(const CorpusOptions& options) : options_(options) {}

  /// Whether the document, by its index in the file, belongs to this part.
  [[nodiscard]] bool keeps(std::uint64_t document) const {
    return document % options_.parts == options_.part;
  }
  void begin_document(std::uint64_t document, std::string_view title);
  std::uint32_t word(std::string_view text);
  /// The word that a bag-of-words file calls `id`; `index` is its line in the vocabulary, from 0.
  std::uint32_t word(std::uint64_t id, std::uint64_t index, const std::vector<std::string>& vocabulary);
  void count(std::uint32_t word, std::uint64_t count) { counts_[word] += count; }
  void keep(std::uint32_t word, std::uint64_t count) {
    corpus_.tokens.insert(corpus_.tokens.end(), count, word);
  }
  void set_total_documents(std::uint64_t documents) { corpus_.total_documents = documents; }

  Corpus finish(const std::unordered_set<std::string>& stop_words);

 private:
  struct StringHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  std::uint32_t add_word(std::string text);
  /// Returns the final ids by provisional ones, and makes the vocabulary.
  std::vector<std::uint32_t> rank_words(const std::unordered_set<std::string>& stop_words);
  void drop_and_renumber(const std::vector<std::uint32_t>& final_ids);

  const CorpusOptions& options_;
  Corpus corpus_;
  std::vector<std::string> words_;
  std::vector<std::uint64_t> counts_;
  std::unordered_map<std::string, std::uint32_t, StringHash, std::equal_to<>> by_text_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_id_;
};

}  // namespace verbena::apps
