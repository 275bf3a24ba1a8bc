#include "apps/data/example_formats.hpp"

#include <fmt/format.h>

#include <array>
#include <cassert>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>

#include "apps/data/fields.hpp"
#include "apps/data/header.hpp"
#include "apps/data/numbers.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

/// Whether the label is positive; nullopt if it is none.
std::optional<bool> parse_label(std::string_view text) {
  if (text == "1" || text == "+1") return true;
  if (text == "0" || text == "-1") return false;
  const std::optional<float> label = parse_float(text);
  if (!label || (std::abs(*label) != 1 && *label != 0)) return std::nullopt;
  return *label == 1;
}

/// Sets `is_positive` if `text` is a label.
absl::Status take_label(std::string_view text, const LineReader& lines, bool& is_positive) {
  const std::optional<bool> label = parse_label(text);
  if (!label) return lines.error("a label 1, 0 or -1", text);
  is_positive = *label;
  return absl::OkStatus();
}

/// A feature of value 0 says the same as none.
void add_feature(Key key, float value, std::vector<Feature>& features) {
  if (value != 0) features.push_back({key, value});
}

/// Adds "index:value" of a slot. Returns false if `field` is something else.
bool add_indexed(std::uint64_t slot, std::string_view field, std::vector<Feature>& features) {
  const std::size_t colon = field.find(':');
  if (colon == std::string_view::npos) return false;
  const auto index = base::parse_decimal<std::uint64_t>(field.substr(0, colon));
  const std::optional<float> value = parse_float(field.substr(colon + 1));
  if (!index || *index > kMostIndex || !value) return false;
  add_feature(feature_key(slot, *index), *value, features);
  return true;
}

/// "label index:value …  # comment"
class LibsvmParser final : public ExampleParser {
 public:
  using ExampleParser::ExampleParser;

  absl::StatusOr<bool> parse(std::string_view line, ExampleLine& example) override {
    const std::size_t end = line.find('#');
    std::string_view rest = line.substr(0, end);
    const std::string_view label = next_field(rest);
    if (label.empty() && end != std::string_view::npos) return false;  // a comment
    RETURN_IF_ERROR(take_label(label, lines_, example.is_positive));
    for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest)) {
      if (add_indexed(0, field, example.features) || field.starts_with("qid:")) continue;
      return lines_.error(
          fmt::format("index:value, an index up to {} and a number that single precision holds", kMostIndex),
          field);
    }
    return true;
  }
  absl::StatusOr<bool> skip(std::string_view line) override {
    const std::size_t end = line.find('#');
    std::string_view rest = line.substr(0, end);
    return end == std::string_view::npos || !next_field(rest).empty();
  }
};

/// "label field:index:value …"
class LibffmParser final : public ExampleParser {
 public:
  using ExampleParser::ExampleParser;

  absl::StatusOr<bool> parse(std::string_view line, ExampleLine& example) override {
    RETURN_IF_ERROR(take_label(next_field(line), lines_, example.is_positive));
    for (std::string_view field = next_field(line); !field.empty(); field = next_field(line)) {
      const std::size_t colon = field.find(':');
      const auto slot = base::parse_decimal<std::uint64_t>(field.substr(0, colon));
      const bool has_slot = colon != std::string_view::npos && slot && *slot <= kMostSlot;
      if (has_slot && add_indexed(*slot, field.substr(colon + 1), example.features)) continue;
      return lines_.error(fmt::format("field:index:value, a field up to {}, an index up to {} and a number "
                                      "that single precision holds",
                                      kMostSlot, kMostIndex),
                          field);
    }
    return true;
  }
};

constexpr std::size_t kCriteoNumbers = 13;
constexpr std::size_t kCriteoCategories = 26;

/// A label, numbers and categories, separated by tabs.
class CriteoParser final : public ExampleParser {
 public:
  using ExampleParser::ExampleParser;

  absl::StatusOr<bool> parse(std::string_view line, ExampleLine& example) override {
    fields_.split(line, {"\t", "tabs"});
    const std::span<const std::string_view> fields = fields_.fields();
    if (fields_.count() != 1 + kCriteoNumbers + kCriteoCategories) {
      return lines_.error(fmt::format("a label, {} numbers and {} categories, separated by tabs",
                                      kCriteoNumbers, kCriteoCategories),
                          line);
    }
    RETURN_IF_ERROR(take_label(fields[0], lines_, example.is_positive));
    for (std::size_t slot = 1; slot <= kCriteoNumbers; ++slot) {
      const std::optional<std::uint64_t> index = category_of_number(fields[slot]);
      if (!index) return lines_.error("a whole number or nothing", fields[slot]);
      example.features.push_back({feature_key(slot, *index), 1});
    }
    for (std::size_t slot = 1 + kCriteoNumbers; slot < fields.size(); ++slot) {
      example.features.push_back({text_key(slot, fields[slot]), 1});
    }
    return true;
  }

