// Where a table's rows lie.
#pragma once

#include <cstdint>

namespace verbena::protocol {

enum class Allocation : std::uint32_t {
  kStatic = 0,  ///< where the partition puts them
  kDynamic =
      1,  ///< in a slot (slot.hpp) of whichever server a worker has localized them to; at first as kStatic
};

}  // namespace verbena::protocol
