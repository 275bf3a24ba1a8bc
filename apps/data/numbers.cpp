#include "apps/data/numbers.hpp"

#include <charconv>
#include <cmath>
#include <system_error>

#include "absl/strings/charconv.h"
#include "base/decimal.hpp"

namespace verbena::apps {
namespace {

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  Number number = 0;
  auto [stop, error] = std::from_chars(begin, end, number);
  if (error == std::errc::result_out_of_range) {
    // Abseil's function, because it tells on which side the number is out of range.
    stop = absl::from_chars(begin, end, number).ptr;
    if (std::abs(number) > 1) return std::nullopt;
    error = std::errc();
  }
  if (error != std::errc() || stop != end || !std::isfinite(number)) return std::nullopt;
  return number;
}

}  // namespace

std::optional<float> parse_float(std::string_view text) {
  return parse_number<float>(text);
}

std::optional<double> parse_double(std::string_view text) {
  return parse_number<double>(text);
}

std::optional<std::uint64_t> parse_count(std::string_view text) {
  if (const std::optional<std::uint64_t> whole = base::parse_decimal<std::uint64_t>(text)) return whole;
  constexpr double kMost = 9007199254740992.0;  // 2^53: beyond it, not every whole number is a double
  const std::optional<double> number = parse_double(text);
  if (!number || *number < 0 || *number > kMost || *number != std::floor(*number)) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

}  // namespace verbena::apps
