// The vector that kernels are written for, whatever the instruction set; its arithmetic is in lanes-inl.h.
#pragma once

#include <cstddef>

namespace verbena::apps {

/// How many numbers of 4 bytes a kernel processes at once: as many as the widest instruction set does, so
/// that with every instruction set sums are formed in the same order.
inline constexpr std::size_t kLanes = 16;
inline constexpr std::size_t kRowAlignment = 64;

/// A row is padded with zeros to a multiple of kLanes, so that kernels need not handle a remainder; the zeros
/// stay zeros.
constexpr std::size_t padded(std::size_t size) {
  return (size + kLanes - 1) / kLanes * kLanes;
}

}  // namespace verbena::apps
