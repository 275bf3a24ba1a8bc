#include "apps/data/corpus.hpp"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "apps/data/bags_of_words.hpp"
#include "apps/data/corpus_collector.hpp"
#include "apps/data/fields.hpp"
#include "apps/data/known_formats.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/rating_table.hpp"
#include "apps/data/stop_words.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

/// What is between white space may look like any format; only a banner is certainly not text.
absl::StatusOr<FoundFormat> detect_format(const CorpusOptions& options) {
  const absl::StatusOr<std::vector<std::string>> lines = first_lines(options.path);
  if (!lines.ok()) return lines.status();
  if (options.tokens == Tokens::kWhitespace) return format_by_banner(*lines);
  const FoundFormat found = format_by_shape(*lines);
  if (found.format == Format::kForeign || found.format == Format::kMatrixMarket) return found;
  const std::string stem = stem_of(options.path);
  constexpr std::pair<std::string_view, FoundFormat> kNames[] = {
      {".ldac", {Format::kLdaC, "LDA-C"}},
      {".lda-c", {Format::kLdaC, "LDA-C"}},
      {".svm", {Format::kSvmLight, "LIBSVM or SVMlight"}},
      {".libsvm", {Format::kSvmLight, "LIBSVM or SVMlight"}},
      {".svmlight", {Format::kSvmLight, "LIBSVM or SVMlight"}},
      {".vw", {Format::kVowpalWabbit, "Vowpal Wabbit"}},
  };
  if (stem.starts_with("docword")) return FoundFormat{Format::kUci, "UCI's bag of words"};
  for (const auto& [ending, format] : kNames) {
    if (stem.ends_with(ending)) return format;
  }
  if (found.format == Format::kUnknown && is_clearly_a_table(*lines))
    return FoundFormat{Format::kForeign, "a table, as of ratings"};
  return found;
}

absl::Status read_text(LineReader& reader, Tokens tokens, CorpusCollector& collector) {
  Tokenizer tokenizer(tokens);
  bool titled = false;
  std::uint64_t documents = 0;
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = reader.next(line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (is_all_blank(line)) continue;
    std::size_t tab = line.find('\t');
    if (documents == 0) titled = tokens == Tokens::kWords && tab != std::string_view::npos;
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

absl::Status read_as(const FoundFormat& found, LineReader& reader, const CorpusOptions& options,
                     CorpusCollector& collector) {
  const bool has_names = found.format == Format::kUnknown || found.format == Format::kVowpalWabbit;
  if (has_names && !options.vocabulary.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: expected a bag of numbered words (docword.*.txt or lines of \"n id:count …\") to go with "
        "the vocabulary, found {}",
        options.path, found.name.empty() ? "running text" : found.name));
  }
  if (found.format == Format::kUnknown) return read_text(reader, options.tokens, collector);
  if (found.format == Format::kVowpalWabbit) return read_vowpal_wabbit(reader, collector);
  const std::string path = options.vocabulary.empty() ? vocabulary_beside(options.path) : options.vocabulary;
  std::vector<std::string> vocabulary;
  if (!path.empty()) {
    absl::StatusOr<std::vector<std::string>> words = read_vocabulary(path);
    if (!words.ok()) return words.status();
    vocabulary = *std::move(words);
  }
  switch (found.format) {
    case Format::kMatrixMarket:
      return read_matrix_market(reader, vocabulary, collector);
    case Format::kUci:
      return read_uci(reader, vocabulary, collector);
    case Format::kSvmLight:
      return read_svm_light(reader, vocabulary, collector);
    default:
      return read_lda_c(reader, vocabulary, collector);
  }
}

absl::Status check_format(const FoundFormat& found, const CorpusOptions& options) {
  if (found.format == Format::kForeign) {
    const std::string_view expected =
        options.needs_order ? "running text" : "running text or a bag of words (docs/data.md)";
    return wrong_format(options.path, expected, found);
  }
  const bool is_bag = found.format != Format::kUnknown;
  if (options.needs_order && is_bag) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected running text, found a bag of words, which has no order ({})", options.path,
                    found.name));
  }
  if (options.tokens == Tokens::kWhitespace && is_bag) {
    return wrong_format(options.path, "running text, as --tokens whitespace says", found);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Corpus> read_corpus(const CorpusOptions& options, const ReadProgress& progress) {
  const absl::StatusOr<std::unordered_set<std::string>> stop_words =
      read_stop_words(options.stop_words, options.tokens);
  if (!stop_words.ok()) return stop_words.status();
  const absl::StatusOr<FoundFormat> format = detect_format(options);
  if (!format.ok()) return format.status();
  RETURN_IF_ERROR(check_format(*format, options));
  absl::StatusOr<LineReader> reader = LineReader::open(options.path, progress);
  if (!reader.ok()) return reader.status();
  CorpusCollector collector(options);
  RETURN_IF_ERROR(read_as(*format, *reader, options, collector));
  Corpus corpus = collector.finish(*stop_words);
  corpus.format = format->name.empty() ? "running text" : format->name;
  return corpus;
}

}  // namespace verbena::apps
