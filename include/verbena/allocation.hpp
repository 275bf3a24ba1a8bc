// Where a table's rows lie.
#pragma once

#include <cstdint>

namespace verbena {

enum class Allocation : std::uint32_t {
  kStatic = 0,   ///< where the table's partition has put them; they never move
  kDynamic = 1,  ///< first there; later on the node of the worker that has localized them
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

}  // namespace verbena
