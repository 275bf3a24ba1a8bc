// Copies of any length and alignment that keep each naturally aligned 8-byte word whole.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/word_copy.hpp"

namespace verbena::transport::shm {

namespace detail {

inline void copy_single_bytes(std::byte* to, const std::byte* from, std::size_t count) {
  const auto* source = reinterpret_cast<const unsigned char*>(from);
  auto* target = reinterpret_cast<unsigned char*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    __atomic_store_n(target + i, __atomic_load_n(source + i, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  }
}

/// REQUIRES: `to` and `from` have the same offset in a Word.
template <class Word>
void copy_in(std::byte* to, const std::byte* from, std::size_t count) {
  const std::size_t place = reinterpret_cast<std::uintptr_t>(to) % sizeof(Word);
  const std::size_t head = place == 0 ? 0 : std::min(count, sizeof(Word) - place);
  const std::size_t words = (count - head) / sizeof(Word);
  const std::size_t tail = head + words * sizeof(Word);
  copy_single_bytes(to, from, head);
  // A plain memcpy of everything would copy the last bytes in a piece that overlaps the piece before it, and
  // so could mix two versions of one word.
  base::copy_words(reinterpret_cast<Word*>(to + head), reinterpret_cast<const Word*>(from + head), words);
  copy_single_bytes(to + tail, from + tail, count - tail);
}

}  // namespace detail

/// to[i] = from[i]. Words are copied whole if `to` and `from` have the same offset in a word; else aligned
/// halves of words are, if they have the same offset in a half. REQUIRES: no overlap.
inline void transfer(std::byte* to, const std::byte* from, std::size_t count) {
  const std::size_t apart = reinterpret_cast<std::uintptr_t>(to) ^ reinterpret_cast<std::uintptr_t>(from);
  if (apart % sizeof(std::uint64_t) == 0) {
    detail::copy_in<std::uint64_t>(to, from, count);
  } else if (apart % sizeof(std::uint32_t) == 0) {
    detail::copy_in<std::uint32_t>(to, from, count);
  } else {
    detail::copy_single_bytes(to, from, count);
  }
}

}  // namespace verbena::transport::shm
