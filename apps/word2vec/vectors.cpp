#include "apps/word2vec/vectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "apps/data/fields.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/numbers.hpp"
#include "apps/data/output_file.hpp"
#include "apps/divergence.hpp"
#include "apps/word2vec/kernel.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps::word2vec {
namespace {

constexpr std::size_t kRowsAtOnce = 256;
constexpr std::uint64_t kBytesPerNumber = 16;  // "-1.17549435e-38" and a blank
constexpr std::uint64_t kBytesPerWord = 64;
class VectorReader {
 public:
  explicit VectorReader(LineReader lines) : lines_(std::move(lines)) {}

  absl::StatusOr<Vectors> read(const std::string& path) {
    absl::StatusOr<bool> more = lines_.next(line_);
    if (!more.ok()) return more.status();
    RETURN_IF_ERROR(read_header(*more));
    while (words_.size() < expected_) {
      more = lines_.next(line_);
      if (!more.ok()) return more.status();
      if (!*more) {
        return absl::InvalidArgumentError(
            fmt::format("{}:{}: expected {} more words, as line 1 says, found the end of the file", path,
                        lines_.line_number() + 1, expected_ - words_.size()));
      }
      RETURN_IF_ERROR(read_row(line_));
    }
    more = lines_.next(line_);
    if (!more.ok()) return more.status();
    if (*more) {
      return lines_.error(fmt::format("the end of the file after {} words, as line 1 says", expected_),
                          line_);
    }
    Vectors vectors(std::move(words_), dimension_);
    for (std::size_t id = 0; id < expected_; ++id) {
      std::copy_n(numbers_.data() + id * dimension_, dimension_, vectors.row(id));
    }
    return vectors;
  }

 private:
  absl::Status read_header(bool is_there) {
    constexpr std::string_view kExpected = "the number of words and of numbers each";
    if (!is_there) return lines_.error(kExpected, "the end of the file");
    std::string_view rest = line_;
    const std::optional<std::uint64_t> words = base::parse_decimal<std::uint64_t>(next_field(rest));
    const std::optional<std::uint64_t> dimension = base::parse_decimal<std::uint64_t>(next_field(rest));
    if (!words || !dimension || !next_field(rest).empty()) return lines_.error(kExpected, line_);
    if (*words < 1 || *dimension < 1 || *dimension > kMaxDimension) {
      return lines_.error(fmt::format("1 word or more, and 1 to {} numbers each", kMaxDimension), line_);
    }
    expected_ = *words;
    dimension_ = *dimension;
    return absl::OkStatus();
  }

  absl::Status read_row(std::string_view line) {
    const std::string_view word = next_field(line);
    if (word.empty()) return lines_.error("a word", line_);
    words_.emplace_back(word);
    if (!known_.insert(words_.back()).second) return lines_.error("a word that has not come before", word);
    for (std::size_t k = 0; k < dimension_; ++k) {
      const std::string_view field = next_field(line);
      const std::optional<float> number = parse_float(field);
      if (!number) {
        return lines_.error(fmt::format("{} numbers after the word", dimension_), field);
      }
      numbers_.push_back(*number);
    }
    const std::string_view more = next_field(line);
    if (more.empty()) return absl::OkStatus();
    return lines_.error(fmt::format("{} numbers after the word and no more", dimension_), more);
  }

  LineReader lines_;
  std::string_view line_;
  std::uint64_t expected_ = 0;
  std::size_t dimension_ = 0;
  std::vector<std::string> words_;
  absl::flat_hash_set<std::string> known_;
  std::vector<float> numbers_;  // grows line by line: line 1 may promise more than there is memory
};

float length(std::span<const float> row) {
  float square = 0;
  score(row, row.data(), std::span(&square, 1));
  return std::sqrt(square);
}

}  // namespace

std::uint64_t file_bytes(std::size_t words, std::size_t dimension) {
  return (words + 1) * (kBytesPerWord + dimension * kBytesPerNumber);
}

absl::Status save(const std::string& path, const Vectors& vectors) {
  absl::StatusOr<OutputFile> file = OutputFile::create(path);
  if (!file.ok()) return file.status();
  const std::vector<std::string>& words = vectors.words();
  fmt::memory_buffer text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{} {}\n", words.size(), vectors.dimension());
  for (std::size_t id = 0; id < words.size(); ++id) {
    if (!all_finite({vectors.row(id), vectors.dimension()}))
      return diverged(fmt::format("{}: not written: {}", path, kNoNumbers));
    text.append(words[id]);
    for (std::size_t k = 0; k < vectors.dimension(); ++k) fmt::format_to(out, " {}", vectors.row(id)[k]);
    text.push_back('\n');
    if (id % kRowsAtOnce == 0 || id + 1 == words.size()) {
      file->write({text.data(), text.size()});
      text.clear();
    }
  }
  return file->commit();
}

absl::StatusOr<Vectors> load(const std::string& path) {
  absl::StatusOr<LineReader> lines = LineReader::open(path);
  if (!lines.ok()) return lines.status();
  return VectorReader(*std::move(lines)).read(path);
}

std::vector<Neighbour> neighbours(const Vectors& vectors, std::uint32_t word, std::size_t count) {
  const std::size_t size = vectors.row_size();
  const std::span<const float> row(vectors.row(word), size);
  std::vector<float> scores(vectors.words().size());
  score(row, vectors.row(0), scores);
  std::vector<Neighbour> all;
  for (std::uint32_t id = 0; id < scores.size(); ++id) {
    const float lengths = length(row) * length({vectors.row(id), size});
    if (id == word || !(lengths > 0) || !std::isfinite(lengths) || !std::isfinite(scores[id])) continue;
    all.push_back({id, scores[id] / lengths});
  }
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(count, all.size()));
  std::partial_sort(all.begin(), end, all.end(), [](const Neighbour& a, const Neighbour& b) {
    return a.cosine != b.cosine ? a.cosine > b.cosine : a.word < b.word;
  });
  all.erase(end, all.end());
  return all;
}

}  // namespace verbena::apps::word2vec
