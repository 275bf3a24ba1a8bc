// Finds a file's format by its first lines, so that no format is mistaken for another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace verbena::apps {

enum class Format : std::uint8_t {
  kUnknown,  ///< prose, or a table without a mark of its own
  kMatrixMarket,
  kUci,
  kLdaC,
  kSvmLight,
  kVowpalWabbit,
  kLibffm,
  kCriteo,
  kAvazu,
  kForeign,  ///< a known format that nothing here reads, or that has only examples with labels
};

struct FoundFormat {
  Format format = Format::kUnknown;
  std::string_view name;  ///< for people; empty if the format is unknown
};

/// Reads the first lines, including empty ones: at most `most`, and fewer if they are very long. Errors as
/// LineReader's.
absl::StatusOr<std::vector<std::string>> first_lines(const std::string& path, std::size_t most = 30);

/// Finds the format by a banner or magic number, which leaves no doubt.
FoundFormat format_by_banner(std::span<const std::string> lines);
/// The same, or by the shape that all these lines have. Formats that have only examples with labels (LIBFFM,
/// Criteo, Avazu) are foreign to it.
FoundFormat format_by_shape(std::span<const std::string> lines);
/// The same for those who read examples with labels: half of the lines are enough to find their formats, so
/// that a mistake in one of the others can be reported with its place. LDA-C, whose lines could be of LIBSVM,
/// is LIBSVM.
FoundFormat format_of_examples(std::span<const std::string> lines);

/// The file's name without its folder and ".gz".
std::string stem_of(const std::string& path);

/// "PATH:1: expected EXPECTED, found FORMAT".
absl::Status wrong_format(const std::string& path, std::string_view expected, const FoundFormat& found);

}  // namespace verbena::apps
