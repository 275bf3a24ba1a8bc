#include "apps/data/known_formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "apps/data/fields.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/numbers.hpp"
#include "base/decimal.hpp"

namespace verbena::apps {
namespace {

constexpr std::size_t kBytesLookedAt = 1U << 20U;

constexpr std::pair<std::string_view, FoundFormat> kBanners[] = {
    {"%%MatrixMarket", {Format::kMatrixMarket, "Matrix Market"}},
    {"%%matrixmarket", {Format::kMatrixMarket, "Matrix Market"}},
    {"# verbena ", {Format::kForeign, "a file that --output has written"}},
    {"\x93NUMPY", {Format::kForeign, "an array of NumPy"}},
    {"PK\x03\x04", {Format::kForeign, "a zip archive (.zip, .npz, .xlsx)"}},
    {"\x89HDF\r", {Format::kForeign, "HDF5"}},
    {"PAR1", {Format::kForeign, "Parquet"}},
    {"SQLite format 3", {Format::kForeign, "a database of SQLite"}},
    {"BZh", {Format::kForeign, "bzip2 (only gzip is read)"}},
    {"\xFD"
     "7zXZ",
     {Format::kForeign, "xz (only gzip is read)"}},
    {"\x28\xB5\x2F\xFD", {Format::kForeign, "zstd (only gzip is read)"}},
    {"%PDF-", {Format::kForeign, "PDF"}},
    {"<?xml", {Format::kForeign, "XML"}},
    {"<!DOCTYPE", {Format::kForeign, "HTML"}},
    {"<html", {Format::kForeign, "HTML"}},
    {"@relation", {Format::kForeign, "ARFF"}},
    {"@RELATION", {Format::kForeign, "ARFF"}},
    {"@prefix ", {Format::kForeign, "Turtle"}},
    {"{\\rtf", {Format::kForeign, "RTF"}},
    {"*Vertices", {Format::kForeign, "a graph of Pajek"}},
};

bool is_number(std::string_view field) {
  return parse_double(field).has_value();
}

/// "id:number". If `any_name`, the id need not be digits.
bool is_pair(std::string_view field, bool any_name) {
  const std::size_t colon = field.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return false;
  return (any_name || base::parse_decimal<std::uint64_t>(field.substr(0, colon))) &&
         is_number(field.substr(colon + 1));
}

/// How many fields a line has after its first one, if all of them are "id:number".
std::optional<std::size_t> pairs_behind(std::string_view rest) {
  std::size_t pairs = 0;
  for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest)) {
    if (!is_pair(field, false)) return std::nullopt;
    ++pairs;
  }
  return pairs;
}

bool is_lda_c(std::string_view line) {
  const std::optional<std::uint64_t> size = base::parse_decimal<std::uint64_t>(next_field(line));
  return size.has_value() && pairs_behind(line) == *size;
}

/// "label id:number …  # comment"; there may be several labels, separated by commas.
bool is_svm_light(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::string_view labels = next_field(line);
  while (!labels.empty()) {
    const std::string_view label = labels.substr(0, labels.find(','));
    if (!is_number(label)) return false;
    labels.remove_prefix(std::min(label.size() + 1, labels.size()));
  }
  std::string_view rest = line;
  if (!next_field(rest).starts_with("qid:")) rest = line;
  return pairs_behind(rest).has_value();
}

/// A line may also be of LIBSVM: "1 7:1" has one pair, or the label 1, and "0" has no pair. If there are
/// lines of several pairs, they decide: if most have as many pairs as they say, the others are mistakes.
bool looks_like_lda_c(std::span<const std::string_view> lines) {
  const auto has_pairs = [](std::string_view line) { return std::count(line.begin(), line.end(), ':') > 1; };
  std::vector<std::string_view> telling;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(telling), has_pairs);
  if (telling.empty()) {
    if (std::all_of(lines.begin(), lines.end(), is_svm_light))
      return std::all_of(lines.begin(), lines.end(), is_lda_c);
    telling.assign(lines.begin(), lines.end());
  }
  const auto as_they_say = std::count_if(telling.begin(), telling.end(), is_lda_c);
  return is_lda_c(lines[0]) && 2 * as_they_say >= std::ssize(telling);
}

bool is_one_number(std::string_view line) {
  return base::parse_decimal<std::uint64_t>(next_field(line)) && next_field(line).empty();
}

