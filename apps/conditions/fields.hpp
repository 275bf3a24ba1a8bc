// "name=value,name=value": how conditions are written on the command line.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::apps {

/// nullopt if a part has no "=".
std::optional<std::vector<std::pair<std::string_view, std::string_view>>> split_fields(std::string_view text);

/// A number and one of ns, us, ms, s; 0 or more.
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

}  // namespace verbena::apps
