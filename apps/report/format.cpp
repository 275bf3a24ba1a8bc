#include "apps/report/format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace verbena::apps {

std::string format_seconds(double seconds) {
  return seconds < 10 ? fmt::format("{:.2f} s", seconds) : fmt::format("{:.1f} s", seconds);
}

std::string format_short_time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} µs", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string format_clock(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string format_count(double count) {
  static constexpr std::array<std::string_view, 5> kPrefixes = {"", " k", " M", " G", " T"};
  std::size_t prefix = 0;
  // 999.95 would be shown as 1000.
  while (std::abs(count) >= 999.5 && prefix + 1 < kPrefixes.size()) {
    count /= 1000;
    ++prefix;
  }
  const int decimals = prefix == 0 && count == std::floor(count) ? 0 : count < 10 ? 2 : count < 100 ? 1 : 0;
  return fmt::format("{:.{}f}{}", count, decimals, kPrefixes[prefix]);
}

std::string format_rate(double per_second, std::string_view unit) {
  return fmt::format("{} {}/s", format_count(per_second), unit);
}

std::string format_objective(double value) {
  return fmt::format("{:.6g}", value);
}

std::string format_share(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

namespace {

/// Whether `byte` is the first byte of a character.
bool begins_letter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U;
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_letter));
}

std::string first_columns(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (begins_letter(text[end]) && columns-- == 0) break;
  }
  return std::string(text.substr(0, end));
}

}  // namespace verbena::apps
