// Fields of a line that are separated by blanks and tabs.
#pragma once

#include <algorithm>
#include <string_view>

namespace verbena::apps {

inline constexpr std::string_view kBlanks = " \t";

/// Takes the next field off the front of `text`; empty at its end.
inline std::string_view next_field(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  const std::string_view field = text.substr(0, text.find_first_of(kBlanks));
  text.remove_prefix(field.size());
  return field;
}

inline bool is_all_blank(std::string_view text) {
  return text.find_first_not_of(kBlanks) == std::string_view::npos;
}

}  // namespace verbena::apps
