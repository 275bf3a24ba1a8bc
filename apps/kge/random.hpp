// Random numbers that are the same with every standard library.
#pragma once

#include <cstddef>
#include <random>

namespace verbena::apps::kge {

/// Uniform below `bound`; its bias is below 2⁻⁶⁴ · bound.
inline std::size_t random_below(std::mt19937_64& random, std::size_t bound) {
  return static_cast<std::size_t>((static_cast<unsigned __int128>(random()) * bound) >> 64);
}

}  // namespace verbena::apps::kge
