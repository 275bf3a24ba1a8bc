// Copying and adding to memory that another thread or process reads or writes at the same time.
//
// Every element is copied whole; the order is not promised (relaxed). Under the thread sanitizer each is a
// relaxed atomic; otherwise vector loads and stores, which on the supported processors (x86-64, AArch64) keep
// each naturally aligned element whole, so that the speed is that of memcpy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace verbena::base {

#if defined(__SANITIZE_THREAD__)
#define VERBENA_WORDS_ARE_ATOMIC 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VERBENA_WORDS_ARE_ATOMIC 1
#endif
#endif
#ifndef VERBENA_WORDS_ARE_ATOMIC
#define VERBENA_WORDS_ARE_ATOMIC 0
#endif

/// Calls memcpy(). If the compiler knew an upper limit of `bytes`, it would emit a string instruction
/// instead.
inline void copy_piece(void* __restrict to, const void* __restrict from, std::size_t bytes) {
  asm("" : "+r"(bytes));  // NOLINT(hicpp-no-assembler): nothing, but anything could have happened to it
  std::memcpy(to, from, bytes);
}

/// to[i] = from[i]. REQUIRES: both naturally aligned, elements of 4 or 8 bytes; no overlap.
template <class Value>
inline void copy_words(Value* __restrict to, const Value* __restrict from, std::size_t count) {
  static_assert(std::is_trivially_copyable_v<Value> && (sizeof(Value) == 4 || sizeof(Value) == 8));
#if VERBENA_WORDS_ARE_ATOMIC
  for (std::size_t i = 0; i < count; ++i) {
    Value value;
    __atomic_load(from + i, &value, __ATOMIC_RELAXED);
    __atomic_store(to + i, &value, __ATOMIC_RELAXED);
  }
#else
  // In pieces that memcpy() copies with vector instructions: for long ones it may use the processor's string
  // instructions, which do not promise to keep a word whole.
  constexpr std::size_t kPiece = 1024 / sizeof(Value);
  for (; count > kPiece; count -= kPiece, to += kPiece, from += kPiece) {
    copy_piece(to, from, kPiece * sizeof(Value));
  }
  copy_piece(to, from, count * sizeof(Value));
#endif
}

/// a + b; integers wrap around.
template <class Value>
inline Value sum_of(Value a, Value b) {
  if constexpr (std::is_integral_v<Value>) {
    using Unsigned = std::make_unsigned_t<Value>;
    return static_cast<Value>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return a + b;
  }
}

/// As add_words(), with the widest vectors that the processor has.
void add_many_words(float* to, const float* update, std::size_t count);
void add_many_words(double* to, const double* update, std::size_t count);
void add_many_words(std::int32_t* to, const std::int32_t* update, std::size_t count);
void add_many_words(std::int64_t* to, const std::int64_t* update, std::size_t count);

/// to[i] += update[i]. REQUIRES: both naturally aligned. One writer at a time; readers use copy_words().
template <class Value>
inline void add_words(Value* __restrict to, const Value* __restrict update, std::size_t count) {
#if !VERBENA_WORDS_ARE_ATOMIC
  constexpr std::size_t kFew = 128 / sizeof(Value);  // these take less time than the call
  if (count > kFew) {
    add_many_words(to, update, count);
    return;
  }
#endif
  for (std::size_t i = 0; i < count; ++i) {
#if VERBENA_WORDS_ARE_ATOMIC
    Value value;
    __atomic_load(to + i, &value, __ATOMIC_RELAXED);
    value = sum_of(value, update[i]);
    __atomic_store(to + i, &value, __ATOMIC_RELAXED);
#else
    to[i] = sum_of(to[i], update[i]);
#endif
  }
}

}  // namespace verbena::base
