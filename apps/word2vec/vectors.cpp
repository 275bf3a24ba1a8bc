#include "apps/word2vec/vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "apps/data/array_files.hpp"
#include "apps/data/fields.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/numbers.hpp"
#include "apps/data/output_file.hpp"
#include "apps/divergence.hpp"
#include "apps/embedding/best.hpp"
#include "apps/word2vec/kernel.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::word2vec {
namespace {

constexpr std::uint64_t kBytesPerNumber = 16;  // "-1.17549435e-38" and a blank
constexpr std::uint64_t kBytesPerWord = 64;
constexpr std::uint64_t kBytesOfHeader = 4096;
constexpr std::size_t kMostWordBytes = std::size_t{1} << 16;  // of a word in a binary file

bool has_blanks(std::string_view word) {
  return word.find_first_of(" \t\r\n") != std::string_view::npos;
}

/// What is in no text, but in most numbers as bytes.
bool has_control_characters(std::string_view bytes) {
  return std::any_of(bytes.begin(), bytes.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && c != '\t' && c != '\n' && c != '\r';
  });
}

/// How many of the fields behind the first one are numbers.
std::size_t numbers_in(std::string_view line) {
  next_field(line);
  std::size_t numbers = 0;
  for (std::string_view field = next_field(line); !field.empty(); field = next_field(line)) {
    if (parse_float(field)) ++numbers;
  }
  return numbers;
}

/// Where a word of a binary file is.
struct BinaryWord {
  std::size_t begin = 0;  ///< behind newlines: word2vec writes one after the numbers, gensim does not
  std::size_t end = 0;    ///< of the blank behind it; npos: there is none
};
BinaryWord find_binary_word(std::string_view bytes) {
  const std::size_t begin = std::min(bytes.find_first_not_of('\n'), bytes.size());
  return {.begin = begin, .end = bytes.find(' ', begin)};
}

/// Whether these bytes are words and `number_bytes` behind each. `words`: how many there are in the file,
/// which ends with these bytes if `is_end`.
bool are_binary_rows(std::string_view bytes, std::uint64_t words, std::size_t number_bytes, bool is_end) {
  std::uint64_t found = 0;
  for (; found < words; ++found) {
    const BinaryWord word = find_binary_word(bytes);
    const bool is_whole = word.end != std::string_view::npos && bytes.size() - word.end > number_bytes;
    if (!is_whole) return !is_end && found > 0;
    const std::string_view text = bytes.substr(word.begin, word.end - word.begin);
    if (text.empty() || text.find('\n') != std::string_view::npos || has_control_characters(text))
      return false;
    bytes.remove_prefix(word.end + 1 + number_bytes);
  }
  return is_end && bytes.find_first_not_of('\n') == std::string_view::npos;
}

/// Whether a line, or the beginning of one, is a word and numbers. `dimension`: how many a whole line has.
bool is_text_row(std::string_view line, bool is_whole, std::size_t dimension) {
  if (next_field(line).empty()) return false;
  std::size_t numbers = 0;
  for (std::string_view field = next_field(line); !field.empty(); field = next_field(line)) {
    if (!is_whole && line.empty()) break;  // it may be cut
    if (!parse_float(field)) return false;
    ++numbers;
  }
  return numbers > 0 && (!is_whole || numbers == dimension);
}

/// Reads any of the formats.
class VectorReader {
 public:
  VectorReader(std::string path, LineReader lines) : path_(std::move(path)), lines_(std::move(lines)) {}

