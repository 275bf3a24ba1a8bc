#include "apps/data/bags_of_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/data/fields.hpp"
#include "apps/data/known_formats.hpp"
#include "apps/data/matrix_market.hpp"
#include "apps/data/numbers.hpp"
#include "apps/data/unicode.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

/// The largest count of one word in one document. It protects the memory if the file has a typing error.
constexpr std::uint64_t kMaxCount = (1U << 24U) - 1;

/// Exactly `size` numbers and nothing else.
template <std::size_t size>
std::optional<std::array<std::uint64_t, size>> parse_numbers(std::string_view line) {
  std::array<std::uint64_t, size> numbers = {};
  for (std::uint64_t& number : numbers) {
    const std::optional<std::uint64_t> parsed = base::parse_decimal<std::uint64_t>(next_field(line));
    if (!parsed) return std::nullopt;
    number = *parsed;
  }
  if (!next_field(line).empty()) return std::nullopt;
  return numbers;
}

struct IdCount {
  std::uint64_t id = 0;
  std::uint64_t count = 0;
};

/// "id:count"; a count of 0 means that the word does not occur.
std::optional<IdCount> parse_pair(std::string_view field) {
  const std::size_t colon = field.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<std::uint64_t> id = base::parse_decimal<std::uint64_t>(field.substr(0, colon));
  const std::optional<std::uint64_t> count = parse_count(field.substr(colon + 1));
  if (!id || !count || *count > kMaxCount) return std::nullopt;
  return IdCount{*id, *count};
}

/// One entry of a matrix of counts.
struct Entry {
  std::uint64_t document = 0;
  std::uint32_t word = 0;
  std::uint32_t count = 0;
};

void keep_entries(std::vector<Entry> entries, CorpusCollector& collector) {
  const auto by_document = [](const Entry& a, const Entry& b) { return a.document < b.document; };
  if (!std::is_sorted(entries.begin(), entries.end(), by_document)) {
    std::stable_sort(entries.begin(), entries.end(), by_document);
  }
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (i == 0 || entries[i].document != entries[i - 1].document) {
      collector.begin_document(entries[i].document, {});
    }
    collector.keep(entries[i].word, entries[i].count);
  }
}

absl::Status check_vocabulary(const LineReader& lines, std::uint64_t words,
                              const std::vector<std::string>& vocabulary) {
  if (vocabulary.empty() || words <= vocabulary.size()) return absl::OkStatus();
  return lines.error(
      fmt::format("a vocabulary of at most {} words, as the vocabulary file has", vocabulary.size()),
      fmt::format("{}", words));
}

struct UciHeader {
  std::uint64_t documents = 0;
  std::uint64_t words = 0;
  std::uint64_t entries = 0;
};

absl::StatusOr<UciHeader> read_uci_header(LineReader& lines, const std::vector<std::string>& vocabulary) {
  UciHeader header;
  const std::pair<std::uint64_t*, std::string_view> fields[] = {
      {&header.documents, "the number of documents"},
      {&header.words, "the size of the vocabulary"},
      {&header.entries, "the number of lines that follow"}};
  for (const auto& [number, expected] : fields) {
    std::string_view line;
    const absl::StatusOr<bool> more = lines.next(line);
    if (!more.ok()) return more.status();
    const auto parsed = *more ? parse_numbers<1>(line) : std::nullopt;
    if (!parsed) return lines.error(expected, *more ? line : "the end of the file");
    *number = parsed->front();
    if (number != &header.words) continue;
    RETURN_IF_ERROR(check_vocabulary(lines, header.words, vocabulary));
  }
  return header;
}

