// The hot path of a pull of a dynamic table's rows where they are the worker's node's, inlined into its callers.
#pragma once

#include "transport/word_copy.hpp"
#include "worker/moving_rows.hpp"
#include "worker/session_core.hpp"

namespace verbena::worker {

/// So many rows ahead the next ones are fetched into the processor's cache.
inline constexpr std::size_t kSlotsAhead = 8;

/// From memory that others write at the same time: each number whole.
inline void copy_shared_row(protocol::ValueType type, std::byte* to, const std::byte* from,
                            std::size_t bytes) {
  const auto copy = [&]<class Word>(Word* words) {
    transport::copy_words(words, reinterpret_cast<const Word*>(from), bytes / sizeof(Word));
  };
  if (protocol::value_bytes(type) == sizeof(std::uint32_t)) {
    copy(reinterpret_cast<std::uint32_t*>(to));
  } else {
    copy(reinterpret_cast<std::uint64_t*>(to));
  }
}

template <class Keys>
std::size_t MovingRows::pull_now(const Keys& keys, std::size_t from, std::byte* out) {
  // Own pushes that are not applied may be of rows that have arrived here since.
  if (own_ == nullptr || !pushed_.empty()) return from;
  std::size_t i = from;
  for (; i < keys.size(); ++i) {
    if (i + kSlotsAhead < keys.size()) {
      const std::byte* const ahead = own_slot(keys[i + kSlotsAhead]);
      __builtin_prefetch(ahead);
      __builtin_prefetch(ahead + 64);
    }
    const std::byte* const slot = own_slot(keys[i]);
    if (!protocol::load_header(slot).is_owned()) break;
    copy_shared_row(type_, out + i * row_bytes_, protocol::slot_values(slot), row_bytes_);
  }
  session_.counters().rows_pulled_locally += i - from;
  return i;
}

}  // namespace verbena::worker
