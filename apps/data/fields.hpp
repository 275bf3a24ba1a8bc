// Fields of a line that are separated by blanks and tabs.
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

inline bool is_all_blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == std::string_view::npos;
}

}  // namespace verbena::apps
