// Fields of a line: between blanks and tabs, or between separators.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace verbena::apps {

inline constexpr std::string_view kBlanks = " \t";

/// Takes the next field off the front of `text`; empty at its end.
inline std::string_view next_field(std::string_view& text) {
  // Not by find_first_of(), which calls memchr() for each character.
  const auto is_blank = [](char c) { return c == kBlanks[0] || c == kBlanks[1]; };
  const auto begin = std::find_if_not(text.begin(), text.end(), is_blank);
  const auto end = std::find_if(begin, text.end(), is_blank);
  const std::string_view field =
      text.substr(static_cast<std::size_t>(begin - text.begin()), static_cast<std::size_t>(end - begin));
  text.remove_prefix(static_cast<std::size_t>(end - text.begin()));
  return field;
}

/// Takes what is before the first `separator` off the front of `text`, and the separator; all if there is
/// none.
inline std::string_view take_before(std::string_view& text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return part;
}

inline bool is_all_blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == std::string_view::npos;
}

}  // namespace verbena::apps
