#include "apps/data/examples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include "apps/data/example_formats.hpp"
#include "apps/data/known_formats.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/numbers.hpp"
#include "apps/data/rating_table.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

struct ExampleFormatNames {
  ExampleFormat format;
  std::string_view option;
  std::string_view name;  ///< for people
};
constexpr ExampleFormatNames kExampleFormats[] = {
    {ExampleFormat::kAuto, "auto",
     "LIBSVM, LIBFFM, Criteo's or Avazu's clicks, Vowpal Wabbit or a table of ratings"},
    {ExampleFormat::kLibsvm, "libsvm", "LIBSVM"},
    {ExampleFormat::kLibffm, "libffm", "LIBFFM"},
    {ExampleFormat::kCriteo, "criteo", "Criteo's clicks"},
    {ExampleFormat::kAvazu, "avazu", "Avazu's clicks"},
    {ExampleFormat::kVowpalWabbit, "vw", "Vowpal Wabbit"},
    {ExampleFormat::kRatings, "ratings", "a table of ratings"},
};

std::string_view name_of(ExampleFormat format) {
  return std::find_if(std::begin(kExampleFormats), std::end(kExampleFormats),
                      [&](const ExampleFormatNames& names) { return names.format == format; })
      ->name;
}

/// Whether a line has a number where the layout has the rating.
bool has_rating(std::span<const std::string> lines, const RatingLayout& layout) {
  SplitLine fields;
  return std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
    return fields.split(line, layout.separator) && fields.count() == layout.columns &&
           parse_float(fields.fields()[layout.places[2]]).has_value();
  });
}

/// kAuto if the lines are of none of the formats.
ExampleFormat find_example_format(const std::string& path, std::span<const std::string> lines,
                                  const FoundFormat& found) {
  switch (found.format) {
    case Format::kSvmLight:
      return ExampleFormat::kLibsvm;
    case Format::kLibffm:
      return ExampleFormat::kLibffm;
    case Format::kCriteo:
      return ExampleFormat::kCriteo;
    case Format::kAvazu:
      return ExampleFormat::kAvazu;
    case Format::kVowpalWabbit:
      return ExampleFormat::kVowpalWabbit;
    case Format::kUnknown:
      break;
    default:
      return ExampleFormat::kAuto;
  }
  const absl::StatusOr<RatingLayout> layout = find_layout(path, lines);
  return layout.ok() && has_rating(lines, *layout) ? ExampleFormat::kRatings : ExampleFormat::kAuto;
}

/// Puts the features in the order of their keys, and adds up those of one key. Returns false if a sum is too
/// large.
bool merge_features(std::vector<Feature>& features) {
  const auto is_before = [](const Feature& a, const Feature& b) {
    // By value, too: a sum of floats depends on their order, which must be the same everywhere.
    return std::tie(a.key, a.value) < std::tie(b.key, b.value);
  };
  std::sort(features.begin(), features.end(), is_before);
  auto end = features.begin();
  for (auto feature = features.begin(); feature != features.end();) {
    Feature sum = *feature;
    while (++feature != features.end() && feature->key == sum.key) sum.value += feature->value;
    if (!std::isfinite(sum.value)) return false;
    if (sum.value != 0) *end++ = sum;
  }
  features.erase(end, features.end());
  return true;
}

class ExamplesReader {
 public:
  ExamplesReader(const ExamplesOptions& options, absl::FunctionRef<absl::Status(const Example&)> use)
      : options_(options), use_(use), format_(options.format) {}

  /// Finds the format, which must be that of the files before, and the layout if it is ratings.
  absl::Status look_at(const std::string& path) {
    const absl::StatusOr<std::vector<std::string>> lines = first_lines(path);
    if (!lines.ok()) return lines.status();
    if (const FoundFormat banner = format_by_banner(*lines); banner.format != Format::kUnknown)
      return wrong_format(path, name_of(format_), banner);
    if (lines->empty()) return no_examples(path, 1);
    if (options_.format == ExampleFormat::kAuto) RETURN_IF_ERROR(find_format(path, *lines));
    std::optional<RatingLayout>& layout = layouts_.emplace_back();
    if (format_ == ExampleFormat::kRatings) {
      absl::StatusOr<RatingLayout> found = find_layout(path, *lines);
      if (!found.ok()) return found.status();
      layout = *std::move(found);
    }
    add_format(layout ? fmt::format("ratings: {}", layout->description()) : std::string(name_of(format_)));
    return absl::OkStatus();
  }

  /// REQUIRES: look_at() has been called for all files
  absl::Status read(std::size_t file, const ReadProgress& progress) {
    const std::string& path = options_.paths[file];
    absl::StatusOr<LineReader> lines = LineReader::open(path, progress);
    if (!lines.ok()) return lines.status();
    const std::unique_ptr<ExampleParser> parser =
        layouts_[file] ? make_ratings_parser(*layouts_[file], static_cast<float>(options_.positive), *lines)
                       : make_example_parser(format_, *lines);
    const std::uint64_t examples_before = read_.examples;
    bool ended = false;  // empty lines are allowed only at the end of a file
    std::string_view line;
    while (true) {
      const absl::StatusOr<bool> more = lines->next(line);
      if (!more.ok()) return more.status();
      if (!*more) break;
      if (line.empty()) {
        ended = true;
        continue;
      }
      if (ended) return lines->error("the end of the file after an empty line", line);
      RETURN_IF_ERROR(read_line(line, file, *lines, *parser));
    }
    if (read_.examples == examples_before) return no_examples(path, lines->line_number() + 1);
    return absl::OkStatus();
  }

