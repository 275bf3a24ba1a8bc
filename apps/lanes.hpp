// The vector that kernels are written for, whatever the instruction set; its arithmetic is in lanes-inl.h.
#pragma once

#include <cstddef>

namespace verbena::apps {

/// Numbers of 4 bytes that are worked on at once: as many as any instruction set has, so that all of them
/// form their sums in one order.
inline constexpr std::size_t kLanes = 16;
inline constexpr std::size_t kRowAlignment = 64;

/// A row is padded with zeros to a multiple of kLanes, so that kernels know no remainder; the zeros stay
/// zeros.
constexpr std::size_t padded(std::size_t size) {
  return (size + kLanes - 1) / kLanes * kLanes;
}

}  // namespace verbena::apps
