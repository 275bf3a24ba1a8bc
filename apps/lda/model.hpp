// A trained topic model in a form for people: its top words, and a text file.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/lda/word_counts.hpp"

namespace verbena::apps::lda {

/// Calls use(word, row) for each word of the vocabulary in order, reading some rows at a time.
absl::Status for_each_row(std::size_t vocabulary, WordCounts& counts,
                          const std::function<void(Key word, std::span<const std::int32_t> row)>& use);

/// The words with the largest counts of each topic, largest first; ties: the more frequent word first.
class TopWords {
 public:
  TopWords(std::size_t topics, std::size_t limit) : limit_(limit), topics_(topics) {}
  /// Words must come in ascending order.
  void add(Key word, std::span<const std::int32_t> row);
  [[nodiscard]] std::vector<Key> of(std::size_t topic) const;

 private:
  struct Entry {
    std::int32_t count;
    Key word;
  };
  std::size_t limit_;
  std::vector<std::vector<Entry>> topics_;  // sorted
};

/// Single precision must tell count + prior from count.
inline constexpr double kLeastPrior = 1e-6;
inline constexpr double kMostPrior = 1e6;
bool is_prior(double value);

struct ModelHeader {
  std::size_t topics = 0;
  double alpha = 0;
  double beta = 0;
  std::uint64_t tokens = 0;
};

std::string format_header(const ModelHeader& header, std::size_t vocabulary);
/// "word<TAB>topic:count topic:count …", topics ascending, only those that have tokens.
std::string format_row(const std::string& word, std::span<const std::int32_t> row);

struct SavedModel {
  ModelHeader header;
  std::vector<std::string> words;
  LocalCounts counts;
};
/// Reads what format_header() and format_row() have written. NOT_FOUND; INVALID_ARGUMENT "file:line: what was
/// expected, what was found".
absl::StatusOr<SavedModel> load_model(const std::string& path);

}  // namespace verbena::apps::lda