  ExamplesRead finish() && {
    read_.found = format_;
    return std::move(read_);
  }

 private:
  static absl::Status no_examples(const std::string& path, std::uint64_t line_number) {
    return absl::InvalidArgumentError(
        fmt::format("{}:{}: expected at least one example, found the end of the file", path, line_number));
  }

  absl::Status find_format(const std::string& path, std::span<const std::string> lines) {
    FoundFormat found = format_of_examples(lines);
    const ExampleFormat format = find_example_format(path, lines, found);
    const bool is_first = format_ == ExampleFormat::kAuto;
    if (format != ExampleFormat::kAuto && (is_first || format == format_)) {
      format_ = format;
      return absl::OkStatus();
    }
    std::string expected(name_of(format_));
    if (!is_first) expected += fmt::format(", as in {}", options_.paths[0]);
    if (format != ExampleFormat::kAuto) found.name = name_of(format);
    if (!found.name.empty()) return wrong_format(path, expected, found);
    return absl::InvalidArgumentError(
        fmt::format("{}:1: expected {}, found \"{}\"", path, expected, LineReader::printable(lines[0])));
  }

  void add_format(const std::string& format) {
    if (read_.format.find(format) != std::string::npos) return;
    if (!read_.format.empty()) read_.format += "; ";
    read_.format += format;
  }

  absl::Status read_line(std::string_view line, std::size_t file, const LineReader& lines,
                         ExampleParser& parser) {
    if (options_.is_used) {
      const absl::StatusOr<bool> has_example = parser.skip(line);
      if (!has_example.ok() || !*has_example) return has_example.status();
      if (!options_.is_used(read_.examples, file)) {
        ++read_.examples;
        return absl::OkStatus();
      }
    }
    line_.weight = 1;
    line_.features.clear();
    const absl::StatusOr<bool> has_example = parser.parse(line, line_);
    if (!has_example.ok()) return has_example.status();
    if (!*has_example) return absl::OkStatus();
    const auto is_not_before = [](const Feature& a, const Feature& b) { return a.key >= b.key; };
    std::vector<Feature>& features = line_.features;
    const bool is_in_order =
        std::adjacent_find(features.begin(), features.end(), is_not_before) == features.end();
    if (!is_in_order && !merge_features(features)) {
      return lines.error("values of one feature whose sum single precision holds", line);
    }
    RETURN_IF_ERROR(use_({.number = read_.examples,
                          .file = file,
                          .is_positive = line_.is_positive,
                          .weight = line_.weight,
                          .features = features}));
    ++read_.examples;
    if (line_.is_positive) ++read_.positives;
    read_.features += features.size();
    return absl::OkStatus();
  }

  const ExamplesOptions& options_;
  const absl::FunctionRef<absl::Status(const Example&)> use_;
  ExampleFormat format_;                              // of all files
  std::vector<std::optional<RatingLayout>> layouts_;  // of each file
  ExampleLine line_;
  ExamplesRead read_;
};

}  // namespace

absl::StatusOr<ExampleFormat> parse_example_format(std::string_view name) {
  std::string options;
  for (const ExampleFormatNames& format : kExampleFormats) {
    if (format.option == name) return format.format;
    options += (options.empty() ? "" : ", ") + std::string(format.option);
  }
  return absl::InvalidArgumentError(
      fmt::format("expected a format of examples ({}), found \"{}\"", options, LineReader::printable(name)));
}

absl::StatusOr<ExamplesRead> read_examples(const ExamplesOptions& options,
                                           absl::FunctionRef<absl::Status(const Example&)> use,
                                           const ReadProgress& progress) {
  if (options.paths.empty()) return absl::InvalidArgumentError("expected a file of examples, found none");
  if (!(std::abs(options.positive) <= std::numeric_limits<float>::max())) {
    return absl::InvalidArgumentError(
        fmt::format("expected a rating that single precision holds, from which on examples are positive, "
                    "found {}",
                    options.positive));
  }
  ExamplesReader reader(options, use);
  double total_bytes = 0;
  std::vector<double> bytes_before;
  for (const std::string& path : options.paths) {
    RETURN_IF_ERROR(reader.look_at(path));
    std::error_code ignored;
    bytes_before.push_back(total_bytes);
    total_bytes += static_cast<double>(std::filesystem::file_size(path, ignored));
  }
  for (std::size_t file = 0; file < options.paths.size(); ++file) {
    ReadProgress of_all;
    if (progress) {
      of_all = [&](double done, double /*of_file*/) {
        progress(std::min(bytes_before[file] + done, total_bytes), total_bytes);
      };
    }
    RETURN_IF_ERROR(reader.read(file, of_all));
  }
  return std::move(reader).finish();
}

absl::StatusOr<std::uint64_t> count_examples(
    ExamplesOptions options, std::uint64_t most,
    absl::FunctionRef<bool(std::uint64_t number, std::size_t file)> counts) {
  std::uint64_t counted = 0;
  options.is_used = [&](std::uint64_t number, std::size_t file) {
    if (counts(number, file)) ++counted;
    return counted >= most;
  };
  // The first one that is used says that there are enough.
  const absl::Status read =
      read_examples(options, [](const Example&) { return absl::CancelledError("enough"); }).status();
  if (!read.ok() && !absl::IsCancelled(read)) return read;
  return counted;
}

}  // namespace verbena::apps
