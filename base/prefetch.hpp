// Rows, and arrays of what is known of each key, are used in an order that no processor foresees: one by one
// each would be waited for. Where several are used, the next ones are fetched into its cache while one is at
// work.
#pragma once

#include <cstddef>

namespace verbena::base {

/// So many keys ahead.
inline constexpr std::size_t kKeysAhead = 8;

// gcc takes a function that does nothing but __builtin_prefetch() for one without effect, and drops its calls
// where it has not inlined them before it looks. The empty statement is an effect that costs nothing.

/// `address`, any at all, will be read soon.
[[gnu::always_inline]] inline void prefetch_to_read(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");  // NOLINT(hicpp-no-assembler)
}
/// `address`, any at all, will be written soon.
[[gnu::always_inline]] inline void prefetch_to_write(const void* address) {
  __builtin_prefetch(address, 1);
  asm volatile("");  // NOLINT(hicpp-no-assembler)
}

}  // namespace verbena::base