 private:
  /// As in the winning entry of 2014 (github.com/ycjuan/kaggle-2014-criteo, converters/common.py), where what
  /// is rounded and what is not are different categories, too: 3 becomes 1, but is no 1.
  static std::optional<std::uint64_t> category_of_number(std::string_view field) {
    constexpr std::uint64_t kNone = 0;
    constexpr std::int64_t kFirstSmall = 4'096;  // ln(2^63)^2 is 1,906
    if (field.empty()) return kNone;
    const auto number = base::parse_decimal<std::int64_t>(field);
    if (!number || *number < -(std::int64_t{1} << 51U)) return std::nullopt;
    if (*number <= 2) return static_cast<std::uint64_t>(kFirstSmall - *number);
    const double logarithm = std::log(static_cast<double>(*number));
    return static_cast<std::uint64_t>(logarithm * logarithm);
  }

  SplitLine fields_;
};

struct HourOfWeek {
  unsigned hour = 0;     ///< 0 … 23
  unsigned weekday = 0;  ///< 1 … 7, from Monday
};

/// "YYMMDDHH", of this century.
std::optional<HourOfWeek> parse_hour(std::string_view text) {
  const auto number = base::parse_decimal<unsigned>(text);
  if (!number || text.size() != 8) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(2000 + *number / 1'000'000)),
                                         std::chrono::month(*number / 10'000 % 100),
                                         std::chrono::day(*number / 100 % 100)};
  const unsigned hour = *number % 100;
  if (!date.ok() || hour >= 24) return std::nullopt;
  return HourOfWeek{hour, std::chrono::weekday(std::chrono::sys_days(date)).iso_encoding()};
}

/// Commas, and a header that names the columns.
class AvazuParser final : public ExampleParser {
 public:
  using ExampleParser::ExampleParser;

  absl::StatusOr<bool> parse(std::string_view line, ExampleLine& example) override {
    if (!fields_.split(line, {",", "commas", true})) return lines_.error("a closing quote and commas", line);
    const std::span<const std::string_view> fields = fields_.fields();
    if (slots_.empty()) {
      RETURN_IF_ERROR(read_header(line));
      return false;
    }
    if (fields_.count() != slots_.size()) {
      return lines_.error(fmt::format("{} fields, separated by commas", slots_.size()), line);
    }
    RETURN_IF_ERROR(take_label(fields[click_], lines_, example.is_positive));
    for (std::size_t column = 0; column < fields.size(); ++column) {
      if (column == click_ || column == id_) continue;
      if (column != hour_) {
        example.features.push_back({slots_[column].key(fields[column]), 1});
        continue;
      }
      const std::optional<HourOfWeek> hour = parse_hour(fields[column]);
      if (!hour) return lines_.error("an hour as YYMMDDHH", fields[column]);
      example.features.push_back({feature_key(slots_[column].slot, hour->hour), 1});
      example.features.push_back({feature_key(weekday_.slot, hour->weekday), 1});
    }
    return true;
  }
  absl::StatusOr<bool> skip(std::string_view line) override {
    if (!slots_.empty()) return true;
    ExampleLine none;
    return parse(line, none);  // the header
  }

 private:
  absl::Status read_header(std::string_view line) {
    constexpr std::string_view kClick[] = {"click"};
    constexpr std::string_view kId[] = {"id"};
    constexpr std::string_view kHour[] = {"hour"};
    if (fields_.count() > SplitLine::kKept) {
      return lines_.error(fmt::format("{} columns at most", SplitLine::kKept), line);
    }
    const auto [click, id, hour] = columns_by_name<3>(fields_.fields(), {kClick, kId, kHour});
    if (!click) return lines_.error("a header with a column click, separated by commas", line);
    click_ = *click;
    id_ = id;
    hour_ = hour;
    for (const std::string_view name : fields_.fields()) slots_.emplace_back(name);
    return absl::OkStatus();
  }

  SplitLine fields_;
  std::vector<NamedSlot> slots_;  // of each column; by name, so that their order does not matter
  const NamedSlot weekday_{"weekday"};
  std::size_t click_ = 0;
  std::optional<std::size_t> id_;
  std::optional<std::size_t> hour_;
};

/// "label [weight [base]] ['tag]|namespace[:weight] feature[:value] …|namespace …"
class VowpalWabbitParser final : public ExampleParser {
 public:
  using ExampleParser::ExampleParser;

  absl::StatusOr<bool> parse(std::string_view line, ExampleLine& example) override {
    std::size_t bar = line.find('|');
    if (bar == std::string_view::npos) return lines_.error("label |namespace feature:value …", line);
    RETURN_IF_ERROR(parse_front(line.substr(0, bar), example));
    while (bar != std::string_view::npos) {
      line.remove_prefix(bar + 1);
      bar = line.find('|');
      RETURN_IF_ERROR(parse_namespace(line.substr(0, bar), example.features));
    }
    return true;
  }

