// Matrix Market's coordinate format: a banner, comments, the size, then one entry a line. Rows and columns
// count from 1.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/data/line_reader.hpp"

namespace verbena::apps {

struct MatrixMarketEntry {
  std::uint64_t row = 0;  ///< from 1
  std::uint64_t column = 0;
  std::string_view value;  ///< a number; empty where the matrix is a pattern. Valid until the next call
};

/// Reads general matrices of real numbers, whole numbers or a pattern. Other kinds are refused; the error
/// names them.
class MatrixMarketReader {
 public:
  /// Reads the banner and the size. `lines` must outlive it.
  static absl::StatusOr<MatrixMarketReader> open(LineReader& lines);

  [[nodiscard]] std::uint64_t rows() const { return rows_; }
  [[nodiscard]] std::uint64_t columns() const { return columns_; }
  [[nodiscard]] bool is_pattern() const { return is_pattern_; }

  /// Returns false after the last entry. Errors "file:line: expected …, found …", also if there are fewer or
  /// more entries than the size says.
  absl::StatusOr<bool> next(MatrixMarketEntry& entry);

 private:
  explicit MatrixMarketReader(LineReader& lines) : lines_(&lines) {}
  absl::Status read_banner();
  absl::Status read_size();
  /// The next line that is neither empty nor a comment.
  absl::StatusOr<bool> next_line(std::string_view& line);

  LineReader* lines_;
  bool is_pattern_ = false;
  std::uint64_t rows_ = 0;
  std::uint64_t columns_ = 0;
  std::uint64_t entries_ = 0;
  std::uint64_t seen_ = 0;
};

}  // namespace verbena::apps
