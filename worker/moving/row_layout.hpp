// How many bytes the rows of a table take, and where.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/slot.hpp"
#include "protocol/value_type.hpp"

namespace verbena::worker {

struct RowLayout {
  RowLayout(protocol::ValueType value_type, std::uint32_t values)
      : type(value_type),
        width(values),
        row_bytes(protocol::value_bytes(type) * width),
        stride_bytes(protocol::row_stride_bytes(type, width)),
        slot_bytes(protocol::slot_bytes(stride_bytes)) {}

  protocol::ValueType type;
  std::uint32_t width;       ///< values of a row
  std::size_t row_bytes;     ///< of these
  std::size_t stride_bytes;  ///< of a row in messages, and in its slot
  std::size_t slot_bytes;
};

}  // namespace verbena::worker
