// The hot path of a pull, inlined into its callers: a few instructions and one copy for each row. What is the
// same for many rows is in Part::Reading.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/prefetch.hpp"
#include "consistency/rules.hpp"
#include "worker/fixed/fixed_table.hpp"
#include "worker/row_copy.hpp"

namespace verbena::worker {

inline void FixedTable::copy_mapped(std::byte* to, const std::byte* from, std::size_t bytes) const {
  copy_shared_row(layout_.type, to, from, bytes);
}

/// The fewer instructions lie between two copies, the more copies the processor has under way at a time. So
/// what pull_rows() and pull_now() find out step by step, with the same result, is compared with one number:
/// the session's epoch, which changes when any of it changes. What an epoch does not cover is looked at: the
/// thread, the key and the width, whether it is time to poll, and own updates, which come within an epoch.
[[gnu::always_inline]] inline bool FixedTable::pull_at_once(Key key, std::byte* out, std::size_t values) {
  if (!session_.is_here()) return false;  // first: all else may change under another thread's eyes
  const Part& part = *last_part_;
  const Part::AtOnce& here = part.at_once;
  // A key of the part is one of the table.
  if (here.epoch != session_.epoch() || !part.range.has(key) || values != layout_.width) return false;
  if (part.cache != nullptr) {
    const auto& cached =
        *reinterpret_cast<const CachedRow*>(here.address + key * (sizeof(CachedRow) + layout_.stride_bytes));
    if (cached.clock() < here.needed || !session_.may_read_a_row()) return false;
    ++*here.counter;
    copy_row(out, cached.values(), layout_.row_bytes);
    return true;
  }
  if (part.has_own() || !session_.may_read_a_row()) return false;
  ++*here.counter;
  copy_mapped(out, reinterpret_cast<const std::byte*>(here.address + key * layout_.stride_bytes),
              layout_.row_bytes);
  return true;
}

template <class Keys>
[[gnu::always_inline]] inline std::size_t FixedTable::pull_now(const Keys& keys, std::size_t from,
                                                               std::byte* out) {
  std::size_t next = from;
  heed_decisions();
  while (next < keys.size()) {
    Part& part = part_of(keys[next]);
    if (part.reading.epoch != session_.epoch()) refresh(part);
    if (!part.reading.allowed) break;
    const std::size_t first = next;
    if (part.cache == nullptr) {
      next = pull_in_place(part, keys, first, out);
    } else if (keeps_own_apart_ && part.has_own()) {
      next = pull_cached(part, keys, first, out);
    } else {
      next = pull_fresh(part, keys, first, out);
      if (next < keys.size()) next = pull_cached(part, keys, next, out);
    }
    if (next == first) break;
  }
  return next;
}

/// Reads rows of `part` from index `i` on. Stops at the first row that belongs to another part, is not in the
/// cache, or is older there than the lane; most rows are none of these. Returns the index of that row. All
/// that the loop needs is in registers: as far as the compiler knows, copying a row may change the cache.
template <class Keys>
[[gnu::always_inline]] inline std::size_t FixedTable::pull_fresh(const Part& part, const Keys& keys,
                                                                 std::size_t i, std::byte* out) {
  const RowCache::Places places = part.cache->places(part.range);
  if (places.address == 0) return i;
  const Keys copy = keys;
  const std::size_t size = copy.size();
  const protocol::RowRange range = part.range;
  const std::size_t row_bytes = layout_.row_bytes;
  const consistency::Clock needed = std::max(part.reading.needed, part.reading.min_clock);
  const std::size_t first = i;
  for (; i < size; ++i) {
    const Key key = copy[i];
    if (!range.has(key)) break;
    if (i + base::kKeysAhead < size) places.prefetch(copy[i + base::kKeysAhead]);
    const CachedRow& cached = places.at(key);
    if (cached.clock() < needed) break;
    copy_row(out + i * row_bytes, cached.values(), row_bytes);
  }
  *part.reading.counter += i - first;
  return i;
}

/// Reads rows of `part` from index `i` on until one is another part's or cannot be read now; returns its
/// index.
template <class Keys>
[[gnu::noinline]] std::size_t FixedTable::pull_in_place(Part& part, const Keys& keys, std::size_t i,
                                                        std::byte* out) {
  const std::size_t first = i;
  const bool has_own = part.has_own();
  if (keys.is_range() && !part.reading.has_outstanding && layout_.stride_bytes == layout_.row_bytes) {
    const std::uint64_t row = index_of(part.range.row_of(keys[i]));
    const std::size_t count = std::min<std::size_t>(keys.size() - i, part.range.size() - row);
    copy_mapped(out + i * layout_.row_bytes, part.mapped_row(Row{row}, layout_.stride_bytes),
                count * layout_.row_bytes);
    for (std::size_t k = 0; has_own && k < count; ++k)
      predict_own(part, Row{row + k}, out + (i + k) * layout_.row_bytes);
    *part.reading.counter += count;
    return i + count;
  }
  const std::uintptr_t first_row = reinterpret_cast<std::uintptr_t>(part.mapped) -
                                   part.range.keys().first * layout_.stride_bytes;  // of key 0
  for (; i < keys.size(); ++i) {
    if (!part.range.has(keys[i])) break;
    const Row row = part.range.row_of(keys[i]);
    if (i + base::kKeysAhead < keys.size() && !keys.is_range()) {
      const Key ahead = keys[i + base::kKeysAhead];  // of whichever part
      prefetch_row(reinterpret_cast<const void*>(first_row + ahead * layout_.stride_bytes));
    }
    if (part.reading.has_outstanding && part.has_unapplied(row)) break;
    copy_mapped(out + i * layout_.row_bytes, part.mapped_row(row, layout_.stride_bytes), layout_.row_bytes);
    if (has_own) predict_own(part, row, out + i * layout_.row_bytes);
  }
  *part.reading.counter += i - first;
  return i;
}

/// Asks the processor to fetch what pull_cached() will look at some keys after index `i`: where rows are
/// found by an index, first that, and some keys later the row.
template <class Keys>
[[gnu::always_inline]] inline void FixedTable::fetch_ahead(const Part& part, const RowCache::Places& places,
                                                           const Keys& keys, std::size_t i) {
  const auto is_here = [&](std::size_t k) { return k < keys.size() && part.range.has(keys[k]); };
  const std::size_t next = i + base::kKeysAhead;
  if (places.address != 0) {
    if (next < keys.size()) places.prefetch(keys[next]);
    return;
  }
  if (is_here(next)) part.cache->prefetch(part.range.row_of(keys[next]));
  const std::size_t after = next + base::kKeysAhead;
  if (is_here(after)) part.cache->prefetch_index(part.range.row_of(keys[after]));
}

/// Like pull_in_place(), but reads from the cache.
template <class Keys>
[[gnu::noinline]] std::size_t FixedTable::pull_cached(Part& part, const Keys& keys, std::size_t i,
                                                      std::byte* out) {
  RowCache& cache = *part.cache;
  const consistency::Clock needed = part.reading.needed;
  const consistency::Clock min_clock = part.reading.min_clock;
  const bool predicts_own = keeps_own_apart_ && part.has_own();
  const RowCache::Places places = cache.places(part.range);
  std::uint64_t fresh = 0;
  for (; i < keys.size(); ++i) {
    if (!part.range.has(keys[i])) break;
    const Row row = part.range.row_of(keys[i]);
    fetch_ahead(part, places, keys, i);
    const CachedRow& cached = cache.read(row);
    const consistency::Clock clock = cached.clock();
    if (clock >= needed) {
      copy_row(out + i * layout_.row_bytes, cached.values(), layout_.row_bytes);
      if (predicts_own) predict_own(part, row, out + i * layout_.row_bytes);
      if (clock >= min_clock) {
        ++fresh;
      } else {
        ++reads_at(clock);
      }
    } else if (!fetch_mapped(part, row, out + i * layout_.row_bytes)) {
      break;
    }
  }
  *part.reading.counter += fresh;
  return i;
}

}  // namespace verbena::worker
