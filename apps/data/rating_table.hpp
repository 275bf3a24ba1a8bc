// The lines of a table of ratings: what separates the columns, which of them are wanted, and what is in them.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "apps/data/line_reader.hpp"

namespace verbena::apps {

struct Separator {
  std::string_view text;  ///< empty: any number of blanks
  std::string_view name;
  bool quotes = false;  ///< fields may be quoted
};

/// Splits one line after the other into fields.
class SplitLine {
 public:
  /// Returns false if a quoted field does not end. The fields are valid until the next call.
  bool split(std::string_view line, const Separator& separator);
  /// count() is the number of all fields, but fields() has only the first kKept.
  static constexpr std::size_t kKept = 64;
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::span<const std::string_view> fields() const {
    return std::span(fields_).first(std::min(count_, kKept));
  }

 private:
  bool split_quoted(std::string_view line, const Separator& separator);
  void add(std::string_view field);

  std::array<std::string_view, kKept> fields_;
  std::deque<std::string> unquoted_;
  std::size_t used_ = 0;  // of unquoted_
  std::size_t count_ = 0;
};

/// How the lines of a file are to be read.
struct RatingLayout {
  Separator separator;
  std::size_t columns = 3;
  std::array<std::size_t, 3> places = {0, 1, 2};  ///< the columns of user, item and rating
  bool has_header = false;

  /// "user, item, rating and 1 more, separated by tabs"
  [[nodiscard]] std::string description() const;
};

/// The layout that fits the first lines best: it has three columns or more, and a number where the rating is.
/// A header may name the columns in any order. INVALID_ARGUMENT "path:1: …" if no layout fits at all.
absl::StatusOr<RatingLayout> find_layout(const std::string& path, std::span<const std::string> first_lines);

/// Whether these lines can be nothing but a table like one of ratings: a separator other than blanks, a
/// number in each line where the rating would be, and either a header that names the columns or no field of
/// several words. Two lines are needed.
bool is_clearly_a_table(std::span<const std::string> first_lines);

/// What is wrong with it is said as "file:line: …".
absl::StatusOr<float> parse_rating(std::string_view field, const LineReader& lines);

}  // namespace verbena::apps
