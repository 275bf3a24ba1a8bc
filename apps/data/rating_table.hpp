// The lines of a table of ratings: what separates the columns, which of them are wanted, and what is in them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "apps/data/line_reader.hpp"
#include "apps/data/separated_fields.hpp"

namespace verbena::apps {

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
