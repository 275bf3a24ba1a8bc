#include "apps/data/ratings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/data/known_formats.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/matrix_market.hpp"
#include "apps/data/name_ids.hpp"
#include "apps/data/random.hpp"
#include "apps/data/rating_table.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

/// What a file's ratings are used for.
enum class Use : std::uint8_t { kSplit, kTrain, kTest };

class RatingsCollector {
 public:
  explicit RatingsCollector(const RatingsOptions& options) : options_(options) {}

  absl::Status add(std::string_view user_name, std::string_view item_name, float value, Use use,
                   const LineReader& lines) {
    const std::optional<std::uint32_t> user = users_.id(user_name);
    const std::optional<std::uint32_t> item = items_.id(item_name);
    if (!user.has_value() || !item.has_value()) return lines.error("fewer than 2^32 users and items", "more");
    ratings_.user_train.resize(ratings_.user_names.size());
    ratings_.item_train.resize(ratings_.item_names.size());
    const bool test = use == Use::kTest || (use == Use::kSplit && is_held_out(lines.line_number()));
    if (test) {
      ++ratings_.total_test;
    } else {
      if (ratings_.total_train == 0) first_value_ = value;
      const double difference = double{value} - first_value_;
      sum_ += difference;
      squares_ += difference * difference;
      ++ratings_.total_train;
      ++ratings_.user_train[*user];
      ++ratings_.item_train[*item];
    }
    if (*user % options_.parts == options_.part) {
      (test ? ratings_.test : ratings_.train).push_back({*user, *item, value});
    }
    return absl::OkStatus();
  }
  void add_format(std::string_view format) {
    if (ratings_.format.empty()) {
      ratings_.format = format;
    } else if (ratings_.format != format) {
      ratings_.format += fmt::format("; test: {}", format);
    }
  }

  Ratings finish() && {
    const auto count = static_cast<double>(ratings_.total_train);
    const double mean_difference = sum_ / count;
    ratings_.train_mean = first_value_ + mean_difference;
    ratings_.train_deviation = std::sqrt(std::max(0.0, squares_ / count - mean_difference * mean_difference));
    return std::move(ratings_);
  }
  [[nodiscard]] std::uint64_t total(Use use) const {
    return use == Use::kTest ? ratings_.total_test : ratings_.total_train;
  }

 private:
  [[nodiscard]] bool is_held_out(std::uint64_t line_number) const {
    return to_unit_interval(mix(mix(options_.seed) + line_number)) < options_.test_fraction;
  }

  const RatingsOptions& options_;
  Ratings ratings_;
  NameIds users_{ratings_.user_names};
  NameIds items_{ratings_.item_names};
  double first_value_ = 0;  // sums are of differences from it, so that they stay small if ratings are large
  double sum_ = 0;
  double squares_ = 0;
};

/// Rows are users, columns are items.
absl::Status read_matrix(LineReader& lines, Use use, RatingsCollector& collector) {
  absl::StatusOr<MatrixMarketReader> matrix = MatrixMarketReader::open(lines);
  if (!matrix.ok()) return matrix.status();
  if (matrix->is_pattern()) return lines.error("a matrix with values", "pattern");
  collector.add_format("Matrix Market");
  MatrixMarketEntry entry;
  while (true) {
    const absl::StatusOr<bool> more = matrix->next(entry);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
    const absl::StatusOr<float> value = parse_rating(entry.value, lines);
    if (!value.ok()) return value.status();
    absl::Status status =
        collector.add(std::to_string(entry.row), std::to_string(entry.column), *value, use, lines);
    if (!status.ok()) return status;
  }
}

class TableReader {
 public:
  TableReader(LineReader& lines, const RatingLayout& layout, Use use, RatingsCollector& collector)
      : lines_(lines), layout_(layout), use_(use), collector_(collector) {}

  absl::Status read() {
    collector_.add_format(layout_.description());
    std::string_view line;
    while (true) {
      const absl::StatusOr<bool> more = lines_.next(line);
      if (!more.ok()) return more.status();
      if (!*more) return absl::OkStatus();
      RETURN_IF_ERROR(read_line(line));
    }
  }

 private:
  absl::Status read_line(std::string_view line) {
    const bool first = lines_.line_number() == 1;
    // Blank lines are allowed only at the end of a file.
    if (ended_ && !line.empty()) return lines_.error(layout_.description(), "an empty line before this");
    if (line.empty() && !first) {
      ended_ = true;
      return absl::OkStatus();
    }
    if (!fields_.split(line, layout_.separator)) {
      return lines_.error(fmt::format("a closing quote and {}", layout_.separator.name), line);
    }
    if (fields_.count() != layout_.columns) return lines_.error(layout_.description(), line);
    if (first && layout_.has_header) return absl::OkStatus();
    const auto [user, item, rating] = layout_.places;
    const std::span<const std::string_view> fields = fields_.fields();
    const absl::StatusOr<float> value = parse_rating(fields[rating], lines_);
    if (!value.ok()) return value.status();
    if (fields[user].empty() || fields[item].empty()) return lines_.error("a user and an item", line);
    return collector_.add(fields[user], fields[item], *value, use_, lines_);
  }

  LineReader& lines_;
  const RatingLayout& layout_;
  Use use_;
  RatingsCollector& collector_;
  bool ended_ = false;
  SplitLine fields_;
};

absl::Status read_file(const std::string& path, Use use, const ReadProgress& progress,
                       RatingsCollector& collector) {
  const absl::StatusOr<std::vector<std::string>> first = first_lines(path);
  if (!first.ok()) return first.status();
  absl::StatusOr<LineReader> lines = LineReader::open(path, progress);
  if (!lines.ok()) return lines.status();
  const FoundFormat banner = format_by_banner(*first);
  absl::Status status;
  if (banner.format == Format::kMatrixMarket) {
    status = read_matrix(*lines, use, collector);
  } else if (banner.format != Format::kUnknown) {
    status = wrong_format(path, "a table of ratings", banner);
  } else if (!first->empty()) {
    const absl::StatusOr<RatingLayout> layout = find_layout(path, *first);
    if (!layout.ok()) return layout.status();
    status = TableReader(*lines, *layout, use, collector).read();
  }
  if (!status.ok() || collector.total(use) > 0) return status;
  const std::string_view purpose = use == Use::kTest ? "test" : "train on";
  return absl::InvalidArgumentError(
      fmt::format("{}:{}: expected at least one rating to {}, found the end of the file", path,
                  lines->line_number() + 1, purpose));
}

}  // namespace

absl::StatusOr<Ratings> read_ratings(const RatingsOptions& options, const ReadProgress& progress) {
  RatingsCollector collector(options);
  const bool is_split = options.test_path.empty();
  absl::Status status = read_file(options.path, is_split ? Use::kSplit : Use::kTrain, progress, collector);
  if (status.ok() && !is_split) status = read_file(options.test_path, Use::kTest, progress, collector);
  if (!status.ok()) return status;
  return std::move(collector).finish();
}

}  // namespace verbena::apps