/// The next line with something in it.
absl::StatusOr<bool> next_filled(LineReader& lines, std::string_view& line) {
  while (true) {
    const absl::StatusOr<bool> more = lines.next(line);
    if (!more.ok() || !*more || !is_all_blank(line)) return more;
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> read_vocabulary(const std::string& path) {
  absl::StatusOr<LineReader> lines = LineReader::open(path);
  if (!lines.ok()) return lines.status();
  std::vector<std::string> words;
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = lines->next(line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    std::string_view rest = line;
    const std::string_view word = next_field(rest);
    if (word.empty() || !next_field(rest).empty() || !is_utf8(word)) {
      return lines->error("one word of UTF-8 in each line", line);
    }
    words.emplace_back(word);
  }
  if (words.empty()) return absl::InvalidArgumentError(fmt::format("{}:1: expected words, found none", path));
  return words;
}

std::string vocabulary_beside(const std::string& path) {
  std::string name = stem_of(path);
  constexpr std::string_view kPrefix = "docword";
  if (!name.starts_with(kPrefix)) return {};
  name.replace(0, kPrefix.size(), "vocab");
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const std::string& candidate : {name, name + ".gz"}) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(folder / candidate, ignored)) return (folder / candidate).string();
  }
  return {};
}

absl::Status read_uci(LineReader& lines, const std::vector<std::string>& vocabulary,
                      CorpusCollector& collector) {
  const absl::StatusOr<UciHeader> header = read_uci_header(lines, vocabulary);
  if (!header.ok()) return header.status();
  std::vector<Entry> kept;
  std::uint64_t entries = 0;
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = next_filled(lines, line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    const auto numbers = parse_numbers<3>(line);
    if (!numbers) return lines.error("document, word and count", line);
    const auto [document, id, count] = *numbers;
    if (document < 1 || document > header->documents) {
      return lines.error(fmt::format("a document from 1 to {}", header->documents), line);
    }
    if (id < 1 || id > header->words)
      return lines.error(fmt::format("a word from 1 to {}", header->words), line);
    if (count < 1 || count > kMaxCount)
      return lines.error(fmt::format("a count from 1 to {}", kMaxCount), line);
    const std::uint32_t word = collector.word(id, id - 1, vocabulary);
    collector.count(word, count);
    if (collector.keeps(document - 1))
      kept.push_back({document - 1, word, static_cast<std::uint32_t>(count)});
    ++entries;
  }
  if (entries != header->entries) {
    return lines.error(fmt::format("{} lines below the header, as line 3 says", header->entries),
                       fmt::format("{} at the end of the file", entries));
  }
  keep_entries(std::move(kept), collector);
  collector.set_total_documents(header->documents);
  return absl::OkStatus();
}

absl::Status read_matrix_market(LineReader& lines, const std::vector<std::string>& vocabulary,
                                CorpusCollector& collector) {
  absl::StatusOr<MatrixMarketReader> matrix = MatrixMarketReader::open(lines);
  if (!matrix.ok()) return matrix.status();
  RETURN_IF_ERROR(check_vocabulary(lines, matrix->columns(), vocabulary));
  std::vector<Entry> kept;
  MatrixMarketEntry entry;
  while (true) {
    const absl::StatusOr<bool> more = matrix->next(entry);
    if (!more.ok()) return more.status();
    if (!*more) break;
    const std::optional<std::uint64_t> count = matrix->is_pattern() ? 1 : parse_count(entry.value);
    if (!count || *count > kMaxCount) {
      return lines.error(fmt::format("a whole number from 0 to {} as the count", kMaxCount), entry.value);
    }
    if (*count == 0) continue;
    const std::uint32_t word = collector.word(entry.column, entry.column - 1, vocabulary);
    collector.count(word, *count);
    if (collector.keeps(entry.row - 1)) {
      kept.push_back({entry.row - 1, word, static_cast<std::uint32_t>(*count)});
    }
  }
  keep_entries(std::move(kept), collector);
  collector.set_total_documents(matrix->rows());
  return absl::OkStatus();
}

