// The hot paths of pulls and pushes of a dynamic table's rows where they are the worker's node's, inlined
// into their callers.
#pragma once

#include "protocol/prefetch.hpp"
#include "worker/moving/moving_table.hpp"
#include "worker/row_copy.hpp"

namespace verbena::worker {

template <class Keys>
std::size_t MovingTable::pull_now(const Keys& keys, std::size_t from, std::byte* out) {
  // Replicas, and rows that may have arrived here while own pushes to them are on their way elsewhere.
  if (marked_ > 0) [[unlikely]]
    return pull_among_marked(keys, from, out);
  if (own_ == nullptr) return from;
  // In registers: for all that the compiler knows, a copied row changes these.
  const auto slot_of = [slots = own_, bytes = slot_bytes_, home = own_home_keys_](protocol::Key key) {
    return protocol::slot_at(slots, bytes, key, home);
  };
  std::size_t i = from;
  for (; i < keys.size(); ++i) {
    if (i + protocol::kKeysAhead < keys.size()) {
      const std::byte* const ahead = slot_of(keys[i + protocol::kKeysAhead]).bytes;
      protocol::prefetch_to_read(ahead);
      protocol::prefetch_to_read(ahead + 64);
    }
    const protocol::Slot slot = slot_of(keys[i]);
    if (!protocol::load_header(slot).is_owned()) break;
    copy_shared_row(type_, out + i * row_bytes_, protocol::slot_values(slot), row_bytes_);
  }
  session_.counters().rows_pulled_locally += i - from;
  return i;
}

template <class Keys>
std::size_t MovingTable::push_now(const Keys& keys, const std::byte* updates) {
  if (marked_ > 0) [[unlikely]]
    return push_among_marked(keys, updates);
  if (own_ == nullptr) return 0;
  std::size_t i = 0;
  for (; i < keys.size(); ++i) {
    const std::byte* const update = updates + i * row_bytes_;
    const protocol::Slot slot = own_slot(keys[i]);
    protocol::SlotHeader owned;
    if (protocol::try_lock(slot, holder_, owned) == protocol::LockResult::kLocked) {
      add_and_unlock(slot, owned, update);
    } else if (push_in_place(keys[i], update) != protocol::LockResult::kLocked) {
      break;
    }
  }
  session_.counters().rows_pushed_locally += i;
  return i;
}

/// As pull_now(). Not inlined: most tables have no such rows.
template <class Keys>
[[gnu::noinline]] std::size_t MovingTable::pull_among_marked(const Keys& keys, std::size_t from,
                                                             std::byte* out) {
  std::size_t i = from;
  std::uint64_t here = 0;
  for (; i < keys.size(); ++i) {
    const protocol::Key key = keys[i];
    if (own_ != nullptr && i + protocol::kKeysAhead < keys.size()) {
      const std::byte* const ahead = own_slot(keys[i + protocol::kKeysAhead]).bytes;
      protocol::prefetch_to_read(ahead);
      protocol::prefetch_to_read(ahead + 64);
    }
    if (is_marked(key)) {
      Replica* const replica = replicas_.find(key);
      if (replica == nullptr || !is_usable(*replica)) break;
      read_replica(*replica, out + i * row_bytes_);
      continue;
    }
    if (own_ == nullptr || !pull_own_in_place(key, out + i * row_bytes_)) break;
    ++here;
  }
  session_.counters().rows_pulled_locally += here;
  return i;
}

template <class Keys>
[[gnu::noinline]] std::size_t MovingTable::push_among_marked(const Keys& keys, const std::byte* updates) {
  std::size_t i = 0;
  std::uint64_t here = 0;
  for (; i < keys.size(); ++i) {
    const protocol::Key key = keys[i];
    const std::byte* const update = updates + i * row_bytes_;
    if (is_marked(key)) {
      if (!push_to_replica(key, update)) break;
      continue;
    }
    if (own_ == nullptr || push_in_place(key, update) != protocol::LockResult::kLocked) break;
    ++here;
  }
  session_.counters().rows_pushed_locally += here;
  return i;
}

inline void MovingTable::add_and_unlock(protocol::Slot slot, protocol::SlotHeader owned,
                                        const std::byte* update) {
  protocol::visit_value_type(type_, [&]<class Value>() {
    transport::add_words(reinterpret_cast<Value*>(protocol::slot_values(slot)),
                         reinterpret_cast<const Value*>(update), options_.width);
  });
  protocol::store_header(slot, owned);
}

}  // namespace verbena::worker
