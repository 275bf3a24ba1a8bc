#include "apps/embedding/row_source.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "apps/data/random.hpp"

namespace verbena::apps {

hwy::AlignedFreeUniquePtr<float[]> aligned_floats(std::size_t count) {
  auto memory = hwy::AllocateAligned<float>(std::max<std::size_t>(count, 1));
  if (memory == nullptr) throw std::bad_alloc();
  std::fill(memory.get(), memory.get() + count, 0.0F);
  return memory;
}

std::vector<float*> row_pointers(float* rows, std::size_t count, std::size_t width) {
  std::vector<float*> pointers(count);
  for (std::size_t i = 0; i < count; ++i) pointers[i] = rows + i * width;
  return pointers;
}

double random_number(std::uint64_t seed, std::size_t id, std::size_t index) {
  return std::ldexp(static_cast<double>(mix(mix(seed ^ mix(id)) + index) >> 11), -52) - 1;
}

}  // namespace verbena::apps
