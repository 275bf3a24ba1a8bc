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
#include <span>
#include <type_traits>

#include "base/word_copy.hpp"

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

/// Copies all bytes, for what needs many of them at a time: the copy is what is checked and used. REQUIRES:
/// both are aligned to 8 bytes; `to` has room for them; no overlap.
inline void copy_once(std::byte* to, std::span<const std::byte> from) {
  const std::size_t words = from.size() / sizeof(std::uint64_t);
  copy_words(reinterpret_cast<std::uint64_t*>(to), reinterpret_cast<const std::uint64_t*>(from.data()),
             words);
  for (std::size_t i = words * sizeof(std::uint64_t); i < from.size(); ++i)
    to[i] =
        std::byte{__atomic_load_n(reinterpret_cast<const std::uint8_t*>(from.data() + i), __ATOMIC_RELAXED)};
}

}  // namespace verbena::base
