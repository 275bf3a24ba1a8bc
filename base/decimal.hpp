// How every number that a user writes is read.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <optional>
#include <string_view>
#include <system_error>

namespace verbena::base {

/// Reads the whole of `text` as a decimal number, whatever it begins with: "010" is ten. Real numbers are
/// finite and may be written as 1.5e-3. nullopt if `text` is anything else ("+1", " 1", "0x10", "1,5"), or if
/// Number cannot hold it.
template <class Number>
requires(std::integral<Number> ||
         std::floating_point<Number>) std::optional<Number> parse_decimal(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  if constexpr (std::floating_point<Number>) {
    if (!std::isfinite(number)) return std::nullopt;
  }
  return number;
}

}  // namespace verbena::base
