// How rows lie one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>

#include <verbena/value_type.hpp>

namespace verbena::protocol {

/// Distance between rows in a shard, in a cache and in messages: the values, padded to whole 8-byte words, so
/// that a range of rows is one transfer and each word of it is whole.
constexpr std::size_t row_stride_bytes(ValueType type, std::uint32_t width) {
  return (value_bytes(type) * width + 7) / 8 * 8;
}

}  // namespace verbena::protocol