  absl::StatusOr<Vectors> read(VectorsFile& file) {
    const absl::StatusOr<bool> more = lines_.next(line_);
    if (!more.ok()) return more.status();
    RETURN_IF_ERROR(read_first_line(*more));
    RETURN_IF_ERROR(format_ == VectorFormat::kBinary ? read_binary() : read_text());
    if (words_.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: expected a word without blanks, here or later, found none", path_,
                      format_ == VectorFormat::kBinary ? " word 1" : "2"));
    }
    file = {.format = format_, .ignored_words = ignored_, .first_ignored = std::move(first_ignored_)};
    Vectors vectors(std::move(words_), dimension_);
    for (std::size_t id = 0; id < vectors.words().size(); ++id)
      std::copy_n(numbers_.data() + id * dimension_, dimension_, vectors.row(id));
    return vectors;
  }

 private:
  /// Finds the format. In word2vec's the first line has two whole numbers, in GloVe's it has a word and two
  /// numbers or more.
  absl::Status read_first_line(bool is_there) {
    constexpr std::string_view kExpected =
        "the number of words and of numbers each, or a word and its numbers";
    if (!is_there) return lines_.error(kExpected, "the end of the file");
    std::string_view rest = line_;
    const std::optional<std::uint64_t> words = base::parse_decimal<std::uint64_t>(next_field(rest));
    const std::optional<std::uint64_t> dimension = base::parse_decimal<std::uint64_t>(next_field(rest));
    if (words && dimension && is_all_blank(rest)) {
      if (*words < 1 || *dimension < 1 || *dimension > kMaxDimension)
        return lines_.error(fmt::format("1 word or more, and 1 to {} numbers each", kMaxDimension), line_);
      expected_ = *words;
      dimension_ = *dimension;
      return find_format();
    }
    rest = line_;
    std::size_t fields = 0;
    while (!next_field(rest).empty()) ++fields;
    if (fields < 3 || fields - 1 > kMaxDimension || !is_text_row(line_, true, fields - 1))
      return lines_.error(kExpected, line_);
    format_ = VectorFormat::kGlove;
    dimension_ = fields - 1;
    return read_row(line_);
  }

  /// Text or binary. A row of text tells, and else rows of bytes. If it is neither, the file is damaged: it
  /// is called text if there are numbers in the second line, or nothing that is in no text.
  absl::Status find_format() {
    const std::size_t number_bytes = dimension_ * sizeof(float);
    const std::size_t looked_at = kMostWordBytes + number_bytes;
    const absl::StatusOr<std::string_view> bytes = lines_.peek(looked_at);
    if (!bytes.ok()) return bytes.status();
    const bool is_end = bytes->size() < looked_at;
    const std::size_t end = bytes->find('\n');
    std::string_view row = bytes->substr(0, end);
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (is_text_row(row, end != std::string_view::npos || is_end, dimension_)) return absl::OkStatus();
    if (are_binary_rows(*bytes, *expected_, number_bytes, is_end) ||
        (numbers_in(row) == 0 && has_control_characters(*bytes)))
      format_ = VectorFormat::kBinary;
    return absl::OkStatus();
  }

  absl::Status read_text() {
    while (!expected_ || words_.size() + ignored_ < *expected_) {
      const absl::StatusOr<bool> more = lines_.next(line_);
      if (!more.ok()) return more.status();
      if (!*more && !expected_) return absl::OkStatus();
      if (!*more) {
        return absl::InvalidArgumentError(
            fmt::format("{}:{}: expected {} more words, as line 1 says, found the end of the file", path_,
                        lines_.line_number() + 1, *expected_ - words_.size() - ignored_));
      }
      RETURN_IF_ERROR(read_row(line_));
    }
    const absl::StatusOr<bool> more = lines_.next(line_);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    return lines_.error(fmt::format("the end of the file after {} words, as line 1 says", *expected_), line_);
  }

  absl::Status read_row(std::string_view line) {
    std::string_view word = next_field(line);
    if (word.empty()) return lines_.error("a word", line_);
    if (format_ == VectorFormat::kGlove) {
      const std::string_view whole = line;
      word = take_blanks(word, line);
      if (has_only_numbers(whole.substr(0, whole.size() - line.size())))
        return lines_.error(fmt::format("{} numbers after the word and no more", dimension_), line_);
    }
    const std::size_t before = numbers_.size();
    for (std::size_t k = 0; k < dimension_; ++k) {
      const std::string_view field = next_field(line);
      const std::optional<float> number = parse_float(field);
      if (!number) return lines_.error(fmt::format("{} numbers after the word", dimension_), field);
      numbers_.push_back(*number);
    }
    const std::string_view more = next_field(line);
    if (!more.empty())
      return lines_.error(fmt::format("{} numbers after the word and no more", dimension_), more);
    add(word, before);
    return absl::OkStatus();
  }

  /// A word of GloVe may have blanks: it is all that is before the last numbers. `line`: what follows its
  /// first part, and then its numbers.
  [[nodiscard]] std::string_view take_blanks(std::string_view word, std::string_view& line) const {
    std::size_t fields = 0;
    for (std::string_view rest = line; !next_field(rest).empty();) ++fields;
    for (; fields > dimension_; --fields) {
      const std::string_view part = next_field(line);
      word = {word.data(), static_cast<std::size_t>(part.data() + part.size() - word.data())};
    }
    return word;
  }

  /// Whether there are numbers behind a word of GloVe that are no part of its vector, and nothing else: then
  /// the line has too many, rather than a word with blanks.
  static bool has_only_numbers(std::string_view parts) {
    bool has_numbers = false;
    for (std::string_view part = next_field(parts); !part.empty(); part = next_field(parts)) {
      if (!parse_float(part)) return false;
      has_numbers = true;
    }
    return has_numbers;
  }

  absl::Status read_binary() {
    const auto wrong = [&](std::string_view expected, std::string_view found) {
      return absl::InvalidArgumentError(
          fmt::format("{}: {}: expected {}, found {}", path_, place(), expected, found));
    };
    constexpr std::string_view kTheEnd = "the end of the file";
    while (words_.size() + ignored_ < *expected_) {
      absl::StatusOr<std::string_view> bytes = lines_.peek(kMostWordBytes, place());
      if (!bytes.ok()) return bytes.status();
      const auto [begin, end] = find_binary_word(*bytes);
      const std::string word(bytes->substr(begin, end - std::min(begin, end)));
      if (begin == bytes->size()) {
        return wrong(fmt::format("{} more words, as line 1 says", *expected_ - words_.size() - ignored_),
                     kTheEnd);
      }
      if (end == std::string_view::npos)
        return wrong("a word, and a blank behind it", LineReader::printable(word));
      if (word.empty()) return wrong("a word", "only a blank");
      lines_.skip(end + 1);
      const std::size_t size = dimension_ * sizeof(float);
      bytes = lines_.peek(size, place());
      if (!bytes.ok()) return bytes.status();
      if (bytes->size() < size) return wrong(fmt::format("{} bytes of numbers", size), kTheEnd);
      const std::size_t before = numbers_.size();
      numbers_.resize(before + dimension_);
      std::memcpy(numbers_.data() + before, bytes->data(), size);
      lines_.skip(size);
      if (!all_finite(std::span(numbers_).subspan(before))) return wrong("finite numbers", "others");
      add(word, before);
    }
    const absl::StatusOr<std::string_view> rest = lines_.peek(2, place());
    if (!rest.ok()) return rest.status();
    if (rest->empty() || *rest == "\n") return absl::OkStatus();
    return wrong(fmt::format("the end of the file after {} words, as line 1 says", *expected_), "more");
  }

  /// Of the word that is read, for people.
  [[nodiscard]] std::string place() const {
    if (format_ == VectorFormat::kBinary) return fmt::format("word {}", words_.size() + ignored_ + 1);
    return fmt::format("line {}", lines_.line_number());
  }

  /// The word's numbers are those from the place `before` on.
  void add(std::string_view word, std::size_t before) {
    if (!has_blanks(word) && known_.insert(std::string(word)).second) {
      words_.emplace_back(word);
      return;
    }
    if (ignored_ == 0) first_ignored_ = place();
    ++ignored_;
    numbers_.resize(before);
  }

  std::string path_;
  LineReader lines_;
  std::string_view line_;
  VectorFormat format_ = VectorFormat::kText;
  std::optional<std::uint64_t> expected_;  ///< of words; GloVe does not say
  std::size_t dimension_ = 0;
  std::vector<std::string> words_;
  std::uint64_t ignored_ = 0;
  std::string first_ignored_;  // its place
  absl::flat_hash_set<std::string> known_;
  std::vector<float> numbers_;  // grows word by word: line 1 may promise more than there is memory
};

