// An update rule other than addition, for tests. Code that adds all the same gives too much.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <verbena/update_rule.hpp>

namespace verbena::testing {

/// A row is the largest of all that was pushed, number by number.
struct Maximum {
  static constexpr std::string_view kName = "test-maximum";
  template <class Value>
  static void combine(Value* update, const Value* later, std::uint32_t width) {
    for (std::uint32_t i = 0; i < width; ++i) update[i] = std::max(update[i], later[i]);
  }
  template <class Value>
  static void apply(Value* row, std::byte* /*state*/, const Value* update, std::uint32_t width) {
    for (std::uint32_t i = 0; i < width; ++i) {
      // Only this writer changes the row.
      store_whole(row + i, std::max(row[i], load_whole(update + i)));
    }
  }
  template <class Value>
  static void predict(Value* row, const Value* update, std::uint32_t width) {
    combine(row, update, width);
  }
};

}  // namespace verbena::testing
