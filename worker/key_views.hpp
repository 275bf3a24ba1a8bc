// Two views of keys, one for a list and one for a range: for loops that do little work for each row.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include <verbena/keys.hpp>

namespace verbena::worker {

struct KeyList {
  std::span<const Key> keys;
  [[nodiscard]] std::size_t size() const { return keys.size(); }
  [[nodiscard]] static constexpr bool is_range() { return false; }
  [[nodiscard]] Keys all() const { return keys; }
  Key operator[](std::size_t i) const { return keys[i]; }
  [[nodiscard]] bool all_below(std::uint64_t rows) const {
    Key greatest = 0;
    for (const Key key : keys) greatest = std::max(greatest, key);
    return greatest < rows;
  }
};

struct KeyRun {
  KeyRange range;
  [[nodiscard]] std::size_t size() const { return range.size(); }
  [[nodiscard]] static constexpr bool is_range() { return true; }
  [[nodiscard]] Keys all() const { return range; }
  Key operator[](std::size_t i) const { return range.first + i; }
  [[nodiscard]] bool all_below(std::uint64_t rows) const {
    return range.first <= range.last && range.last <= rows;
  }
};

}  // namespace verbena::worker