float length(std::span<const float> row) {
  float square = 0;
  score(row, row.data(), std::span(&square, 1));
  return std::sqrt(square);
}

absl::StatusOr<std::string> header_of(const Vectors& vectors, VectorFormat format) {
  const ArrayShape array{
      .name = "vectors", .type = kFloatElement, .shape = {vectors.words().size(), vectors.dimension()}};
  switch (format) {
    case VectorFormat::kGlove:
      return "";
    case VectorFormat::kNpy:
      return npy_header(array);
    case VectorFormat::kSafetensors:
      return safetensors_header({&array, 1});
    default:
      return fmt::format("{} {}\n", vectors.words().size(), vectors.dimension());
  }
}

}  // namespace

std::uint64_t files_bytes(std::size_t words, std::size_t dimension, VectorFormat format) {
  const bool is_text = format == VectorFormat::kText || format == VectorFormat::kGlove;
  return kBytesOfHeader + words * (kBytesPerWord + dimension * (is_text ? kBytesPerNumber : sizeof(float)));
}

absl::Status save(const std::string& path, const Vectors& vectors, VectorFormat format) {
  std::vector<OutputFile> files;
  for (const std::string& name : files_of(path, format)) {
    absl::StatusOr<OutputFile> file = OutputFile::create(name);
    if (!file.ok()) return file.status();
    files.push_back(*std::move(file));
  }
  const std::size_t dimension = vectors.dimension();
  const absl::StatusOr<std::string> header = header_of(vectors, format);
  if (!header.ok()) return header.status();
  files[0].write(*header);
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  for (std::size_t id = 0; id < vectors.words().size(); ++id) {
    const std::string& word = vectors.words()[id];
    const std::span<const float> row(vectors.row(id), dimension);
    if (!all_finite(row)) return diverged(fmt::format("{}: not written: {}", path, kNoNumbers));
    text.clear();
    switch (format) {
      case VectorFormat::kText:
      case VectorFormat::kGlove:
        text.append(word);
        for (const float number : row) fmt::format_to(out, " {}", number);
        text.push_back('\n');
        break;
      case VectorFormat::kBinary:
        fmt::format_to(out, "{} ", word);
        text.append(as_text(row));
        text.push_back('\n');
        break;
      case VectorFormat::kNpy:
      case VectorFormat::kSafetensors:
        text.append(as_text(row));
        files[1].write(word + '\n');
        break;
    }
    files[0].write({text.data(), text.size()});
  }
  for (OutputFile& file : files) RETURN_IF_ERROR(file.commit());
  return absl::OkStatus();
}

absl::StatusOr<Vectors> load(const std::string& path, VectorsFile* file) {
  absl::StatusOr<LineReader> lines = LineReader::open(path);
  if (!lines.ok()) return lines.status();
  VectorsFile ignored;
  return VectorReader(path, *std::move(lines)).read(file == nullptr ? ignored : *file);
}

std::vector<Neighbour> neighbours(const Vectors& vectors, std::uint32_t word, std::size_t count) {
  const std::size_t size = vectors.row_size();
  const std::span<const float> row(vectors.row(word), size);
  std::vector<float> scores(vectors.words().size());
  score(row, vectors.row(0), scores);
  std::vector<float> cosines(scores.size(), kNoAnswer);
  for (std::uint32_t id = 0; id < scores.size(); ++id) {
    const float lengths = length(row) * length({vectors.row(id), size});
    if (id == word || !(lengths > 0) || !std::isfinite(lengths)) continue;
    cosines[id] = scores[id] / lengths;
  }
  std::vector<Neighbour> nearest;
  for (const std::uint32_t id : best(cosines, count)) nearest.push_back({id, cosines[id]});
  return nearest;
}

}  // namespace verbena::apps::word2vec
