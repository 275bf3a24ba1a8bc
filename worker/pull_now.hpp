// The hot path of a pull, inlined into its callers: a few instructions and one copy a row. What is the same
// for many rows is in Part::Reading.
#pragma once

#include <algorithm>
#include <cstring>

#include "transport/word_copy.hpp"
#include "worker/session_core.hpp"
#include "worker/table_core.hpp"

namespace verbena::worker {

/// So many rows ahead the next ones are fetched into the processor's cache.
inline constexpr std::size_t kRowsAhead = 8;

inline constexpr std::size_t kBlockBytes = 16;
/// A short row is copied before memcpy() would have been called.
constexpr bool is_short_row(std::size_t bytes) {
  return bytes <= 128 && bytes % kBlockBytes == 0;
}

/// Of private memory.
inline void copy_row(std::byte* __restrict to, const std::byte* __restrict from, std::size_t bytes) {
  if (is_short_row(bytes)) {
    for (std::size_t at = 0; at < bytes; at += kBlockBytes) std::memcpy(to + at, from + at, kBlockBytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

/// From memory that others write at the same time: each number whole.
inline void copy_shared_row(protocol::ValueType type, std::byte* to, const std::byte* from,
                            std::size_t bytes) {
  if (!VERBENA_WORDS_ARE_ATOMIC && is_short_row(bytes)) {
    copy_row(to, from, bytes);
    return;
  }
  const auto copy = [&]<class Word>(Word* words) {
    transport::copy_words(words, reinterpret_cast<const Word*>(from), bytes / sizeof(Word));
  };
  if (protocol::value_bytes(type) == sizeof(std::uint32_t)) {
    copy(reinterpret_cast<std::uint32_t*>(to));
  } else {
    copy(reinterpret_cast<std::uint64_t*>(to));
  }
}

inline void TableCore::copy_mapped(std::byte* to, const std::byte* from, std::size_t bytes) const {
  copy_shared_row(type_, to, from, bytes);
}

template <class Keys>
std::size_t TableCore::pull_now(const Keys& keys, std::size_t from, std::byte* out) {
  std::size_t next = from;
  while (next < keys.size()) {
    Part& part = part_of(keys[next]);
    if (part.reading.epoch != session_.epoch()) refresh(part);
    if (!part.reading.allowed) break;
    const std::size_t first = next;
    next = part.cache == nullptr      ? pull_in_place(part, keys, first, out)
           : part.cache->is_bounded() ? pull_cached<true>(part, keys, first, out)
                                      : pull_cached<false>(part, keys, first, out);
    if (next == first) break;
  }
  return next;
}

/// Reads rows of `part` from index `i` on until one is another part's or cannot be read now; returns its
/// index.
template <class Keys>
std::size_t TableCore::pull_in_place(Part& part, const Keys& keys, std::size_t i, std::byte* out) {
  const std::size_t first = i;
  const bool has_own = !part.current->empty();
  if (keys.is_range() && !part.reading.has_outstanding && stride_bytes_ == row_bytes_) {
    const protocol::Key key = keys[i];
    const std::size_t count = std::min<std::size_t>(keys.size() - i, part.keys.last - key);
    copy_mapped(out + i * row_bytes_, mapped_row(part, key), count * row_bytes_);
    for (std::size_t row = 0; has_own && row < count; ++row)
      add_own(part, key + row, out + (i + row) * row_bytes_);
    *part.reading.counter += count;
    return i + count;
  }
  for (; i < keys.size(); ++i) {
    const protocol::Key key = keys[i];
    if (key - part.keys.first >= part.keys.size()) break;
    if (part.reading.has_outstanding && has_unapplied(part, key)) break;
    copy_mapped(out + i * row_bytes_, mapped_row(part, key), row_bytes_);
    if (has_own) add_own(part, key, out + i * row_bytes_);
  }
  *part.reading.counter += i - first;
  return i;
}

/// As pull_in_place().
template <bool kBounded, class Keys>
std::size_t TableCore::pull_cached(Part& part, const Keys& keys, std::size_t i, std::byte* out) {
  RowCache& cache = *part.cache;
  const consistency::Clock needed = part.reading.needed;
  const consistency::Clock min_clock = part.reading.min_clock;
  std::uint64_t fresh = 0;  // rows as good as the lane, all but a few
  for (; i < keys.size(); ++i) {
    const protocol::Key key = keys[i];
    if (key - part.keys.first >= part.keys.size()) break;
    if (i + kRowsAhead < keys.size()) cache.prefetch(keys[i + kRowsAhead]);
    const RowCache::Row& row = cache.at(key);
    if (row.clock() >= needed) {
      if constexpr (kBounded) cache.touch(key);
      copy_row(out + i * row_bytes_, row.values(), row_bytes_);
      if (row.clock() >= min_clock) {
        ++fresh;
      } else {
        ++reads_at(row.clock());
      }
    } else if (!fetch_mapped(part, key, out + i * row_bytes_)) {
      break;
    }
  }
  *part.reading.counter += fresh;
  return i;
}

}  // namespace verbena::worker
