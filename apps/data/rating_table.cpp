#include "apps/data/rating_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "apps/data/fields.hpp"
#include "apps/data/header.hpp"
#include "apps/data/known_formats.hpp"
#include "apps/data/numbers.hpp"

namespace verbena::apps {
namespace {

/// If several separators fit equally well, the first one is taken.
constexpr std::array<Separator, 6> kSeparators = {{{"\t", "tabs"},
                                                   {"::", "\"::\""},
                                                   {"|", "\"|\""},
                                                   {",", "commas", true},
                                                   {";", "semicolons", true},
                                                   {"", "blanks"}}};
constexpr std::size_t kNeededColumns = 3;
constexpr std::array<std::string_view, kNeededColumns> kThings = {"user", "item", "rating"};

constexpr std::string_view kUserNames[] = {"user",       "userid",   "uid",      "username",
                                           "reviewerid", "reviewer", "customer", "customerid",
                                           "rater",      "raterid",  "author"};
constexpr std::string_view kItemNames[] = {
    "item",     "itemid",     "iid",   "movie",   "movieid",  "product", "productid", "asin", "parentasin",
    "book",     "bookid",     "isbn",  "artist",  "artistid", "track",   "trackid",   "song", "songid",
    "business", "businessid", "anime", "animeid", "joke",     "jokeid",  "module",    "game", "gameid"};
constexpr std::string_view kRatingNames[] = {"rating", "ratings",    "bookrating", "score",
                                             "stars",  "star",       "value",      "overall",
                                             "weight", "preference", "starrating"};

/// Whether `field` is neither a number nor a word that stands for a missing number.
bool is_name_of_column(std::string_view field) {
  constexpr std::string_view kMissing[] = {"na", "n/a", "nan", "null", "none", "nil", "inf", "infinity"};
  std::string lower(trimmed(field));
  absl::AsciiStrToLower(&lower);
  lower.erase(0, std::min(lower.find_first_not_of("+-"), lower.size()));
  const bool is_missing = std::find(std::begin(kMissing), std::end(kMissing), lower) != std::end(kMissing);
  const bool has_digit = std::any_of(lower.begin(), lower.end(), absl::ascii_isdigit);
  const bool has_letter = std::any_of(lower.begin(), lower.end(), [](unsigned char c) {
    return absl::ascii_isalpha(c) || !absl::ascii_isascii(c);
  });
  return has_letter && !has_digit && !is_missing;
}

/// Finds the places by the columns' names, if all three names are there.
bool place_by_name(std::span<const std::string_view> fields, RatingLayout& layout) {
  const auto places = columns_by_name<kNeededColumns>(fields, {kUserNames, kItemNames, kRatingNames});
  if (!std::all_of(places.begin(), places.end(), [](const auto& place) { return place.has_value(); }))
    return false;
  for (std::size_t thing = 0; thing < places.size(); ++thing) layout.places[thing] = *places[thing];
  return true;
}

/// Finds a name that contradicts the usual places, if not all names are known.
std::optional<std::string_view> misplaced(std::span<const std::string_view> fields) {
  const auto places = columns_by_name<kNeededColumns>(fields, {kUserNames, kItemNames, kRatingNames});
  for (std::size_t thing = 0; thing < places.size(); ++thing) {
    if (places[thing].value_or(thing) != thing) return kThings[thing];
  }
  return std::nullopt;
}

struct Fit {
  std::size_t ratings = 0;  ///< lines with a number where the rating is
  std::size_t wide = 0;     ///< lines with enough columns
  bool named = false;       ///< a header names user, item and rating
  RatingLayout layout;
  friend bool operator<(const Fit& a, const Fit& b) {
    return std::tie(a.ratings, a.wide) < std::tie(b.ratings, b.wide);
  }
};

Fit fit_of(const Separator& separator, std::span<const std::string> lines) {
  Fit fit{.layout = {.separator = separator}};
  SplitLine line;
  for (std::size_t n = 0; n < lines.size(); ++n) {
    const bool splits = line.split(lines[n], separator);
    if (n == 0) fit.layout.columns = std::max(line.count(), kNeededColumns);
    if (n == 0) {
      fit.named = place_by_name(line.fields(), fit.layout);
      fit.layout.has_header =
          fit.named || (line.count() >= kNeededColumns && is_name_of_column(line.fields()[2]));
    }
    if (line.count() < kNeededColumns) continue;
    ++fit.wide;
    const std::size_t place = fit.layout.places[2];
    const bool has_rating = splits && line.count() == fit.layout.columns &&
                            parse_float(trimmed(line.fields()[place])).has_value();
    if (has_rating) ++fit.ratings;
  }
  return fit;
}

/// The lines without empty ones, except the first line.
std::vector<std::string> filled_lines(std::span<const std::string> lines) {
  std::vector<std::string> filled;
  for (const std::string& line : lines) {
    if (!line.empty() || filled.empty()) filled.push_back(line);
  }
  return filled;
}

/// Whether a field has several words.
bool has_prose(const Separator& separator, std::span<const std::string> lines) {
  SplitLine line;
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& text) {
    if (!line.split(text, separator)) return true;
    const std::span<const std::string_view> fields = line.fields();
    return std::any_of(fields.begin(), fields.end(), [](std::string_view field) {
      return trimmed(field).find_first_of(kBlanks) != std::string_view::npos;
    });
  });
}

}  // namespace

