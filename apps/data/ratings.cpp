#include "apps/data/ratings.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "apps/data/line_reader.hpp"
#include "apps/data/name_ids.hpp"
#include "apps/data/random.hpp"

namespace verbena::apps {
namespace {

struct Format {
  std::string_view separator;
  std::string_view name;
  bool quotes;
};
/// In the order in which the first line is searched for them.
constexpr std::array<Format, 4> kFormats = {{
    {"::", "\"::\"", false},
    {"\t", "tabs", false},
    {"|", "\"|\"", false},
    {",", "commas", true},
}};
constexpr std::string_view kRatingFields = "user, item, rating";
constexpr std::size_t kNeededFields = 3;

const Format* find_format(std::string_view line) {
  for (const Format& format : kFormats) {
    if (line.find(format.separator) != std::string_view::npos) return &format;
  }
  return nullptr;
}

/// Takes a quoted field off the front of `rest`, which begins with a quote; "" stands for one quote. False
/// where the closing quote is missing or is not followed by a separator.
bool take_quoted(std::string_view& rest, std::string_view separator, std::string& field) {
  std::size_t at = 1;
  for (; at < rest.size(); ++at) {
    if (rest[at] == '"') {
      if (at + 1 == rest.size() || rest[at + 1] != '"') break;
      ++at;
    }
    field += rest[at];
  }
  if (at >= rest.size()) return false;
  rest.remove_prefix(at + 1);
  return rest.empty() || rest.starts_with(separator);
}

/// The first three fields of a line; `count` is of all. False for a quoted field that does not end.
class Fields {
 public:
  bool split(std::string_view line, const Format& format) {
    count_ = 0;
    for (std::string_view rest = line;;) {
      std::string& unquoted = count_ < kNeededFields ? unquoted_[count_] : ignored_;
      std::string_view field;
      if (format.quotes && rest.starts_with('"')) {
        unquoted.clear();
        if (!take_quoted(rest, format.separator, unquoted)) return false;
        field = unquoted;
      } else {
        const std::size_t end = std::min(rest.find(format.separator), rest.size());
        field = rest.substr(0, end);
        rest.remove_prefix(end);
      }
      if (count_ < kNeededFields) fields_[count_] = field;
      ++count_;
      if (rest.empty()) return true;
      rest.remove_prefix(format.separator.size());
    }
  }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::string_view operator[](std::size_t n) const { return fields_[n]; }

 private:
  std::array<std::string_view, kNeededFields> fields_;
  std::array<std::string, kNeededFields> unquoted_;
  std::string ignored_;
  std::size_t count_ = 0;
};

std::optional<float> parse_rating(std::string_view text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool held_out(const RatingsOptions& options, std::uint64_t line_number) {
  return to_unit_interval(mix(mix(options.seed) + line_number)) < options.test_fraction;
}

class RatingsReader {
 public:
  RatingsReader(const RatingsOptions& options, LineReader lines)
      : options_(options), lines_(std::move(lines)) {}

  absl::StatusOr<Ratings> read() && {
    std::string_view line;
    while (true) {
      const absl::StatusOr<bool> more = lines_.next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (absl::Status status = read_line(line); !status.ok()) return status;
    }
    return finish();
  }

 private:
  absl::Status read_line(std::string_view line) {
    // Blank lines are at home at the end of a file only.
    if (blank_lines_ > 0 && !line.empty())
      return lines_.error(expected_fields(), "an empty line before this");
    if (line.empty() && lines_.line_number() > 1) {
      ++blank_lines_;
      return absl::OkStatus();
    }
    const bool first = format_ == nullptr;
    if (first) format_ = find_format(line);
    if (format_ == nullptr) {
      return lines_.error(fmt::format("{}, separated by tabs, \"::\", \"|\" or commas", kRatingFields), line);
    }
    if (!fields_.split(line, *format_)) return lines_.error("a closing quote and a comma", line);
    if (first) columns_ = fields_.count();
    if (fields_.count() < kNeededFields || fields_.count() != columns_) {
      return lines_.error(expected_fields(), line);
    }
    const std::optional<float> value = parse_rating(fields_[2]);
    if (first && !value.has_value() && is_header()) return absl::OkStatus();
    if (!value.has_value()) return lines_.error("a number as the rating", fields_[2]);
    if (fields_[0].empty() || fields_[1].empty()) return lines_.error("a user and an item", line);
    return add(*value);
  }

  /// The header of a file names its columns: no digit is in the third.
  [[nodiscard]] bool is_header() const {
    return fields_[2].find_first_of("0123456789") == std::string_view::npos && !fields_[2].empty();
  }

  [[nodiscard]] std::string expected_fields() const {
    if (columns_ > kNeededFields) {
      return fmt::format("{} and {} more, separated by {}", kRatingFields, columns_ - kNeededFields,
                         format_->name);
    }
    return fmt::format("{}, separated by {}", kRatingFields, format_->name);
  }

  absl::Status add(float value) {
    const std::optional<std::uint32_t> user = users_.id(fields_[0]);
    const std::optional<std::uint32_t> item = items_.id(fields_[1]);
    if (!user.has_value() || !item.has_value())
      return lines_.error("fewer than 2^32 users and items", "more");
    ratings_.user_train.resize(ratings_.user_names.size());
    ratings_.item_train.resize(ratings_.item_names.size());
    const bool test = held_out(options_, lines_.line_number());
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

  absl::StatusOr<Ratings> finish() {
    if (ratings_.total_train == 0) {
      return absl::InvalidArgumentError(fmt::format(
          "{}:{}: expected at least one rating to train on, found {} to test and then the end of the "
          "file",
          options_.path, lines_.line_number() + 1, ratings_.total_test));
    }
    const auto count = static_cast<double>(ratings_.total_train);
    const double mean_difference = sum_ / count;
    ratings_.train_mean = first_value_ + mean_difference;
    ratings_.train_deviation = std::sqrt(std::max(0.0, squares_ / count - mean_difference * mean_difference));
    return std::move(ratings_);
  }

  const RatingsOptions& options_;
  LineReader lines_;
  const Format* format_ = nullptr;
  std::size_t columns_ = kNeededFields;
  std::uint64_t blank_lines_ = 0;
  Fields fields_;
  Ratings ratings_;
  NameIds users_{ratings_.user_names};
  NameIds items_{ratings_.item_names};
  double first_value_ = 0;  // sums are of differences from it: they stay small where ratings are large
  double sum_ = 0;
  double squares_ = 0;
};

}  // namespace

absl::StatusOr<Ratings> read_ratings(const RatingsOptions& options, const ReadProgress& progress) {
  absl::StatusOr<LineReader> lines = LineReader::open(options.path, progress);
  if (!lines.ok()) return lines.status();
  return RatingsReader(options, *std::move(lines)).read();
}

}  // namespace verbena::apps
