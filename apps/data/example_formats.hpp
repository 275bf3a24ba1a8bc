// The lines of files of examples: what each format says in a line. docs/data.md describes the formats.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/data/examples.hpp"
#include "apps/data/line_reader.hpp"
#include "apps/data/rating_table.hpp"

namespace verbena::apps {

/// What a line says.
struct ExampleLine {
  bool is_positive = false;
  float weight = 1;
  std::vector<Feature> features;  ///< in the order of the line, in which keys may occur again
};

/// Parses the lines of one file, one after the other.
class ExampleParser {
 public:
  /// `lines` says where an error is, and must outlive the parser.
  explicit ExampleParser(const LineReader& lines) : lines_(lines) {}
  virtual ~ExampleParser() = default;
  ExampleParser(const ExampleParser&) = delete;
  ExampleParser& operator=(const ExampleParser&) = delete;

  /// Parses the line that `lines` has returned last, which is not empty. False if it has no example: a header
  /// or a comment. `example` must be as new, but for the memory of its features. INVALID_ARGUMENT "file:line:
  /// expected …, found …".
  virtual absl::StatusOr<bool> parse(std::string_view line, ExampleLine& example) = 0;
  /// Says only whether the line has an example, in which mistakes may stay unnoticed. parse() may be called
  /// for the same line afterwards, if it has.
  virtual absl::StatusOr<bool> skip(std::string_view /*line*/) { return true; }

 protected:
  const LineReader& lines_;
};

/// REQUIRES: format is neither kAuto nor kRatings
std::unique_ptr<ExampleParser> make_example_parser(ExampleFormat format, const LineReader& lines);
/// Ratings from `positive` on are positive.
std::unique_ptr<ExampleParser> make_ratings_parser(const RatingLayout& layout, float positive,
                                                   const LineReader& lines);

}  // namespace verbena::apps
