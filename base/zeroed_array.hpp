// Large arrays of zeros, for what a server or a worker knows of each key.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace verbena::base {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};

/// Zeros whose pages cost nothing until they are written. Value: without a constructor of its own.
template <class Value>
using ZeroedArray = std::unique_ptr<Value[], FreeMemory>;

/// Throws std::bad_alloc.
template <class Value>
[[nodiscard]] ZeroedArray<Value> make_zeroed_array(std::uint64_t count) {
  void* const array = std::calloc(std::max<std::uint64_t>(count, 1), sizeof(Value));
  if (array == nullptr) throw std::bad_alloc();
  return ZeroedArray<Value>(static_cast<Value*>(array));
}

}  // namespace verbena::base
