// The names of an option's choices, from a table of pairs: each choice, and its name.
#pragma once

#include <optional>
#include <string_view>

namespace verbena::apps {

/// Empty if the table has not got the choice.
template <class Names, class Choice>
constexpr std::string_view name_of(const Names& names, Choice choice) {
  for (const auto& [one, name] : names) {
    if (one == choice) return name;
  }
  return {};
}

/// nullopt if no choice has the name.
template <class Names>
constexpr auto choice_of(const Names& names, std::string_view name) {
  std::optional<decltype(names.front().first)> choice;
  for (const auto& [one, its_name] : names) {
    if (its_name == name) choice = one;
  }
  return choice;
}

}  // namespace verbena::apps
