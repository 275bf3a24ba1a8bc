// Where rows are copied to in a measurement.
#pragma once

#include <cstddef>
#include <vector>

namespace verbena::apps::bench {

/// Another place for each operation, all over a page. A load waits for an earlier store with the same low 12
/// bits of the address (4K aliasing). With one place for all operations, a row in the cache took 14 or 22 ns,
/// as the heap happened to put that place.
class OutputPlaces {
 public:
  /// Places for `bytes` each, all of them aligned to a cache line if the first one is.
  explicit OutputPlaces(std::size_t bytes) : memory_(kPlaces * kStepBytes + bytes) {}

  [[nodiscard]] std::byte* next() {
    place_ = (place_ + 1) % kPlaces;
    return memory_.data() + place_ * kStepBytes;
  }

 private:
  static constexpr std::size_t kPlaces = 16;
  static constexpr std::size_t kStepBytes = 320;  // cache lines, and more than a page in all steps together

  std::vector<std::byte> memory_;
  std::size_t place_ = 0;
};

}  // namespace verbena::apps::bench