 private:
  /// What is before the first bar.
  absl::Status parse_front(std::string_view front, ExampleLine& example) {
    std::array<std::string_view, 4> fields;  // label, weight, base, tag
    std::size_t count = 0;
    std::string_view rest = front;
    for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest)) {
      if (count == fields.size()) return lines_.error("label, weight, base and tag before the bar", front);
      fields[count++] = field;
    }
    // A tag that touches the bar needs no quote.
    const bool is_touched = count > 0 && kBlanks.find(front.back()) == std::string_view::npos;
    if (is_touched || (count > 0 && fields[count - 1].starts_with('\''))) --count;
    if (count == 0) return lines_.error("a label 1, 0 or -1, which does not touch the bar", front);
    RETURN_IF_ERROR(take_label(fields[0], lines_, example.is_positive));
    if (count > 1) {
      const std::optional<float> weight = parse_float(fields[1]);
      if (!weight || *weight < 0) return lines_.error("a weight, 0 or more", fields[1]);
      example.weight = *weight;
    }
    if (count > 2 && parse_float(fields[2]) != 0.0F) return lines_.error("no base but 0", fields[2]);
    if (count > 3) return lines_.error("a tag that begins with a quote or touches the bar", fields[3]);
    return absl::OkStatus();
  }

  /// What is between two bars.
  absl::Status parse_namespace(std::string_view rest, std::vector<Feature>& features) {
    const bool has_name = !rest.empty() && kBlanks.find(rest.front()) == std::string_view::npos;
    const std::string_view head = has_name ? next_field(rest) : std::string_view();
    const std::size_t end = head.find(':');
    const NamedSlot slot(head.substr(0, end));
    std::optional<float> scale = 1.0F;
    if (end != std::string_view::npos) scale = parse_float(head.substr(end + 1));
    if (!scale || end == 0) return lines_.error("namespace or namespace:weight", head);
    for (std::string_view field = next_field(rest); !field.empty(); field = next_field(rest)) {
      const std::size_t colon = field.rfind(':');
      std::optional<float> value = 1.0F;
      if (colon != std::string_view::npos) value = parse_float(field.substr(colon + 1));
      if (!value || colon == 0 || !std::isfinite(*value * *scale)) {
        return lines_.error("feature or feature:value, a number that single precision holds", field);
      }
      add_feature(slot.key(field.substr(0, colon)), *value * *scale, features);
    }
    return absl::OkStatus();
  }
};

/// A table of user, item and rating.
class RatingsParser final : public ExampleParser {
 public:
  RatingsParser(const RatingLayout& layout, float positive, const LineReader& lines)
      : ExampleParser(lines), layout_(layout), positive_(positive) {}

  absl::StatusOr<bool> parse(std::string_view line, ExampleLine& example) override {
    constexpr std::uint64_t kUserSlot = 1;
    constexpr std::uint64_t kItemSlot = 2;
    if (!fields_.split(line, layout_.separator)) {
      return lines_.error(fmt::format("a closing quote and {}", layout_.separator.name), line);
    }
    if (fields_.count() != layout_.columns) return lines_.error(layout_.description(), line);
    if (lines_.line_number() == 1 && layout_.has_header) return false;
    const auto [user, item, rating] = layout_.places;
    const std::span<const std::string_view> fields = fields_.fields();
    const absl::StatusOr<float> value = parse_rating(fields[rating], lines_);
    if (!value.ok()) return value.status();
    if (fields[user].empty() || fields[item].empty()) return lines_.error("a user and an item", line);
    example.is_positive = *value >= positive_;
    example.features.push_back({text_key(kUserSlot, fields[user]), 1});
    example.features.push_back({text_key(kItemSlot, fields[item]), 1});
    return true;
  }
  absl::StatusOr<bool> skip(std::string_view /*line*/) override {
    return lines_.line_number() > 1 || !layout_.has_header;
  }

 private:
  const RatingLayout layout_;
  const float positive_;
  SplitLine fields_;
};

}  // namespace

std::unique_ptr<ExampleParser> make_example_parser(ExampleFormat format, const LineReader& lines) {
  switch (format) {
    case ExampleFormat::kLibsvm:
      return std::make_unique<LibsvmParser>(lines);
    case ExampleFormat::kLibffm:
      return std::make_unique<LibffmParser>(lines);
    case ExampleFormat::kCriteo:
      return std::make_unique<CriteoParser>(lines);
    case ExampleFormat::kAvazu:
      return std::make_unique<AvazuParser>(lines);
    case ExampleFormat::kVowpalWabbit:
      return std::make_unique<VowpalWabbitParser>(lines);
    case ExampleFormat::kAuto:
    case ExampleFormat::kRatings:
      break;
  }
  assert(false);
  return nullptr;
}

std::unique_ptr<ExampleParser> make_ratings_parser(const RatingLayout& layout, float positive,
                                                   const LineReader& lines) {
  return std::make_unique<RatingsParser>(layout, positive, lines);
}

}  // namespace verbena::apps