/// "[label [weight [base]]] ['tag] |…". A tag that touches the bar needs no quote. Or "title |@class …", as
/// BigARTM writes it.
bool is_vowpal_wabbit(std::string_view line) {
  const std::size_t bar = line.find('|');
  if (bar == std::string_view::npos) return false;
  std::vector<std::string_view> fields;
  std::string_view front = line.substr(0, bar);
  for (std::string_view field = next_field(front); !field.empty(); field = next_field(front))
    fields.push_back(field);
  if (bar > 0 && kBlanks.find(line[bar - 1]) == std::string_view::npos) {
    const bool is_quoted = fields.back().starts_with('\'');
    fields.pop_back();
    if (!is_quoted && fields.empty()) return false;  // "1|5|3" is a table
  } else if (fields.size() == 1 && line.substr(bar).starts_with("|@")) {
    return true;
  }
  return std::all_of(fields.begin(), fields.end(),
                     [](std::string_view field) { return is_number(field) || field.starts_with('\''); });
}
/// Finds what a text with bars in it cannot have: a label, or a feature with a value.
bool is_clearly_vowpal_wabbit(std::string_view line) {
  const std::size_t bar = line.find('|');
  if (!is_all_blank(line.substr(0, bar))) return true;
  line.remove_prefix(bar + 1);
  for (std::string_view field = next_field(line); !field.empty(); field = next_field(line)) {
    if (is_pair(field, true)) return true;
  }
  return false;
}

/// "label field:index:value …", with one feature at least.
bool is_libffm(std::string_view line) {
  if (!is_number(next_field(line))) return false;
  std::size_t features = 0;
  for (std::string_view field = next_field(line); !field.empty(); field = next_field(line), ++features) {
    const std::size_t colon = field.find(':');
    if (!base::parse_decimal<std::uint64_t>(field.substr(0, colon)) || colon == std::string_view::npos ||
        !is_pair(field.substr(colon + 1), false))
      return false;
  }
  return features > 0;
}

/// A label and 39 more fields, separated by tabs.
bool is_criteo(std::string_view line) {
  constexpr std::ptrdiff_t kTabs = 39;
  return (line.starts_with("0\t") || line.starts_with("1\t")) &&
         std::count(line.begin(), line.end(), '\t') == kTabs;
}

/// How many fields a line has before its field "click", all separated by commas; nullopt if there is none.
std::optional<std::size_t> fields_before_click(std::string_view header) {
  for (std::size_t before = 0;; ++before) {
    const std::size_t comma = header.find(',');
    if (header.substr(0, comma) == "click") return before;
    if (comma == std::string_view::npos) return std::nullopt;
    header.remove_prefix(comma + 1);
  }
}

/// A header with a column "click", and another line that has 0 or 1 there.
bool is_avazu(std::span<const std::string_view> lines) {
  const std::optional<std::size_t> before = fields_before_click(lines[0]);
  if (!before || lines[0].find_first_of(kBlanks) != std::string_view::npos) return false;
  return std::any_of(lines.begin() + 1, lines.end(), [&](std::string_view line) {
    if (std::count(line.begin(), line.end(), ',') != std::count(lines[0].begin(), lines[0].end(), ','))
      return false;
    for (std::size_t field = 0; field < *before; ++field) line.remove_prefix(line.find(',') + 1);
    const std::string_view click = line.substr(0, line.find(','));
    return click == "0" || click == "1";
  });
}

bool is_json(std::string_view line) {
  const bool is_object =
      line.starts_with('{') && (line.size() == 1 || line.find('"') != std::string_view::npos);
  return is_object || line == "[" || line.starts_with("[{");
}

/// "<subject> <predicate> object ."
bool is_n_triple(std::string_view line) {
  return (line.starts_with('<') || line.starts_with("_:")) && line.ends_with('.') &&
         line.find(" <") != std::string_view::npos;
}

/// The head and first line of word2vec's format: "words dimension", then a word and as many numbers.
bool is_vectors(std::span<const std::string_view> lines) {
  if (lines.size() < 2) return false;
  std::string_view head = lines[0];
  const std::optional<std::uint64_t> words = base::parse_decimal<std::uint64_t>(next_field(head));
  const std::optional<std::uint64_t> dimension = base::parse_decimal<std::uint64_t>(next_field(head));
  if (!words || !dimension || *dimension < 2 || !next_field(head).empty()) return false;
  std::string_view row = lines[1];
  next_field(row);
  std::uint64_t numbers = 0;
  for (std::string_view field = next_field(row); !field.empty(); field = next_field(row)) {
    if (!is_number(field)) return false;
    ++numbers;
  }
  return numbers == *dimension;
}