std::string RatingLayout::description() const {
  std::array<std::size_t, kNeededColumns> order = {0, 1, 2};
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return places[a] < places[b]; });
  std::string text = fmt::format("{}, {}, {}", kThings[order[0]], kThings[order[1]], kThings[order[2]]);
  if (columns > kNeededColumns) text += fmt::format(" and {} more", columns - kNeededColumns);
  return fmt::format("{}, separated by {}", text, separator.name);
}

bool is_clearly_a_table(std::span<const std::string> first_lines) {
  const std::vector<std::string> filled = filled_lines(first_lines);
  return filled.size() >= 2 &&
         std::any_of(kSeparators.begin(), kSeparators.end(), [&](const Separator& separator) {
           if (separator.text.empty()) return false;
           const Fit fit = fit_of(separator, filled);
           const std::size_t rows = filled.size() - (fit.layout.has_header ? 1 : 0);
           return fit.ratings == rows && (fit.named || !has_prose(separator, filled));
         });
}

absl::StatusOr<RatingLayout> find_layout(const std::string& path, std::span<const std::string> first_lines) {
  const std::vector<std::string> filled = filled_lines(first_lines);
  const auto error = [&](std::string_view expected, std::string_view found) {
    return absl::InvalidArgumentError(
        fmt::format("{}:1: expected {}, found \"{}\"", path, expected, LineReader::printable(found)));
  };
  Fit best;
  for (const Separator& separator : kSeparators) {
    const Fit fit = fit_of(separator, filled);
    if (best < fit) best = fit;
  }
  if (best.ratings == 0) {
    const FoundFormat found = format_by_shape(first_lines);
    if (found.format != Format::kUnknown) return wrong_format(path, "a table of ratings", found);
  }
  if (best.wide == 0) {
    return error("user, item, rating, separated by tabs, \"::\", \"|\", commas, semicolons or blanks",
                 filled.empty() ? std::string_view() : filled[0]);
  }
  if (!best.layout.has_header) return best.layout;
  SplitLine header;
  header.split(filled[0], best.layout.separator);
  RatingLayout by_name;
  const std::optional<std::string_view> thing =
      place_by_name(header.fields(), by_name) ? std::nullopt : misplaced(header.fields());
  if (!thing.has_value()) return best.layout;
  return error(
      fmt::format("columns called user, item and rating, or these three first; the {} is elsewhere", *thing),
      filled[0]);
}

absl::StatusOr<float> parse_rating(std::string_view field, const LineReader& lines) {
  constexpr float kExact = 1U << 24U;  // beyond it, not every whole number is a float
  field = trimmed(field);
  const std::optional<float> value = parse_float(field);
  if (value.has_value() && std::abs(*value) < kExact) return *value;
  const std::optional<double> exact = parse_double(field);
  if (!exact.has_value()) return lines.error("a number as the rating", field);
  if (value.has_value() && double{*value} == *exact) return *value;
  return lines.error("a rating that single precision holds (whole numbers up to 16777216)", field);
}

}  // namespace verbena::apps
