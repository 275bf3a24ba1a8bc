// Rows of numbers that are trained: how they lie in memory, and their initial values.
#pragma once

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "apps/lanes.hpp"

namespace verbena::apps {

/// Zeros, aligned as kernels need them.
hwy::AlignedFreeUniquePtr<float[]> aligned_floats(std::size_t count);

/// Pointers to the rows that are trained, by place. Each row is whole and aligned to kRowAlignment.
using RowPointers = float* const*;
/// Pointers to rows that lie one after the other.
std::vector<float*> row_pointers(float* rows, std::size_t count, std::size_t width);

/// The rows of a table that training begins with.
struct RowSource {
  std::size_t rows = 0;
  std::size_t width = 0;
  /// Writes a whole row. The row depends only on the id, so that any worker can make it.
  std::function<void(std::size_t id, std::span<float> row)> make;
};

/// Number `index` of row `id`: uniform in [−1, 1). It does not depend on the order of the calls.
double random_number(std::uint64_t seed, std::size_t id, std::size_t index);

}  // namespace verbena::apps
