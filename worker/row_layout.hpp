// How many bytes the rows of a table take, where, and what an update does to them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/row_stride.hpp"
#include "protocol/slot.hpp"
#include "protocol/update_rule.hpp"
#include <verbena/value_type.hpp>

namespace verbena::worker {

struct RowLayout {
  explicit RowLayout(const protocol::UpdateRule& of_updates)
      : type(of_updates.type()),
        width(of_updates.width()),
        row_bytes(value_bytes(type) * width),
        stride_bytes(protocol::row_stride_bytes(type, width)),
        slot_bytes(protocol::slot_bytes(stride_bytes)),
        rule(of_updates) {}

  ValueType type;
  std::uint32_t width;        ///< values of a row
  std::size_t row_bytes;      ///< of these values
  std::size_t stride_bytes;   ///< of a row in messages, and in its slot
  std::size_t slot_bytes;     ///< of a dynamic table
  protocol::UpdateRule rule;  ///< of a dynamic table without a state, which would not move with a row
};

}  // namespace verbena::worker
