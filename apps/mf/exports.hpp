// Factors as files: the text that --load reads, and arrays for other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "apps/mf/model.hpp"

namespace verbena::apps::mf {

enum class FactorFormat : std::uint8_t {
  kText,         ///< of model.hpp
  kNpy,          ///< an array each of the users' and the items' factors, of their biases, and of the mean
  kSafetensors,  ///< the same arrays in one file
};

/// "text", "npy", "safetensors"
std::string_view to_string(FactorFormat format);
std::optional<FactorFormat> parse_factor_format(std::string_view name);

/// The files that save_as() writes for --output PREFIX.
std::vector<std::string> files_of(const std::string& prefix, FactorFormat format, bool has_biases);

/// Upper bound of their sizes together, unless names are unusually long.
std::uint64_t files_bytes(FactorFormat format, const RowFormat& rows, std::size_t users, std::size_t items);

/// Writes them, in the units of the ratings; each is there whole or not at all. Rows are in the order of the
/// names.
absl::Status save_as(FactorFormat format, const std::string& prefix, const RowFormat& rows,
                     const Scale& scale, const Names& names, const RowReader& users, const RowReader& items);

}  // namespace verbena::apps::mf
