// Large arrays of zeros.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace verbena::worker {

/// Zeros whose pages cost nothing until they are written. Value: without a constructor of its own.
template <class Value>
using ZeroedArray = std::unique_ptr<Value[], decltype(&std::free)>;

template <class Value>
[[nodiscard]] ZeroedArray<Value> make_zeroed_array(std::uint64_t count) {
  void* const array = std::calloc(std::max<std::uint64_t>(count, 1), sizeof(Value));
  if (array == nullptr) throw std::bad_alloc();
  return {static_cast<Value*>(array), &std::free};
}

}  // namespace verbena::worker
