// The first line of a table, where it names the columns.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace verbena::apps {

/// Which column is what: `names` are the names that each thing goes by, in lower case, without "_", "-", "."
/// and blanks. A type behind a colon ("user_id:token") is none of a column's name. Of several that fit, the
/// first.
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
