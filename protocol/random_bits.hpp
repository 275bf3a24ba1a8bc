// Numbers that look random and are a function of what they are computed from.
#pragma once

#include <cstdint>

namespace verbena::protocol {

/// One step of SplitMix64 (Steele, Lea and Flood, OOPSLA'14) from any state: a counter makes a sequence.
[[nodiscard]] constexpr std::uint64_t random_bits(std::uint64_t state) {
  state += 0x9e3779b97f4a7c15;
  state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9;
  state = (state ^ state >> 27) * 0x94d049bb133111eb;
  return state ^ state >> 31;
}

/// In (0, 1).
[[nodiscard]] constexpr double random_fraction(std::uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

}  // namespace verbena::protocol
