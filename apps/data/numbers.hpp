// Numbers in files, as other tools write and read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace verbena::apps {

/// The nearest float: "+4", ".5", "1e-50", which is 0. nullopt if it is no finite number, or beyond the
/// largest float.
std::optional<float> parse_float(std::string_view text);
/// As parse_float(), for double.
std::optional<double> parse_double(std::string_view text);

/// A whole number, which may be written like any other number: "3", "+3.0", "3e0". nullopt if it is negative
/// or not whole.
std::optional<std::uint64_t> parse_count(std::string_view text);

}  // namespace verbena::apps
