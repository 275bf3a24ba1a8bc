#include "apps/data/corpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "apps/data/line_reader.hpp"
#include "apps/data/stop_words.hpp"
#include "apps/data/tokenizer.hpp"

namespace verbena::apps {
namespace {

enum class CorpusFormat : std::uint8_t { kText, kUci, kLdaC };

constexpr std::uint32_t kDropped = std::numeric_limits<std::uint32_t>::max();
/// Of one word in one document: guards the memory against a slip of the pen.
constexpr std::uint64_t kMaxCount = (1U << 24U) - 1;
constexpr std::size_t kDetectionLines = 3;

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return number;
}

/// Takes the next field, between blanks, off the front of `text`; empty at its end.
std::string_view next_field(std::string_view& text) {
  constexpr std::string_view kBlanks = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  const std::string_view field = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(field.size());
  return field;
}

/// Exactly `size` numbers and nothing else.
template <std::size_t size>
std::optional<std::array<std::uint64_t, size>> parse_numbers(std::string_view line) {
  std::array<std::uint64_t, size> numbers = {};
  for (std::uint64_t& number : numbers) {
    const std::optional<std::uint64_t> parsed = parse_number(next_field(line));
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

/// "id:count"
std::optional<IdCount> parse_pair(std::string_view field) {
  const std::size_t colon = field.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::optional<std::uint64_t> id = parse_number(field.substr(0, colon));
  const std::optional<std::uint64_t> count = parse_number(field.substr(colon + 1));
  if (!id || !count || *count == 0 || *count > kMaxCount) return std::nullopt;
  return IdCount{*id, *count};
}

bool looks_like_lda_c(std::string_view line) {
  const std::optional<std::uint64_t> pairs = parse_number(next_field(line));
  return pairs && *pairs > 0 && parse_pair(next_field(line));
}

std::string stem_of(const std::string& path) {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  return name.extension() == ".gz" ? name.stem().string() : name.string();
}

absl::StatusOr<CorpusFormat> detect_format(const std::string& path) {
  absl::StatusOr<LineReader> reader = LineReader::open(path);
  if (!reader.ok()) return reader.status();
  const std::string stem = stem_of(path);
  if (stem.starts_with("docword")) return CorpusFormat::kUci;
  if (stem.ends_with(".ldac") || stem.ends_with(".lda-c")) return CorpusFormat::kLdaC;
  std::size_t header_lines = 0;
  std::string_view line;
  for (std::size_t i = 0; i < kDetectionLines; ++i) {
    const absl::StatusOr<bool> more = reader->next(line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (i == 0 && looks_like_lda_c(line)) return CorpusFormat::kLdaC;
    if (parse_numbers<1>(line)) ++header_lines;
  }
  return header_lines == kDetectionLines ? CorpusFormat::kUci : CorpusFormat::kText;
}

absl::StatusOr<std::vector<std::string>> read_vocabulary(const std::string& path) {
  absl::StatusOr<LineReader> reader = LineReader::open(path);
  if (!reader.ok()) return reader.status();
  std::vector<std::string> words;
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = reader->next(line);
    if (!more.ok()) return more.status();
    if (!*more) return words;
    std::string_view rest = line;
    const std::string_view word = next_field(rest);
    if (word.empty() || !next_field(rest).empty()) return reader->error("one word in each line", line);
    words.emplace_back(word);
  }
}

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

/// Collects one part of a corpus; word ids are by first appearance until finish() knows the frequencies.
class Collector {
 public:
  explicit Collector(const CorpusOptions& options) : options_(options) {}

  [[nodiscard]] bool keeps(std::uint64_t document) const {
    return document % options_.parts == options_.part;
  }
  void begin_document(std::uint64_t document, std::string_view title) {
    corpus_.documents.push_back(document);
    corpus_.titles.emplace_back(title);
    corpus_.begin.push_back(corpus_.tokens.size());
  }
  std::uint32_t word(std::string_view text) {
    const auto found = by_text_.find(text);
    if (found != by_text_.end()) return found->second;
    return by_text_.emplace(text, add_word(std::string(text))).first->second;
  }
  /// The word that a bag-of-words file calls `id`; `index` is its line in the vocabulary, from 0.
  std::uint32_t word(std::uint64_t id, std::uint64_t index, const std::vector<std::string>& vocabulary) {
    const auto [found, is_new] = by_id_.try_emplace(id, 0);
    if (is_new) {
      found->second = add_word(index < vocabulary.size() ? vocabulary[index] : fmt::format("word{}", id));
    }
    return found->second;
  }
  void count(std::uint32_t word, std::uint64_t count) { counts_[word] += count; }
  void keep(std::uint32_t word, std::uint64_t count) {
    corpus_.tokens.insert(corpus_.tokens.end(), count, word);
  }
  void set_total_documents(std::uint64_t documents) { corpus_.total_documents = documents; }

  Corpus finish(const std::unordered_set<std::string>& stop_words) {
    corpus_.begin.push_back(corpus_.tokens.size());
    drop_and_renumber(rank_words(stop_words));
    return std::move(corpus_);
  }

 private:
  std::uint32_t add_word(std::string text) {
    words_.push_back(std::move(text));
    counts_.push_back(0);
    return static_cast<std::uint32_t>(words_.size() - 1);
  }

  /// Final ids by provisional ones, and the vocabulary.
  std::vector<std::uint32_t> rank_words(const std::unordered_set<std::string>& stop_words) {
    std::vector<std::uint32_t> order(words_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::erase_if(order, [&](std::uint32_t word) {
      return counts_[word] < options_.min_count || stop_words.contains(words_[word]);
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

  void drop_and_renumber(const std::vector<std::uint32_t>& final_ids) {
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

  const CorpusOptions& options_;
  Corpus corpus_;
  std::vector<std::string> words_;
  std::vector<std::uint64_t> counts_;
  std::unordered_map<std::string, std::uint32_t, StringHash, std::equal_to<>> by_text_;
  std::unordered_map<std::uint64_t, std::uint32_t> by_id_;
};

absl::Status read_text(LineReader& reader, Collector& collector) {
  Tokenizer tokenizer;
  bool titled = false;
  std::uint64_t documents = 0;
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = reader.next(line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    std::size_t tab = line.find('\t');
    if (documents == 0) titled = tab != std::string_view::npos;
    if (titled && tab == std::string_view::npos) {
      return reader.error("title<TAB>text, as in the first line", line);
    }
    const std::string_view title = titled ? line.substr(0, tab) : std::string_view();
    const bool keep = collector.keeps(documents);
    if (keep) collector.begin_document(documents, title);
    const std::string_view text = titled ? line.substr(tab + 1) : line;
    const bool whole = tokenizer.for_each_word(text, [&](std::string_view word) {
      const std::uint32_t id = collector.word(word);
      collector.count(id, 1);
      if (keep) collector.keep(id, 1);
    });
    if (!whole) {
      return reader.error("text in UTF-8 (or a bag of words, see docs/data.md)",
                          fmt::format("byte 0x{:02x}", tokenizer.damaged()));
    }
    ++documents;
  }
  collector.set_total_documents(documents);
  return absl::OkStatus();
}

absl::Status read_lda_c(LineReader& reader, const std::vector<std::string>& vocabulary,
                        Collector& collector) {
  std::uint64_t documents = 0;
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = reader.next(line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    std::string_view rest = line;
    const std::string_view size_field = next_field(rest);
    if (size_field.empty()) continue;
    const std::optional<std::uint64_t> size = parse_number(size_field);
    if (!size) return reader.error("the number of id:count pairs, then the pairs", line);
    const bool keep = collector.keeps(documents);
    if (keep) collector.begin_document(documents, {});
    std::uint64_t pairs = 0;
    for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest), ++pairs) {
      const std::optional<IdCount> pair = parse_pair(field);
      if (!pair) return reader.error(fmt::format("id:count with a count from 1 to {}", kMaxCount), field);
      if (!vocabulary.empty() && pair->id >= vocabulary.size()) {
        return reader.error(fmt::format("an id below {}, the size of the vocabulary", vocabulary.size()),
                            field);
      }
      const std::uint32_t word = collector.word(pair->id, pair->id, vocabulary);
      collector.count(word, pair->count);
      if (keep) collector.keep(word, pair->count);
    }
    if (pairs != *size) {
      return reader.error(fmt::format("{} id:count pairs, as the line begins", *size),
                          fmt::format("{} pairs", pairs));
    }
    ++documents;
  }
  collector.set_total_documents(documents);
  return absl::OkStatus();
}

struct UciHeader {
  std::uint64_t documents = 0;
  std::uint64_t words = 0;
  std::uint64_t entries = 0;
};

absl::StatusOr<UciHeader> read_uci_header(LineReader& reader) {
  UciHeader header;
  const std::pair<std::uint64_t*, std::string_view> fields[] = {
      {&header.documents, "the number of documents"},
      {&header.words, "the size of the vocabulary"},
      {&header.entries, "the number of lines that follow"}};
  for (const auto& [number, expected] : fields) {
    std::string_view line;
    const absl::StatusOr<bool> more = reader.next(line);
    if (!more.ok()) return more.status();
    const auto parsed = *more ? parse_numbers<1>(line) : std::nullopt;
    if (!parsed) return reader.error(expected, *more ? line : "the end of the file");
    *number = parsed->front();
  }
  return header;
}

struct UciEntry {
  std::uint64_t document = 0;
  std::uint32_t word = 0;
  std::uint32_t count = 0;
};

void keep_entries(std::vector<UciEntry> entries, Collector& collector) {
  const auto by_document = [](const UciEntry& a, const UciEntry& b) { return a.document < b.document; };
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

absl::Status read_uci(LineReader& reader, const std::vector<std::string>& vocabulary, Collector& collector) {
  const absl::StatusOr<UciHeader> header = read_uci_header(reader);
  if (!header.ok()) return header.status();
  if (!vocabulary.empty() && header->words > vocabulary.size()) {
    return reader.error(
        fmt::format("a vocabulary of at most {} words, as the vocabulary file has", vocabulary.size()),
        fmt::format("{} in line 2", header->words));
  }
  std::vector<UciEntry> kept;
  std::uint64_t entries = 0;
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = reader.next(line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    const auto numbers = parse_numbers<3>(line);
    if (!numbers) return reader.error("document, word and count", line);
    const auto [document, id, count] = *numbers;
    if (document < 1 || document > header->documents) {
      return reader.error(fmt::format("a document from 1 to {}", header->documents), line);
    }
    if (id < 1 || id > header->words)
      return reader.error(fmt::format("a word from 1 to {}", header->words), line);
    if (count < 1 || count > kMaxCount)
      return reader.error(fmt::format("a count from 1 to {}", kMaxCount), line);
    const std::uint32_t word = collector.word(id, id - 1, vocabulary);
    collector.count(word, count);
    if (collector.keeps(document - 1))
      kept.push_back({document - 1, word, static_cast<std::uint32_t>(count)});
    ++entries;
  }
  if (entries != header->entries) {
    return reader.error(fmt::format("{} lines below the header, as line 3 says", header->entries),
                        fmt::format("{} at the end of the file", entries));
  }
  keep_entries(std::move(kept), collector);
  collector.set_total_documents(header->documents);
  return absl::OkStatus();
}

absl::Status read_as(CorpusFormat format, LineReader& reader, const CorpusOptions& options,
                     Collector& collector) {
  if (format == CorpusFormat::kText) {
    if (options.vocabulary.empty()) return read_text(reader, collector);
    return absl::InvalidArgumentError(
        fmt::format("{}: expected a bag of words (docword.*.txt or lines of \"n id:count …\") to go with the "
                    "vocabulary, found running text",
                    options.path));
  }
  const std::string path = options.vocabulary.empty() ? vocabulary_beside(options.path) : options.vocabulary;
  std::vector<std::string> vocabulary;
  if (!path.empty()) {
    absl::StatusOr<std::vector<std::string>> words = read_vocabulary(path);
    if (!words.ok()) return words.status();
    if (words->empty())
      return absl::InvalidArgumentError(fmt::format("{}:1: expected words, found none", path));
    vocabulary = *std::move(words);
  }
  return format == CorpusFormat::kUci ? read_uci(reader, vocabulary, collector)
                                      : read_lda_c(reader, vocabulary, collector);
}

}  // namespace

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

absl::StatusOr<Corpus> read_corpus(const CorpusOptions& options, const ReadProgress& progress) {
  const absl::StatusOr<std::unordered_set<std::string>> stop_words = read_stop_words(options.stop_words);
  if (!stop_words.ok()) return stop_words.status();
  const absl::StatusOr<CorpusFormat> format = detect_format(options.path);
  if (!format.ok()) return format.status();
  if (options.needs_order && *format != CorpusFormat::kText) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected running text, found a bag of words, which has no order", options.path));
  }
  absl::StatusOr<LineReader> reader = LineReader::open(options.path, progress);
  if (!reader.ok()) return reader.status();
  Collector collector(options);
  if (absl::Status status = read_as(*format, *reader, options, collector); !status.ok()) return status;
  return collector.finish(*stop_words);
}

}  // namespace verbena::apps