absl::Status read_lda_c(LineReader& lines, const std::vector<std::string>& vocabulary,
                        CorpusCollector& collector) {
  std::uint64_t documents = 0;
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = next_filled(lines, line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    std::string_view rest = line;
    const std::optional<std::uint64_t> size = base::parse_decimal<std::uint64_t>(next_field(rest));
    if (!size) return lines.error("the number of id:count pairs, then the pairs", line);
    const bool keep = collector.keeps(documents);
    if (keep) collector.begin_document(documents, {});
    std::uint64_t pairs = 0;
    for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest), ++pairs) {
      const std::optional<IdCount> pair = parse_pair(field);
      if (!pair || pair->count == 0) {
        return lines.error(fmt::format("id:count with a count from 1 to {}", kMaxCount), field);
      }
      if (!vocabulary.empty() && pair->id >= vocabulary.size()) {
        return lines.error(fmt::format("an id below {}, the size of the vocabulary", vocabulary.size()),
                           field);
      }
      const std::uint32_t word = collector.word(pair->id, pair->id, vocabulary);
      collector.count(word, pair->count);
      if (keep) collector.keep(word, pair->count);
    }
    if (pairs != *size) {
      return lines.error(fmt::format("{} id:count pairs, as the line begins", *size),
                         fmt::format("{} pairs", pairs));
    }
    ++documents;
  }
  collector.set_total_documents(documents);
  return absl::OkStatus();
}

absl::Status read_svm_light(LineReader& lines, const std::vector<std::string>& vocabulary,
                            CorpusCollector& collector) {
  std::uint64_t documents = 0;
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = next_filled(lines, line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    std::string_view rest = line.substr(0, line.find('#'));
    const std::string_view label = next_field(rest);
    if (label.empty()) continue;  // a comment
    if (label.find(':') != std::string_view::npos) return lines.error("a label, then id:count pairs", line);
    const bool keep = collector.keeps(documents);
    if (keep) collector.begin_document(documents, {});
    for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest)) {
      if (field.starts_with("qid:")) continue;
      const std::optional<IdCount> pair = parse_pair(field);
      if (!pair) {
        return lines.error(fmt::format("id:count with a whole number from 0 to {} as the count", kMaxCount),
                           field);
      }
      if (!vocabulary.empty() && (pair->id < 1 || pair->id > vocabulary.size())) {
        return lines.error(fmt::format("an id from 1 to {}, the size of the vocabulary", vocabulary.size()),
                           field);
      }
      if (pair->count == 0) continue;
      const std::uint32_t word = collector.word(pair->id, pair->id - 1, vocabulary);
      collector.count(word, pair->count);
      if (keep) collector.keep(word, pair->count);
    }
    ++documents;
  }
  collector.set_total_documents(documents);
  return absl::OkStatus();
}

absl::Status read_vowpal_wabbit(LineReader& lines, CorpusCollector& collector) {
  std::uint64_t documents = 0;
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = next_filled(lines, line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    std::size_t bar = line.find('|');
    if (bar == std::string_view::npos) return lines.error("label |namespace word:count …", line);
    const bool keep = collector.keeps(documents);
    if (keep) collector.begin_document(documents, {});
    while (bar != std::string_view::npos) {
      line.remove_prefix(bar + 1);
      bar = line.find('|');
      std::string_view rest = line.substr(0, bar);
      if (rest.find_first_of(kBlanks) != 0) next_field(rest);  // the namespace
      for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest)) {
        const std::size_t colon = field.rfind(':');
        const std::optional<std::uint64_t> count =
            colon == std::string_view::npos ? 1 : parse_count(field.substr(colon + 1));
        const std::string_view name = field.substr(0, colon);
        if (!count || *count > kMaxCount || name.empty() || !is_utf8(name)) {
          return lines.error(fmt::format("word or word:count, a whole number from 0 to {}", kMaxCount),
                             field);
        }
        if (*count == 0) continue;
        const std::uint32_t word = collector.word(name);
        collector.count(word, *count);
        if (keep) collector.keep(word, *count);
      }
    }
    ++documents;
  }
  collector.set_total_documents(documents);
  return absl::OkStatus();
}

}  // namespace verbena::apps
