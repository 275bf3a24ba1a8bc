#include "apps/lda/model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "apps/data/fields.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/numbers.hpp"
#include "apps/enough_memory.hpp"
#include "apps/lda/trainer.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::lda {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

struct Head {
  ModelHeader model;
  std::uint64_t words = 0;
};

/// nullopt: it is not what format_header() writes.
std::optional<Head> parse_head(std::string_view line) {
  constexpr std::array<std::string_view, 6> kNames = {
      "# verbena lda 1", "topics=", "alpha=", "beta=", "words=", "tokens="};
  std::array<std::string_view, kNames.size()> values;
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const std::string_view field = take_before(line, '\t');
    if (!field.starts_with(kNames[i])) return std::nullopt;
    values[i] = field.substr(kNames[i].size());
  }
  const auto topics = base::parse_decimal<std::size_t>(values[1]);
  const std::optional<double> alpha = parse_double(values[2]);
  const std::optional<double> beta = parse_double(values[3]);
  const auto words = base::parse_decimal<std::uint64_t>(values[4]);
  const auto tokens = base::parse_decimal<std::uint64_t>(values[5]);
  if (!values[0].empty() || !line.empty() || !topics || !alpha || !beta || !words || !tokens)
    return std::nullopt;
  if (*topics < 1 || *topics > kMaxTopics || !is_prior(*alpha) || !is_prior(*beta) || *words < 1 ||
      *tokens > std::uint64_t{kMostTokens}) {
    return std::nullopt;
  }
  return Head{.model = {.topics = *topics, .alpha = *alpha, .beta = *beta, .tokens = *tokens},
              .words = *words};
}

/// Reads the words, one a line, and their counts.
class RowReader {
 public:
  RowReader(std::string path, const Head& head, LineReader lines)
      : path_(std::move(path)), head_(head), lines_(std::move(lines)) {}

  absl::StatusOr<SavedModel> read() {
    std::string_view line;
    for (;;) {
      const absl::StatusOr<bool> more = lines_.next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (words_.size() == head_.words)
        return lines_.error(fmt::format("the end of the file after {} words, as line 1 says", head_.words),
                            line);
      RETURN_IF_ERROR(read_row(line));
    }
    if (words_.size() < head_.words) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: expected {} more words, as line 1 says, found the end of the file", path_,
                      lines_.line_number() + 1, head_.words - words_.size()));
    }
    if (tokens_ != head_.model.tokens) {
      return absl::InvalidArgumentError(
          fmt::format("{}:1: expected the counts of {} tokens, as this line says, found {}", path_,
                      head_.model.tokens, tokens_));
    }
    // Most counts are 0, and not in the file: a small file may need much memory.
    const double bytes =
        static_cast<double>(words_.size()) * static_cast<double>(head_.model.topics) * sizeof(std::int32_t) +
        static_cast<double>(entries_.size() * sizeof(Entry));
    RETURN_IF_ERROR(check_memory(
        bytes, fmt::format("{}: {} words and {} topics need", path_, words_.size(), head_.model.topics),
        "a smaller model"));
    LocalCounts counts(words_.size(), head_.model.topics);
    std::vector<Key> words(words_.size());
    for (Key word = 0; word < words.size(); ++word) words[word] = word;
    const absl::StatusOr<WordCounts::Rows> rows = counts.open(words);
    if (!rows.ok()) return rows.status();
    for (const auto& [word, topic, count] : entries_) {
      (*rows)[word][topic] = count;
      counts.totals()[topic] += count;
    }
    return SavedModel{.header = head_.model, .words = std::move(words_), .counts = std::move(counts)};
  }

 private:
  struct Entry {
    std::size_t word;
    std::size_t topic;
    std::int32_t count;
  };

  absl::Status read_row(std::string_view line) {
    const std::string_view whole = line;
    const std::string word(take_before(line, '\t'));
    if (word.empty() || !known_.insert(word).second) return lines_.error("another word", whole);
    const std::size_t first = entries_.size();
    while (!line.empty()) {
      std::string_view pair = take_before(line, ' ');
      const auto topic = base::parse_decimal<std::size_t>(take_before(pair, ':'));
      const auto count = base::parse_decimal<std::int32_t>(pair);
      const bool is_next = entries_.size() == first || (topic && *topic > entries_.back().topic);
      if (!topic || !count || *topic >= head_.model.topics || *count < 1 || !is_next) {
        return lines_.error(
            fmt::format("a word, a tab, and topic:count of rising topics below {}", head_.model.topics),
            whole);
      }
      entries_.push_back({words_.size(), *topic, *count});
      tokens_ += static_cast<std::uint64_t>(*count);
      // More than the first line may say cannot be counted.
      if (tokens_ > std::uint64_t{kMostTokens}) return lines_.error("counts of fewer tokens", whole);
    }
    words_.push_back(word);
    return absl::OkStatus();
  }

  std::string path_;
  Head head_;
  LineReader lines_;
  std::vector<std::string> words_;
  absl::flat_hash_set<std::string> known_;
  std::vector<Entry> entries_;  // line 1 may promise more words and topics than there is memory
  std::uint64_t tokens_ = 0;
};

}  // namespace

bool is_prior(double value) {
  return value >= kLeastPrior && value <= kMostPrior;
}

absl::StatusOr<SavedModel> load_model(const std::string& path) {
  absl::StatusOr<LineReader> lines = LineReader::open(path);
  if (!lines.ok()) return lines.status();
  std::string_view line;
  const absl::StatusOr<bool> more = lines->next(line);
  if (!more.ok()) return more.status();
  const std::optional<Head> head = parse_head(*more ? line : "");
  if (!head) {
    return lines->error("\"# verbena lda 1\", topics=, alpha=, beta=, words= and tokens=, separated by tabs",
                        *more ? line : "the end of the file");
  }
  return RowReader(path, *head, *std::move(lines)).read();
}

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
