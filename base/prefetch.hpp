// Rows, and arrays with an entry for each key, are used in an order that no processor predicts, so that it
// would wait for each of them. Code that uses several of them fetches the next ones into the processor's
// cache while it works on one.
#pragma once

#include <cstddef>

namespace verbena::base {

/// How many keys ahead to prefetch.
inline constexpr std::size_t kKeysAhead = 8;

/// Where a row is found in several steps, each of which waits for memory: of how many keys each step is taken
/// before the next one, in a loop so short that the processor has several keys under way.
inline constexpr std::size_t kKeysTogether = 64;

// gcc considers a function that does nothing but __builtin_prefetch() to have no effect, and drops calls of
// it that it has not inlined before. The empty asm statement is an effect that costs nothing.

/// `address` will be read soon. Any address is allowed.
[[gnu::always_inline]] inline void prefetch_to_read(const void* address) {
  __builtin_prefetch(address);
  asm volatile("");  // NOLINT(hicpp-no-assembler)
}
/// `address` will be written soon. Any address is allowed.
[[gnu::always_inline]] inline void prefetch_to_write(const void* address) {
#if defined(__x86_64__)
  // Compilers would emit an instruction that fetches the line to be read: if another core has it, too, the
  // write would have to wait once more, until that core has given it up. This one fetches it for this core
  // alone. A processor that does not know it does nothing.
  asm volatile("prefetchw (%0)" : : "r"(address));  // NOLINT(hicpp-no-assembler)
#else
  __builtin_prefetch(address, 1);
  asm volatile("");  // NOLINT(hicpp-no-assembler)
#endif
}

}  // namespace verbena::base
