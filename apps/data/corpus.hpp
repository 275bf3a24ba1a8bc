// Documents as sequences of word ids, for topic models.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/data/tokenizer.hpp"

namespace verbena::apps {

/// Called now and then while a large file is read; done ≤ total, in bytes of the file as stored (compressed).
using ReadProgress = std::function<void(double done, double total)>;

/// The documents of one part of a corpus, with the vocabulary and the counts of the whole.
struct Corpus {
  std::vector<std::string> vocabulary;   ///< of all parts, so that word ids agree between workers
  std::vector<std::uint64_t> counts;     ///< of each word, in all parts
  std::vector<std::uint64_t> documents;  ///< index in the whole corpus, of each document of this part
  std::vector<std::string> titles;  ///< of this part's documents; empty strings where the format has none
  std::vector<std::uint64_t>
      begin;  ///< document d is tokens[begin[d], begin[d + 1]); begin.size() == documents.size() + 1
  std::vector<std::uint32_t> tokens;  ///< word ids, in the order of the text
  std::uint64_t total_documents = 0;
  std::uint64_t total_tokens = 0;  ///< without the words that were dropped
  std::string format;              ///< how the file was read, for people
};

struct CorpusOptions {
  std::string path;                ///< format by content and name: see docs/data.md; gzip of any
  Tokens tokens = Tokens::kWords;  ///< of running text and of stop words
  std::string vocabulary;  ///< vocab.*.txt for bag-of-words formats; empty: beside docword.*.txt if it is
                           ///< there, else "word17"
  std::string stop_words = "none";  ///< see read_stop_words()
  std::uint64_t min_count = 1;      ///< drop words that are rarer in the whole corpus
  bool needs_order = false;         ///< a bag of words, which has no order, is refused
  std::uint32_t part = 0;  ///< this part: documents i with i mod parts == part; none if part == parts
  std::uint32_t parts = 1;
};

/// Streams the file once, keeping only this part's tokens. The same file and options give the same
/// ids in every process. Word ids are by falling frequency, ties by the word. Errors: NOT_FOUND;
/// INVALID_ARGUMENT "file:line: what was expected, what was found".
absl::StatusOr<Corpus> read_corpus(const CorpusOptions& options, const ReadProgress& progress = {});

}  // namespace verbena::apps
