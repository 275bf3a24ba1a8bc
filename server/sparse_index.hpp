// Writes the index of one lane's part of a sparse table; protocol/sparse_index.hpp has its layout, and why
// readers need no locks.
//
// The index grows by dividing one segment at a time: its entries are copied into two new ones, by the next
// bit of their keys' hashes, and the directory is changed. That takes about a tenth of a millisecond. When
// the directory is full, it is replaced by one of twice the size.
//
// Thread safety: belongs to its lane. Others read what it writes at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/prefetch.hpp"
#include "protocol/sparse_index.hpp"

namespace verbena::server {

class ImageReader;
class ImageWriter;

class SparseIndex {
 public:
  /// Where an index and its rows lie: memory that workers read.
  class Memory {
   public:
    virtual ~Memory() = default;
    struct NewSegment {
      std::uint32_t number = 0;
      protocol::IndexSegment* memory = nullptr;  ///< does not move
    };
    /// A segment, zeroed. RESOURCE_EXHAUSTED.
    virtual absl::StatusOr<NewSegment> add_segment() = 0;
    /// The directory has the segment no more, but readers who have copied the directory before come to it at
    /// any time, and must find its marks. It may be used again only when all of them are known to have a
    /// newer copy.
    virtual void retire_segment(std::uint32_t number) = 0;
    /// A new directory of so many entries, zeroed, which readers do not see yet. RESOURCE_EXHAUSTED.
    virtual absl::StatusOr<std::span<std::uint64_t>> add_directory(std::size_t entries) = 0;
    /// Something of the segment is about to change, which is not new.
    virtual void before_change(const protocol::IndexSegment& /*segment*/) {}
    /// From now on readers who copy the directory take this one, the newest. One who is copying the one
    /// before may go on.
    virtual void publish_directory() = 0;
    /// The key of a row that the index has.
    [[nodiscard]] virtual Key key_of(protocol::Row row) const = 0;
    /// key_of() will be called soon.
    virtual void prefetch_key(protocol::Row row) const = 0;
  };

  /// A segment is divided when more than three quarters of its entries are used: so few keys need another
  /// read.
  static constexpr std::uint32_t kUsualKeysOfSegment =
      protocol::IndexSegment::kBuckets * protocol::IndexBucket::kEntries * 3 / 4;

  /// `memory` outlives the index. `keys_of_segment`: at most, before it is divided; the simulation has fewer,
  /// to see divisions. RESOURCE_EXHAUSTED.
  static absl::StatusOr<SparseIndex> create(Memory& memory,
                                            std::uint32_t keys_of_segment = kUsualKeysOfSegment);

  /// The key's row, if the table has one.
  [[nodiscard]] protocol::IndexAnswer find(const protocol::KeyHash& hash, Key key) const;
  /// From now on readers find the row. The row has its key. RESOURCE_EXHAUSTED: nothing has
  /// changed for readers. REQUIRES: the index does not have the key; if the row had another key before, no
  /// reader still has read the entry of that key (it would take the row for that of the new key, though the
  /// index may not have it yet).
  absl::Status insert(const protocol::KeyHash& hash, protocol::Row row);
  /// From now on readers do not find the row. False: the index does not have it.
  bool erase(const protocol::KeyHash& hash, protocol::Row row);

  // For loops over keys that fetch what they will need into the processor's cache.
  /// A row that may be the key's, and probably is; nullopt: it has none.
  [[nodiscard]] std::optional<protocol::Row> probable_row(const protocol::KeyHash& hash) const {
    const protocol::IndexAnswer answer = protocol::look_up_probably(segment_of(hash), hash);
    if (answer.kind != protocol::IndexAnswer::Kind::kFound) return std::nullopt;
    return answer.row;
  }
  /// find() or probable_row() will be called soon.
  void prefetch(const protocol::KeyHash& hash) const {
    base::prefetch_to_read(&segment_of(hash).buckets[hash.bucket()]);  // seldom is it in the next one
  }

  // For images (image.hpp): what is not in the memory.
  void write_image(ImageWriter& out) const;
  /// False: it is none. `directory`: the newest; `segments`: all that there are, by number. Their memory may
  /// be filled later.
  bool read_image(ImageReader& in, std::span<std::uint64_t> directory,
                  std::vector<protocol::IndexSegment*> segments);

  [[nodiscard]] std::uint64_t keys() const { return keys_; }
  [[nodiscard]] std::size_t segments() const { return segments_; }

 private:
  /// Keys whose hashes begin alike make the directory double again and again: at most to 3 % of the segments'
  /// memory.
  static constexpr std::size_t kMostEntriesASegment = 256;

  SparseIndex(Memory& memory, std::uint32_t most_keys) : memory_(memory), most_keys_(most_keys) {}

  [[nodiscard]] std::uint64_t entry_of(const protocol::KeyHash& hash) const {
    return directory_[hash.segment_bits(depth_)];
  }
  [[nodiscard]] protocol::IndexSegment& segment_of(const protocol::KeyHash& hash) const {
    return *segment_at_[protocol::DirectoryEntry::segment(entry_of(hash))];
  }
  absl::StatusOr<std::uint32_t> add_segment();
  std::uint64_t* find_word(const protocol::KeyHash& hash, protocol::Row row) const;
  void forget_overflow(protocol::IndexSegment& segment, std::uint32_t bucket) const;
  static bool place(protocol::IndexSegment& segment, const protocol::KeyHash& hash, std::uint64_t entry);
  absl::Status divide(const protocol::KeyHash& hash);
  absl::Status double_directory();
  void copy(const protocol::IndexSegment& from, std::uint32_t depth, protocol::IndexSegment* const (&to)[2],
            std::uint32_t (&keys)[2]) const;
  static void retire(protocol::IndexSegment& segment);

  Memory& memory_;
  std::uint32_t most_keys_;  ///< of a segment
  std::span<std::uint64_t> directory_;
  std::uint32_t depth_ = 0;                          ///< of the directory
  std::vector<std::uint32_t> keys_of_;               ///< by segment
  std::vector<protocol::IndexSegment*> segment_at_;  ///< by number
  std::uint64_t keys_ = 0;
  std::size_t segments_ = 0;  ///< in use
};

}  // namespace verbena::server