FoundFormat bag_of_words(std::span<const std::string_view> lines) {
  const bool has_pairs = std::any_of(lines.begin(), lines.end(), [](std::string_view line) {
    return line.find(':') != std::string_view::npos;
  });
  if (!has_pairs) {
    constexpr std::size_t kHeaderLines = 3;
    const bool has_header = lines.size() >= kHeaderLines &&
                            std::all_of(lines.begin(), lines.begin() + kHeaderLines, is_one_number);
    return has_header ? FoundFormat{Format::kUci, "UCI's bag of words"} : FoundFormat{};
  }
  if (looks_like_lda_c(lines)) return {Format::kLdaC, "LDA-C"};
  if (std::all_of(lines.begin(), lines.end(), is_svm_light)) return {Format::kSvmLight, "LIBSVM or SVMlight"};
  return {};
}

/// A format that has only examples with labels. `enough(shape)` tells whether enough lines have a shape.
template <class Enough>
FoundFormat only_of_examples(std::span<const std::string_view> lines, const Enough& enough) {
  if (is_avazu(lines)) return {Format::kAvazu, "Avazu's clicks"};
  if (enough(is_libffm)) return {Format::kLibffm, "LIBFFM"};
  if (enough(is_criteo)) return {Format::kCriteo, "Criteo's clicks"};
  return {};
}

std::vector<std::string_view> lines_without_comments(std::span<const std::string> lines) {
  std::vector<std::string_view> filled;
  for (const std::string_view line : lines) {
    if (!is_all_blank(line) && !line.starts_with('#')) filled.push_back(line);
  }
  return filled;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> first_lines(const std::string& path, std::size_t most) {
  absl::StatusOr<LineReader> reader = LineReader::open(path);
  if (!reader.ok()) return reader.status();
  std::vector<std::string> lines;
  std::size_t bytes = 0;
  while (lines.size() < most && bytes < kBytesLookedAt) {
    std::string_view line;
    const absl::StatusOr<bool> more = reader->next(line);
    if (!more.ok()) {
      if (lines.empty()) return more.status();
      break;  // the reader that gets that far reports it with its place
    }
    if (!*more) break;
    lines.emplace_back(line);
    bytes += line.size();
  }
  return lines;
}

FoundFormat format_by_banner(std::span<const std::string> lines) {
  if (lines.empty()) return {};
  for (const auto& [banner, format] : kBanners) {
    if (lines[0].starts_with(banner)) return format;
  }
  return {};
}

FoundFormat format_by_shape(std::span<const std::string> lines) {
  if (const FoundFormat found = format_by_banner(lines); found.format != Format::kUnknown) return found;
  const std::vector<std::string_view> filled = lines_without_comments(lines);
  if (filled.empty()) return {};
  const auto all = [&](auto shape) { return std::all_of(filled.begin(), filled.end(), shape); };
  if (const FoundFormat found = bag_of_words(filled); found.format != Format::kUnknown) return found;
  if (all(is_vowpal_wabbit) && std::any_of(filled.begin(), filled.end(), is_clearly_vowpal_wabbit))
    return {Format::kVowpalWabbit, "Vowpal Wabbit"};
  if (const FoundFormat found = only_of_examples(filled, all); found.format != Format::kUnknown)
    return {Format::kForeign, found.name};
  if (is_json(filled[0])) return {Format::kForeign, "JSON"};
  if (all(is_n_triple)) return {Format::kForeign, "N-Triples"};
  if (is_vectors(filled)) return {Format::kForeign, "vectors of words"};
  return {};
}

FoundFormat format_of_examples(std::span<const std::string> lines) {
  if (const FoundFormat found = format_by_banner(lines); found.format != Format::kUnknown) return found;
  const std::vector<std::string_view> filled = lines_without_comments(lines);
  if (filled.empty()) return {};
  const auto half = [&](auto shape) {
    return 2 * std::count_if(filled.begin(), filled.end(), shape) >= std::ssize(filled);
  };
  const auto has_colon = [](std::string_view line) { return line.find(':') != std::string_view::npos; };
  if (const FoundFormat found = only_of_examples(filled, half); found.format != Format::kUnknown)
    return found;
  if (half(is_svm_light) && std::any_of(filled.begin(), filled.end(), has_colon))
    return {Format::kSvmLight, "LIBSVM or SVMlight"};
  if (half(is_vowpal_wabbit) && std::any_of(filled.begin(), filled.end(), is_clearly_vowpal_wabbit))
    return {Format::kVowpalWabbit, "Vowpal Wabbit"};
  return format_by_shape(lines);
}

std::string stem_of(const std::string& path) {
  const std::filesystem::path name = std::filesystem::path(path).filename();
  return name.extension() == ".gz" ? name.stem().string() : name.string();
}

absl::Status wrong_format(const std::string& path, std::string_view expected, const FoundFormat& found) {
  return absl::InvalidArgumentError(fmt::format("{}:1: expected {}, found {}", path, expected, found.name));
}

}  // namespace verbena::apps
