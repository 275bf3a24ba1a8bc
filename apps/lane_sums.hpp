// Sums in plain C++, for rows that are padded as kernels need them (lanes.hpp).
#pragma once

#include <array>
#include <cstddef>

#include "apps/lanes.hpp"

namespace verbena::apps {

/// Σ a[i] b[i]. Adds in kLanes partial sums, so that the compiler may use vectors and every machine adds in
/// the same order. REQUIRES: `size` is a multiple of kLanes.
inline float sum_of_products(const float* a, const float* b, std::size_t size) {
  std::array<float, kLanes> sums = {};
  for (std::size_t i = 0; i < size; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (std::size_t n = kLanes / 2; n > 0; n /= 2) {
    for (std::size_t lane = 0; lane < n; ++lane) sums[lane] += sums[lane + n];
  }
  return sums[0];
}

}  // namespace verbena::apps
