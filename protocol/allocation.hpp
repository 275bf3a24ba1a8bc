// Where a table's rows lie.
#pragma once

#include <cstdint>

namespace verbena::protocol {

enum class Allocation : std::uint32_t {
  kStatic = 0,  ///< where the partition puts them
  kDynamic =
      1,  ///< in a slot (slot.hpp) of whichever server a worker has localized them to; at first as kStatic
};

constexpr const char* name_of(Allocation allocation) {
  switch (allocation) {
    case Allocation::kStatic:
      return "static";
    case Allocation::kDynamic:
      return "dynamic";
  }
  return "no allocation";
}

}  // namespace verbena::protocol
