// The hot path of a pull of a dynamic table's rows where they are the worker's node's, inlined into its callers.
#pragma once

#include "worker/moving_rows.hpp"
#include "worker/pull_now.hpp"
#include "worker/session_core.hpp"

namespace verbena::worker {

template <class Keys>
std::size_t MovingRows::pull_now(const Keys& keys, std::size_t from, std::byte* out) {
  // Own pushes that are not applied may be of rows that have arrived here since.
  if (own_ == nullptr || !pushed_.empty()) return from;
  std::size_t i = from;
  for (; i < keys.size(); ++i) {
    if (i + kRowsAhead < keys.size()) {
      const std::byte* const ahead = own_slot(keys[i + kRowsAhead]);
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
