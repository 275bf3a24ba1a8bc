// The index of a sparse table, as it lies in a server's registered memory: it says which row is that of
// a key. One lane writes it (server/sparse_index.hpp). Workers read it at any time, by one-sided reads or in
// mapped memory, without locks and without versions.
//
// A key's hash names a segment, by the lane's directory, and a bucket in it. The segment is an array of
// buckets of one cache line each:
//
//   512 buckets · 1 spare one, so that each bucket has a next one · 32 overflow buckets
//
// A bucket has a header and seven entries, each one word. An entry for a key is in the key's own bucket; if
// that was full when the key came, in the next one; if that was full, too, in the overflow bucket of its own
// bucket, whose header then says so. So one read of two cache lines finds nearly every key.
//
//   header   bit 0: retired, this segment is not used any more · bit 1: entries of this bucket are in its
//            overflow bucket
//   entry    0: none · bits 48–63 tag · 40–47 bits of the hash by which the segment will be divided ·
//            0–39 row
//
// A row has its key beside it, and only the key tells whether it is the row that is looked for: of some
// thousand keys that are not in the table, one has the tag of another key.
//
// Why no versions are needed. Each word is read whole, and words may be read in any order. While a segment is
// in use, entries do not move: so a key that is in the table all the time that a reader reads has its entry
// in one place, and the reader finds it. A key that it does not find was not in the table at some moment of
// the read. When a segment is divided, it is marked as retired in all its headers before any key is added to
// or removed from those that replace it. So a reader that sees no mark has read an answer that was true at
// some moment of the read, even if the segment has been replaced meanwhile. (RACE, ATC'21, has entries of one
// word and headers that tell stale readers; FaRM, NSDI'14, reads two neighbours at once.)
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "base/word_copy.hpp"
#include "protocol/row.hpp"
#include <verbena/keys.hpp>

namespace verbena::protocol {

/// The hash of a key: bits 63–52 its part of the table (4,096 of them, for servers and lanes) · 51 unused
/// · 50–42 bucket · 41–16 which segment, the highest bit first · 15–0 tag.
class KeyHash {
 public:
  static constexpr std::uint32_t kPartBits = 12;
  static constexpr std::uint32_t kBucketBits = 9;
  static constexpr std::uint32_t kSegmentBits = 26;

  constexpr explicit KeyHash(Key key) : bits_(mix(key)) {}

  [[nodiscard]] constexpr std::uint32_t part() const { return field(52, kPartBits); }
  [[nodiscard]] constexpr std::uint32_t bucket() const { return field(42, kBucketBits); }
  /// The first `depth` of the bits that say which segment, as a number. REQUIRES: depth ≤ kSegmentBits
  [[nodiscard]] constexpr std::uint32_t segment_bits(std::uint32_t depth) const {
    return field(42 - depth, depth);
  }
  /// Eight of these bits: from bit 8 · `index` on, counted from the first one; 0 beyond the last one.
  [[nodiscard]] constexpr std::uint64_t segment_byte(std::uint32_t index) const {
    const std::uint64_t from_the_top = (bits_ >> 16 & ((std::uint64_t{1} << kSegmentBits) - 1))
                                       << (64 - kSegmentBits);
    return (from_the_top << 8 * index) >> 56;
  }
  /// Never 0, so that no entry is.
  [[nodiscard]] constexpr std::uint64_t tag() const {
    const std::uint64_t tag = bits_ & 0xFFFF;
    return tag == 0 ? 1 : tag;
  }

 private:
  /// A bijection in which each bit depends on all others (the end of MurmurHash3).
  static constexpr std::uint64_t mix(std::uint64_t bits) {
    bits = (bits ^ bits >> 33) * 0xff51afd7ed558ccd;
    bits = (bits ^ bits >> 33) * 0xc4ceb9fe1a85ec53;
    return bits ^ bits >> 33;
  }
  [[nodiscard]] constexpr std::uint32_t field(std::uint32_t from, std::uint32_t size) const {
    return static_cast<std::uint32_t>(bits_ >> from & ((std::uint64_t{1} << size) - 1));
  }

  std::uint64_t bits_;
};

/// Rows of a sparse table never move. One that is free becomes that of another key once no reader has the
/// entry of its former key any more.
inline constexpr std::uint32_t kRowBits = 40;

struct IndexEntry {
  static constexpr std::uint64_t make(const KeyHash& hash, std::uint32_t depth, Row row) {
    return hash.tag() << 48 | hash.segment_byte(depth / 8) << 40 | index_of(row);
  }
  static constexpr std::uint64_t tag(std::uint64_t entry) { return entry >> 48; }
  /// The bit by which a segment of this depth is divided.
  static constexpr bool next_bit(std::uint64_t entry, std::uint32_t depth) {
    return (entry >> (47 - depth % 8) & 1) != 0;
  }
  static constexpr Row row(std::uint64_t entry) { return Row{entry & ((std::uint64_t{1} << kRowBits) - 1)}; }
};

struct alignas(64) IndexBucket {
  static constexpr std::uint64_t kRetired = 1;
  static constexpr std::uint64_t kHasOverflow = 2;
  static constexpr std::size_t kEntries = 7;

