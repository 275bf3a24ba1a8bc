// The hot paths of pulls and pushes of a dynamic table's rows that are on the worker's node, inlined into
// their callers.
#pragma once

#include "base/prefetch.hpp"
#include "worker/moving/moving_table.hpp"

namespace verbena::worker {

/// For a row that will be read soon: fetches the first two cache lines of its slot.
inline void prefetch_slot(protocol::Slot slot) {
  base::prefetch_to_read(slot.bytes);
  base::prefetch_to_read(slot.bytes + protocol::kCacheLineBytes);
}

template <class Keys>
[[gnu::always_inline]] inline std::size_t MovingTable::pull_now(const Keys& keys, std::byte* out) {
  // There are replicas, or rows that may have arrived here while this worker's pushes to them are on their
  // way to another node.
  if (!rows_.marked.empty()) [[unlikely]]
    return pull_among_marked(keys, out);
  if (!rows_.own.is_mapped()) return 0;
  const auto slot_of = rows_.own.slot_function();
  std::size_t i = 0;
  for (; i < keys.size(); ++i) {
    if (i + base::kKeysAhead < keys.size()) prefetch_slot(slot_of(keys[i + base::kKeysAhead]));
    const protocol::Slot slot = slot_of(keys[i]);
    if (!protocol::load_header(slot).is_owned()) break;
    copy_shared_row(layout_.type, out + i * layout_.row_bytes, protocol::slot_values(slot),
                    layout_.row_bytes);
  }
  session_.counters().rows_pulled_locally += i;
  return i;
}

template <class Keys>
[[gnu::always_inline]] inline std::size_t MovingTable::push_now(const Keys& keys, const std::byte* updates) {
  if (!rows_.marked.empty()) [[unlikely]]
    return push_among_marked(keys, updates);
  if (!rows_.own.is_mapped()) return 0;
  std::size_t i = 0;
  for (; i < keys.size(); ++i) {
    const std::byte* const update = updates + i * layout_.row_bytes;
    const protocol::Slot slot = rows_.own.slot(keys[i]);
    protocol::SlotHeader header;
    if (rows_.own.try_lock(slot, header) == protocol::LockResult::kLocked) {
      rows_.own.apply_and_unlock(slot, header, update);
    } else if (rows_.own.push(keys[i], update) != protocol::LockResult::kLocked) {
      break;
    }
  }
  session_.counters().rows_pushed_locally += i;
  return i;
}

/// Like pull_now(), with marked rows. Not inlined: most tables have no such rows.
template <class Keys>
[[gnu::noinline]] std::size_t MovingTable::pull_among_marked(const Keys& keys, std::byte* out) {
  const bool is_mapped = rows_.own.is_mapped();
  std::size_t i = 0;
  std::uint64_t here = 0;
  for (; i < keys.size(); ++i) {
    const Key key = keys[i];
    if (is_mapped && i + base::kKeysAhead < keys.size())
      prefetch_slot(rows_.own.slot(keys[i + base::kKeysAhead]));
    if (rows_.marked.contains(key)) {
      const Replica* const replica = rows_.replication.find(key);
      if (replica == nullptr || !rows_.replication.is_usable(*replica)) break;
      rows_.replication.pull(*replica, out + i * layout_.row_bytes);
      continue;
    }
    if (!is_mapped || !rows_.own.pull(key, out + i * layout_.row_bytes)) break;
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
    const Key key = keys[i];
    const std::byte* const update = updates + i * layout_.row_bytes;
    if (rows_.marked.contains(key)) {
      if (!rows_.replication.push(key, update)) break;
      continue;
    }
    if (!rows_.own.is_mapped() || rows_.own.push(key, update) != protocol::LockResult::kLocked) break;
    ++here;
  }
  session_.counters().rows_pushed_locally += here;
  return i;
}

}  // namespace verbena::worker
