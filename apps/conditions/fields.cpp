#include "apps/conditions/fields.hpp"

#include <cmath>

#include "base/decimal.hpp"

namespace verbena::apps {

std::optional<std::vector<std::pair<std::string_view, std::string_view>>> split_fields(
    std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> fields;
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view field = text.substr(0, comma);
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    fields.emplace_back(field.substr(0, equals), field.substr(equals + 1));
    if (comma == std::string_view::npos) return fields;
    text.remove_prefix(comma + 1);
  }
}

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  constexpr double kMostNs = 1e18;
  for (const auto& [unit, ns] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::optional<double> number =
        base::parse_decimal<double>(text.substr(0, text.size() - unit.size()));
    if (!number) continue;  // "1ms" ends in "s", too
    if (!(*number >= 0) || *number * ns > kMostNs) return std::nullopt;
    return std::chrono::nanoseconds(std::llround(*number * ns));
  }
  return std::nullopt;
}

}  // namespace verbena::apps