  std::uint64_t header = 0;
  std::uint64_t entries[kEntries] = {};
};

struct IndexSegment {
  static constexpr std::size_t kBuckets = std::size_t{1} << KeyHash::kBucketBits;
  static constexpr std::size_t kOverflowBuckets = 32;
  /// Neighbours, which fill up together, do not share one.
  static constexpr std::size_t overflow_of(std::size_t bucket) {
    return kBuckets + 1 + bucket % kOverflowBuckets;
  }

  IndexBucket buckets[kBuckets + 1 + kOverflowBuckets];
};
static_assert(sizeof(IndexSegment) == 34'880);

/// A lane's directory says which segment each hash belongs to: the entry at KeyHash::segment_bits() of its
/// own depth. An entry is one word; a segment of a smaller depth than the directory's has several entries.
struct DirectoryEntry {
  static constexpr std::uint64_t make(std::uint32_t segment, std::uint32_t depth) {
    return std::uint64_t{depth} << 32 | segment;
  }
  static constexpr std::uint32_t segment(std::uint64_t entry) { return static_cast<std::uint32_t>(entry); }
  static constexpr std::uint32_t depth(std::uint64_t entry) {
    return static_cast<std::uint32_t>(entry >> 32);
  }
};

/// What a reader makes of a segment.
struct IndexAnswer {
  enum class Kind : std::uint8_t { kFound, kAbsent, kRetired };
  Kind kind = Kind::kAbsent;
  Row row = {};
};

/// A word of an index that its lane may be changing. Acquire: what the lane has written before it, such as
/// the row and its key, is seen after it.
inline std::uint64_t load_word(const std::uint64_t& word) {
  return std::atomic_ref(const_cast<std::uint64_t&>(word)).load(std::memory_order_acquire);
}

/// Bit 4 · i: entry i has the tag. Without a branch for each entry, whose outcome no processor could predict.
inline std::uint32_t entries_with_tag(const IndexBucket& bucket, std::uint64_t tag) {
#if defined(__SSE2__) && !VERBENA_WORDS_ARE_ATOMIC
  // The tag is the last of the four 16-bit numbers of a word. Each of the loads reads two aligned words, each
  // of them whole (base/word_copy.hpp), and on this processor all loads are acquiring.
  const auto* const pairs = reinterpret_cast<const __m128i*>(&bucket);
  const __m128i wanted = _mm_set1_epi16(static_cast<short>(tag));
  const auto equal = [&](std::size_t pair) { return _mm_cmpeq_epi16(_mm_load_si128(pairs + pair), wanted); };
  const auto first = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(equal(0), equal(1))));
  const auto last = static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(equal(2), equal(3))));
  std::atomic_signal_fence(std::memory_order_acquire);
  // Bit 4 · w + 3 for word w, the first of which is the header.
  return (first | last << 16) >> 7 & 0x1111111;
#else
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < IndexBucket::kEntries; ++i)
    found |= std::uint32_t{IndexEntry::tag(load_word(bucket.entries[i])) == tag} << 4 * i;
  return found;
#endif
}

/// Looks for a key in a segment that its lane may be changing. `has_key(row)`: whether the row is that of the
/// key.
template <class HasKey>
IndexAnswer look_up(const IndexSegment& segment, const KeyHash& hash, const HasKey& has_key) {
  const std::uint64_t tag = hash.tag();
  IndexAnswer answer;
  const auto is_in = [&](const IndexBucket& bucket) {
    for (std::uint32_t left = entries_with_tag(bucket, tag); left != 0; left &= left - 1) {
      const std::uint64_t entry = load_word(bucket.entries[std::countr_zero(left) / 4]);
      if (IndexEntry::tag(entry) != tag || !has_key(IndexEntry::row(entry))) continue;
      answer = {IndexAnswer::Kind::kFound, IndexEntry::row(entry)};
      return true;
    }
    return false;
  };
  const IndexBucket& own = segment.buckets[hash.bucket()];
  const std::uint64_t header = load_word(own.header);
  if ((header & IndexBucket::kRetired) != 0) return {IndexAnswer::Kind::kRetired, {}};
  if (is_in(own) || is_in(segment.buckets[hash.bucket() + 1])) return answer;
  if ((header & IndexBucket::kHasOverflow) != 0)
    static_cast<void>(is_in(segment.buckets[IndexSegment::overflow_of(hash.bucket())]));
  return answer;
}

/// Like look_up(), but a row is taken for the key's if its entry has the key's tag: of a thousand keys that
/// is right for all but one, and the row is not read.
[[gnu::always_inline]] inline IndexAnswer look_up_probably(const IndexSegment& segment, const KeyHash& hash) {
  // Nearly always it is in its own bucket. Looking there first, in few instructions, takes a twelfth of a
  // pull's time less, since more keys are under way at a time.
  const IndexBucket& own = segment.buckets[hash.bucket()];
  const std::uint64_t tag = hash.tag();
  if (const std::uint32_t found = entries_with_tag(own, tag); found != 0) [[likely]] {
    const std::uint64_t entry = load_word(own.entries[std::countr_zero(found) / 4]);
    if (IndexEntry::tag(entry) == tag && (load_word(own.header) & IndexBucket::kRetired) == 0) [[likely]]
      return {IndexAnswer::Kind::kFound, IndexEntry::row(entry)};
  }
  return look_up(segment, hash, [](Row) { return true; });
}

}  // namespace verbena::protocol
