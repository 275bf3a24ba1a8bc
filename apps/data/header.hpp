// The first line of a table, if it names the columns.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace verbena::apps {

/// Finds the column of each thing. `names`: the names that a column of each thing may have, in lower case,
/// without "_", "-", "." and blanks. A type after a colon ("user_id:token") is not part of a column's name.
/// If several columns fit, the first one is taken.
template <std::size_t size>
std::array<std::optional<std::size_t>, size> columns_by_name(
    std::span<const std::string_view> header,
    const std::array<std::span<const std::string_view>, size>& names);

bool is_one_of(std::string_view column, std::span<const std::string_view> names);

template <std::size_t size>
std::array<std::optional<std::size_t>, size> columns_by_name(
    std::span<const std::string_view> header,
    const std::array<std::span<const std::string_view>, size>& names) {
  std::array<std::optional<std::size_t>, size> places;
  for (std::size_t thing = 0; thing < size; ++thing) {
    for (std::size_t column = 0; column < header.size() && !places[thing]; ++column) {
      if (is_one_of(header[column], names[thing])) places[thing] = column;
    }
  }
  return places;
}

}  // namespace verbena::apps
