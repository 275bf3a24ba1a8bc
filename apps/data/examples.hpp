// Examples with labels and sparse features, such as clicks, for logistic regression and factorization
// machines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/data/corpus.hpp"
#include "apps/data/feature_keys.hpp"

namespace verbena::apps {

struct Feature {
  Key key = 0;      ///< see feature_keys.hpp
  float value = 1;  ///< finite, not 0
};

struct Example {
  std::uint64_t number = 0;  ///< in all files, from 0
  std::size_t file = 0;      ///< where its file is in ExamplesOptions::paths
  bool is_positive = false;
  float weight = 1;  ///< finite, not negative; 1 in all formats but Vowpal Wabbit
  /// In the order of their keys, each key once: what a line says of one feature several times is added up.
  /// May be empty.
  std::span<const Feature> features;
};

enum class ExampleFormat : std::uint8_t {
  kAuto,  ///< by each file's first lines
  kLibsvm,
  kLibffm,
  kCriteo,
  kAvazu,
  kVowpalWabbit,
  kRatings,  ///< what rating_table.hpp reads
};

/// "auto", "libsvm", "libffm", "criteo", "avazu", "vw", "ratings". INVALID_ARGUMENT, with these names, if it
/// is none of them.
absl::StatusOr<ExampleFormat> parse_example_format(std::string_view name);

struct ExamplesOptions {
  std::vector<std::string> paths;  ///< one at least, read in this order, such as days; gzip of any
  ExampleFormat format = ExampleFormat::kAuto;
  double positive = 4;  ///< ratings from this one on are positive; those of single precision, as ratings are
  /// Whether the example of this number, of this file, is used: asked for each, in their order. The others
  /// are passed over, which takes less time, and mistakes in them may stay unnoticed. Empty: all are used.
  std::function<bool(std::uint64_t number, std::size_t file)> is_used = {};
};

struct ExamplesRead {
  std::uint64_t examples = 0;                  ///< used or not
  std::uint64_t positives = 0;                 ///< of those that are used
  std::uint64_t features = 0;                  ///< of those that are used, together
  std::string format;                          ///< how the files were read, for people
  ExampleFormat found = ExampleFormat::kAuto;  ///< what they are; not kAuto
};

/// Streams the files and calls use() for each example that is used, whose features are valid during the call.
/// The same files give the same examples in every process. Before the first call it looks at the beginning of
/// all files, so that a missing file is noticed early. Threads may read at the same time.
///
/// An error of use() ends it and is returned. Other errors: NOT_FOUND; INVALID_ARGUMENT "file:line: what was
/// expected, what was found", also for files of different formats and for a file without examples.
absl::StatusOr<ExamplesRead> read_examples(const ExamplesOptions& options,
                                           absl::FunctionRef<absl::Status(const Example&)> use,
                                           const ReadProgress& progress = {});

/// How many examples there are for which counts(number, file) is true, or `most`, if there are so many: then
/// the rest is not looked at. Errors: as of read_examples(), but only mistakes that it meets.
absl::StatusOr<std::uint64_t> count_examples(
    ExamplesOptions options, std::uint64_t most,
    absl::FunctionRef<bool(std::uint64_t number, std::size_t file)> counts);

}  // namespace verbena::apps
