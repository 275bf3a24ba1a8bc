#include "apps/data/matrix_market.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "absl/strings/ascii.h"
#include "apps/data/fields.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

bool is_comment_or_blank(std::string_view line) {
  return line.starts_with('%') || is_all_blank(line);
}

}  // namespace

absl::StatusOr<MatrixMarketReader> MatrixMarketReader::open(LineReader& lines) {
  MatrixMarketReader reader(lines);
  RETURN_IF_ERROR(reader.read_banner());
  RETURN_IF_ERROR(reader.read_size());
  return reader;
}

absl::Status MatrixMarketReader::read_banner() {
  std::string_view line;
  const absl::StatusOr<bool> more = lines_->next(line);
  if (!more.ok()) return more.status();
  const std::string banner(line);
  std::string lower = banner;
  absl::AsciiStrToLower(&lower);
  std::string_view rest = lower;
  next_field(rest);  // "%%MatrixMarket"
  const auto expect = [&](const std::initializer_list<std::string_view> known) -> absl::Status {
    const std::string_view word = next_field(rest);
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      std::string expected;
      for (const std::string_view one : known) {
        expected += fmt::format("{}\"{}\"", expected.empty() ? "" : " or ", one);
      }
      return lines_->error(expected + " in Matrix Market's banner",
                           word.empty() ? banner : std::string(word));
    }
    is_pattern_ = is_pattern_ || word == "pattern";
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(expect({"matrix"}));
  RETURN_IF_ERROR(expect({"coordinate"}));
  RETURN_IF_ERROR(expect({"real", "integer", "pattern"}));
  return expect({"general"});
}

absl::Status MatrixMarketReader::read_size() {
  constexpr std::string_view kExpected = "the numbers of rows, columns and entries";
  std::string_view line;
  const absl::StatusOr<bool> more = next_line(line);
  if (!more.ok()) return more.status();
  if (!*more) return lines_->error(kExpected, "the end of the file");
  std::string_view rest = line;
  for (std::uint64_t* const number : {&rows_, &columns_, &entries_}) {
    const std::optional<std::uint64_t> parsed = base::parse_decimal<std::uint64_t>(next_field(rest));
    if (!parsed) return lines_->error(kExpected, line);
    *number = *parsed;
  }
  return next_field(rest).empty() ? absl::OkStatus() : lines_->error(kExpected, line);
}

absl::StatusOr<bool> MatrixMarketReader::next_line(std::string_view& line) {
  while (true) {
    const absl::StatusOr<bool> more = lines_->next(line);
    if (!more.ok() || !*more || !is_comment_or_blank(line)) return more;
  }
}

absl::StatusOr<bool> MatrixMarketReader::next(MatrixMarketEntry& entry) {
  std::string_view line;
  const absl::StatusOr<bool> more = next_line(line);
  if (!more.ok()) return more.status();
  const auto wrong_number = [&](std::string_view found) {
    return lines_->error(fmt::format("{} entries, as the size says", entries_), found);
  };
  if (!*more) {
    if (seen_ != entries_) return wrong_number(fmt::format("{} at the end of the file", seen_));
    return false;
  }
  if (seen_ == entries_) return wrong_number("more");
  std::string_view rest = line;
  const std::optional<std::uint64_t> row = base::parse_decimal<std::uint64_t>(next_field(rest));
  const std::optional<std::uint64_t> column = base::parse_decimal<std::uint64_t>(next_field(rest));
  entry.value = next_field(rest);
  if (!row || !column || entry.value.empty() != is_pattern_ || !next_field(rest).empty()) {
    return lines_->error(is_pattern_ ? "row and column" : "row, column and value", line);
  }
  if (*row < 1 || *row > rows_) return lines_->error(fmt::format("a row from 1 to {}", rows_), line);
  if (*column < 1 || *column > columns_)
    return lines_->error(fmt::format("a column from 1 to {}", columns_), line);
  entry.row = *row;
  entry.column = *column;
  ++seen_;
  return true;
}

}  // namespace verbena::apps
