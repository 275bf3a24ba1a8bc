// Rows on their way into a checkpoint and out of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::checkpoint {

/// The numbers `first` up to `end`, without `end`. What a number is, is the caller's affair: that by which a
/// table is divided among servers, so that each finds again what it has now.
struct NumberRange {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

/// One of the things that each row has, of all rows at hand: `row_bytes` for each, row by row.
struct Column {
  std::span<const std::byte> bytes;
  std::uint32_t row_bytes = 0;
};

}  // namespace verbena::checkpoint
