// Copying a row out of memory, inlined into the loops of pulls: a few instructions for a short row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/prefetch.hpp"
#include "base/word_copy.hpp"
#include <verbena/value_type.hpp>

namespace verbena::worker {

inline constexpr std::size_t kBlockBytes = 16;
/// A short row is copied before memcpy() would have been called.
constexpr bool is_short_row(std::size_t bytes) {
  return bytes <= 128 && bytes % kBlockBytes == 0;
}

/// One of a few numbers.
constexpr bool is_narrow_row(std::size_t bytes) {
  return bytes < kBlockBytes;
}

/// REQUIRES: bytes % kStepBytes == 0
template <std::size_t kStepBytes>
inline void copy_in_steps(std::byte* __restrict to, const std::byte* __restrict from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kStepBytes) {
    // Nothing; else the compiler makes a memmove() of the loop.
    asm("" : "+r"(at));  // NOLINT(hicpp-no-assembler)
    std::memcpy(to + at, from + at, kStepBytes);
  }
}

/// Copies from private memory. REQUIRES: bytes % 4 == 0
inline void copy_row(std::byte* __restrict to, const std::byte* __restrict from, std::size_t bytes) {
  if (is_short_row(bytes)) {
    copy_in_steps<kBlockBytes>(to, from, bytes);
  } else if (is_narrow_row(bytes)) {
    copy_in_steps<sizeof(std::uint32_t)>(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

/// The row at this address will soon be copied. The processor finds out by itself what follows its beginning.
/// Any address is allowed.
inline void prefetch_row(const void* row) {
  base::prefetch_to_read(row);
  base::prefetch_to_read(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(row) + 64));
}

/// Copies from memory that others write at the same time: each number is copied as a whole.
inline void copy_shared_row(ValueType type, std::byte* to, const std::byte* from, std::size_t bytes) {
  if (!VERBENA_WORDS_ARE_ATOMIC && is_short_row(bytes)) {
    copy_row(to, from, bytes);
    return;
  }
  if (!VERBENA_WORDS_ARE_ATOMIC && is_narrow_row(bytes)) {
    if (value_bytes(type) == sizeof(std::uint32_t)) {
      copy_in_steps<sizeof(std::uint32_t)>(to, from, bytes);
    } else {
      copy_in_steps<sizeof(std::uint64_t)>(to, from, bytes);
    }
    return;
  }
  const auto copy = [&]<class Word>(Word* words) {
    base::copy_words(words, reinterpret_cast<const Word*>(from), bytes / sizeof(Word));
  };
  if (value_bytes(type) == sizeof(std::uint32_t)) {
    copy(reinterpret_cast<std::uint32_t*>(to));
  } else {
    copy(reinterpret_cast<std::uint64_t*>(to));
  }
}

}  // namespace verbena::worker
