// Reading memory that a peer may write at the same time: a ring in which its messages lie, until they are
// released.
//
// Each value is loaded once, into a variable, and the variable is both checked and used: a second load might
// return another value (docs/decisions/0017-memory-that-a-peer-can-write.md lists all such memory).
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace verbena::base {

/// Returns a copy. Each of its 8-byte words is loaded exactly once, whatever the compiler knows. REQUIRES:
/// `from` is aligned to 8 bytes.
template <class Value>
[[nodiscard]] inline Value load_once(const std::byte* from) {
  constexpr std::size_t kWordBytes = 8;
  static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) % kWordBytes == 0);
  std::array<std::uint64_t, sizeof(Value) / kWordBytes> words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = __atomic_load_n(reinterpret_cast<const std::uint64_t*>(from) + i, __ATOMIC_RELAXED);
  return std::bit_cast<Value>(words);
}

}  // namespace verbena::base
