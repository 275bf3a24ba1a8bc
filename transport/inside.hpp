// Whether the local bytes of a request lie in its region.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::transport {

/// Compares the addresses as numbers: C++ does not define a comparison of pointers into different objects.
inline bool is_inside(std::span<const std::byte> part, std::span<const std::byte> whole) {
  const auto part_begin = reinterpret_cast<std::uintptr_t>(part.data());
  const auto whole_begin = reinterpret_cast<std::uintptr_t>(whole.data());
  return part_begin >= whole_begin && part_begin - whole_begin <= whole.size() &&
         part.size() <= whole.size() - (part_begin - whole_begin);
}

}  // namespace verbena::transport
