#include "apps/lda/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "apps/lda/trainer.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::lda {

absl::Status for_each_row(std::size_t vocabulary, WordCounts& counts,
                          const std::function<void(Key, std::span<const std::int32_t>)>& use) {
  const std::size_t at_once = rows_at_once(counts.topics());
  std::vector<std::int32_t> rows;
  for (Key first = 0; first < vocabulary; first += at_once) {
    const KeyRange some{first, std::min<Key>(first + at_once, vocabulary)};
    rows.resize(some.size() * counts.topics());
    RETURN_IF_ERROR(counts.read(some, rows));
    for (Key word = some.first; word < some.last; ++word) {
      use(word, std::span(rows).subspan((word - first) * counts.topics(), counts.topics()));
    }
  }
  return absl::OkStatus();
}

void TopWords::add(Key word, std::span<const std::int32_t> row) {
  if (limit_ == 0) return;
  for (std::size_t k = 0; k < row.size(); ++k) {
    std::vector<Entry>& top = topics_[k];
    if (row[k] <= 0 || (top.size() == limit_ && row[k] <= top.back().count)) continue;
    if (top.size() == limit_) top.pop_back();
    const auto place = std::upper_bound(top.begin(), top.end(), row[k],
                                        [](std::int32_t count, const Entry& e) { return count > e.count; });
    top.insert(place, {row[k], word});
  }
}

std::vector<Key> TopWords::of(std::size_t topic) const {
  std::vector<Key> words;
  for (const Entry& entry : topics_[topic]) words.push_back(entry.word);
  return words;
}

std::string format_header(const ModelHeader& header, std::size_t vocabulary) {
  return fmt::format("# verbena lda 1\ttopics={}\talpha={}\tbeta={}\twords={}\ttokens={}\n", header.topics,
                     header.alpha, header.beta, vocabulary, header.tokens);
}

std::string format_row(const std::string& word, std::span<const std::int32_t> row) {
  fmt::memory_buffer line;
  fmt::format_to(std::back_inserter(line), "{}", word);
  char separator = '\t';
  for (std::size_t k = 0; k < row.size(); ++k) {
    if (row[k] == 0) continue;
    fmt::format_to(std::back_inserter(line), "{}{}:{}", separator, k, row[k]);
    separator = ' ';
  }
  line.push_back('\n');
  return fmt::to_string(line);
}

}  // namespace verbena::apps::lda
