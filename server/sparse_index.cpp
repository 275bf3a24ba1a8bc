#include "server/sparse_index.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cassert>
#include <utility>

#include "base/return_if_error.hpp"
#include "server/image_bytes.hpp"

namespace verbena::server {

using protocol::DirectoryEntry;
using protocol::IndexAnswer;
using protocol::IndexBucket;
using protocol::IndexEntry;
using protocol::IndexSegment;
using protocol::KeyHash;
using protocol::Row;

namespace {

/// Only the lane writes, so that it may read plainly. Release: who sees the word also sees what was written
/// before.
void store(std::uint64_t& word, std::uint64_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

bool put(IndexBucket& bucket, std::uint64_t entry) {
  for (std::uint64_t& word : bucket.entries) {
    if (word != 0) continue;
    store(word, entry);
    return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<SparseIndex> SparseIndex::create(Memory& memory, std::uint32_t keys_of_segment) {
  SparseIndex index(memory, keys_of_segment);
  const auto segment = index.add_segment();
  if (!segment.ok()) return segment.status();
  const auto directory = memory.add_directory(1);
  if (!directory.ok()) return directory.status();
  index.directory_ = *directory;
  index.segments_ = 1;
  store(index.directory_[0], DirectoryEntry::make(*segment, 0));
  memory.publish_directory();
  return index;
}

absl::StatusOr<std::uint32_t> SparseIndex::add_segment() {
  const auto added = memory_.add_segment();
  if (!added.ok()) return added.status();
  if (added->number >= keys_of_.size()) {
    keys_of_.resize(added->number + 1);
    segment_at_.resize(added->number + 1);
  }
  keys_of_[added->number] = 0;
  segment_at_[added->number] = added->memory;
  return added->number;
}

IndexAnswer SparseIndex::find(const KeyHash& hash, Key key) const {
  return protocol::look_up(segment_of(hash), hash, [&](Row row) { return memory_.key_of(row) == key; });
}

absl::Status SparseIndex::insert(const KeyHash& hash, Row row) {
  assert(index_of(row) >> protocol::kRowBits == 0);
  for (;;) {
    const std::uint64_t where = entry_of(hash);
    const std::uint32_t number = DirectoryEntry::segment(where);
    const std::uint64_t entry = IndexEntry::make(hash, DirectoryEntry::depth(where), row);
    absl::Status divided;
    // Divided again and again, if all keys of the segment go the same way.
    if (keys_of_[number] >= most_keys_ && (divided = divide(hash)).ok()) continue;
    // A segment that cannot be divided is filled to the last entry.
    memory_.before_change(*segment_at_[number]);
    if (place(*segment_at_[number], hash, entry)) {
      ++keys_of_[number];
      ++keys_;
      return absl::OkStatus();
    }
    if (!divided.ok()) return divided;
    RETURN_IF_ERROR(divide(hash));
  }
}

/// Where the entry for the key comes to lie. False: nowhere.
bool SparseIndex::place(IndexSegment& segment, const KeyHash& hash, std::uint64_t entry) {
  IndexBucket& own = segment.buckets[hash.bucket()];
  if (put(own, entry) || put(segment.buckets[hash.bucket() + 1], entry)) return true;
  // The mark comes first: who sees no mark may not miss an entry.
  store(own.header, own.header | IndexBucket::kHasOverflow);
  return put(segment.buckets[IndexSegment::overflow_of(hash.bucket())], entry);
}

bool SparseIndex::erase(const KeyHash& hash, Row row) {
  std::uint64_t* const word = find_word(hash, row);
  if (word == nullptr) return false;
  memory_.before_change(segment_of(hash));
  store(*word, 0);
  forget_overflow(segment_of(hash), hash.bucket());
  --keys_of_[DirectoryEntry::segment(entry_of(hash))];
  --keys_;
  return true;
}

/// Once the overflow bucket has none of the bucket's entries, nobody need look there.
void SparseIndex::forget_overflow(IndexSegment& segment, std::uint32_t bucket) const {
  IndexBucket& own = segment.buckets[bucket];
  if ((own.header & IndexBucket::kHasOverflow) == 0) return;
  for (const std::uint64_t entry : segment.buckets[IndexSegment::overflow_of(bucket)].entries) {
    if (entry != 0 && KeyHash(memory_.key_of(IndexEntry::row(entry))).bucket() == bucket) return;
  }
  store(own.header, own.header & ~IndexBucket::kHasOverflow);
}

std::uint64_t* SparseIndex::find_word(const KeyHash& hash, Row row) const {
  IndexSegment& segment = segment_of(hash);
  IndexBucket* const places[] = {&segment.buckets[hash.bucket()], &segment.buckets[hash.bucket() + 1],
                                 &segment.buckets[IndexSegment::overflow_of(hash.bucket())]};
  for (IndexBucket* const bucket : places) {
    for (std::uint64_t& word : bucket->entries) {
      if (word != 0 && IndexEntry::row(word) == row) return &word;
    }
  }
  return nullptr;
}

absl::Status SparseIndex::divide(const KeyHash& hash) {
  const std::uint64_t where = entry_of(hash);
  const std::uint32_t depth = DirectoryEntry::depth(where);
  const bool is_deepest = depth == KeyHash::kSegmentBits ||
                          (depth == depth_ && 2 * directory_.size() > kMostEntriesASegment * segments_);
  if (is_deepest) {
    return absl::ResourceExhaustedError(fmt::format(
        "the index of a sparse table has no room for another key whose hash begins as those of {} "
        "others do",
        keys_of_[DirectoryEntry::segment(where)]));
  }
  if (depth == depth_) RETURN_IF_ERROR(double_directory());
  std::uint32_t numbers[2];
  for (std::uint32_t& number : numbers) {
    const auto added = add_segment();
    if (!added.ok()) {
      if (&number == &numbers[1]) memory_.retire_segment(numbers[0]);
      return added.status();
    }
    number = *added;
  }
  IndexSegment& old = *segment_at_[DirectoryEntry::segment(where)];
  IndexSegment* const halves[2] = {segment_at_[numbers[0]], segment_at_[numbers[1]]};
  std::uint32_t keys[2] = {0, 0};
  copy(old, depth, halves, keys);
  for (std::size_t half = 0; half < 2; ++half) keys_of_[numbers[half]] = keys[half];
  // Readers who see the mark find the new segments in the directory. No key is added or removed before all
  // headers are marked.
  const std::size_t span = std::size_t{1} << (depth_ - depth);  // entries of the old segment
  const std::size_t first = hash.segment_bits(depth) * span;
  for (std::size_t i = 0; i < span; ++i)
    store(directory_[first + i], DirectoryEntry::make(numbers[i < span / 2 ? 0 : 1], depth + 1));
  memory_.before_change(old);
  retire(old);
  memory_.retire_segment(DirectoryEntry::segment(where));
  ++segments_;
  return absl::OkStatus();
}

/// Entries stay in their buckets, where they remain right. Those of the overflow buckets go back to their own
/// ones, which mostly have room now; for that their keys are read. All keys are read once in eight divisions,
/// to learn the next bits of their hashes.
void SparseIndex::copy(const IndexSegment& from, std::uint32_t depth, IndexSegment* const (&to)[2],
                       std::uint32_t (&keys)[2]) const {
  const bool needs_keys = (depth + 1) % 8 == 0;
  // Keys lie in rows all over the memory: many are fetched at a time.
  constexpr std::size_t kBucketsAhead = 8;
  const auto fetch_keys = [&](const IndexBucket& bucket) {
    for (const std::uint64_t entry : bucket.entries) {
      if (entry != 0) memory_.prefetch_key(IndexEntry::row(entry));
    }
  };
  for (std::size_t bucket = 0; needs_keys && bucket < kBucketsAhead; ++bucket)
    fetch_keys(from.buckets[bucket]);
  for (std::size_t bucket = 0; bucket <= IndexSegment::kBuckets; ++bucket) {
    if (needs_keys && bucket + kBucketsAhead <= IndexSegment::kBuckets)
      fetch_keys(from.buckets[bucket + kBucketsAhead]);
    for (std::size_t i = 0; i < IndexBucket::kEntries; ++i) {
      std::uint64_t entry = from.buckets[bucket].entries[i];
      if (entry == 0) continue;
      const bool half = IndexEntry::next_bit(entry, depth);
      if (needs_keys) {
        const Row row = IndexEntry::row(entry);
        entry = IndexEntry::make(KeyHash(memory_.key_of(row)), depth + 1, row);
      }
      to[half]->buckets[bucket].entries[i] = entry;
      ++keys[half];
    }
  }
  for (std::size_t bucket = IndexSegment::kBuckets + 1; bucket < std::size(from.buckets); ++bucket) {
    for (const std::uint64_t entry : from.buckets[bucket].entries) {
      if (entry == 0) continue;
      const bool half = IndexEntry::next_bit(entry, depth);
      const Row row = IndexEntry::row(entry);
      const KeyHash hash(memory_.key_of(row));
      const bool placed = place(*to[half], hash, IndexEntry::make(hash, depth + 1, row));
      assert(placed);  // at least the overflow bucket has as much room as in the old segment
      keys[half] += placed ? 1 : 0;
    }
  }
}

void SparseIndex::retire(IndexSegment& segment) {
  for (IndexBucket& bucket : segment.buckets) store(bucket.header, bucket.header | IndexBucket::kRetired);
}

absl::Status SparseIndex::double_directory() {
  const auto larger = memory_.add_directory(2 * directory_.size());
  if (!larger.ok()) return larger.status();
  for (std::size_t i = 0; i < larger->size(); ++i) store((*larger)[i], directory_[i / 2]);
  directory_ = *larger;
  ++depth_;
  memory_.publish_directory();
  return absl::OkStatus();
}

void SparseIndex::write_image(ImageWriter& out) const {
  out.put(depth_);
  out.put(keys_);
  out.put(std::uint64_t{segments_});
  out.put_all(keys_of_);
}

bool SparseIndex::read_image(ImageReader& in, std::span<std::uint64_t> directory,
                             std::vector<IndexSegment*> segments) {
  depth_ = in.get<std::uint32_t>();
  keys_ = in.get<std::uint64_t>();
  segments_ = in.get<std::uint64_t>();
  keys_of_ = in.get_all<std::uint32_t>();
  if (!in.is_good() || keys_of_.size() > segments.size() || directory.size() != std::size_t{1} << depth_)
    return false;
  directory_ = directory;
  segment_at_ = std::move(segments);
  segment_at_.resize(keys_of_.size());
  return true;
}

}  // namespace verbena::server
