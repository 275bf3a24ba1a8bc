// Many additions of the same length: updates of rows that lie anywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::base {

template <class Value>
struct RowAddition {
  Value* to;
  const Value* update;
};

/// Does what add_words(to, update, count) does for each of them, in their order. For one row of 100 floats,
/// to find out which vectors the processor has takes as long as to add them.
void add_rows(std::span<const RowAddition<float>> additions, std::size_t count);
void add_rows(std::span<const RowAddition<double>> additions, std::size_t count);
void add_rows(std::span<const RowAddition<std::int32_t>> additions, std::size_t count);
void add_rows(std::span<const RowAddition<std::int64_t>> additions, std::size_t count);

}  // namespace verbena::base
