// Lines whose cells stand in columns, for terminals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::apps::inspect {

/// The first cell of a line is to the left, the others to the right.
[[nodiscard]] std::string in_columns(const std::vector<std::vector<std::string>>& lines);
/// Millions of bytes, without the unit: "12.3".
[[nodiscard]] std::string megabytes(std::uint64_t bytes);

}  // namespace verbena::apps::inspect
