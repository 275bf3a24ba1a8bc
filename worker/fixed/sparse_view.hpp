// What a worker sees of one lane's part of a sparse table: the regions that the server has announced, and the
// way from a key to its row through them.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "protocol/messages.hpp"
#include "protocol/placement.hpp"
#include "protocol/row.hpp"
#include "protocol/sparse_index.hpp"
#include "protocol/sparse_memory.hpp"
#include "transport/transport.hpp"

namespace verbena::worker {

/// Thread safety: none; belongs to its table. What it points to, the server changes at any time.
class SparseView {
 public:
  using RemoteDescriptor = transport::RemoteDescriptor;

  /// `keys`: those of the part. `stride_bytes`: of a row's values.
  /// `most_known`: rows whose places it remembers.
  SparseView(const protocol::HashedKeys& keys, std::size_t stride_bytes, std::size_t most_known)
      : keys_(keys), stride_bytes_(stride_bytes), most_known_(std::max<std::size_t>(most_known, 1)) {}

  [[nodiscard]] const protocol::HashedKeys& keys() const { return keys_; }

  /// Another region. INVALID_ARGUMENT: it does not fit to those before.
  absl::Status add(const protocol::RegionAdded& added, transport::Connection& connection);
  [[nodiscard]] bool has_root() const { return !regions(protocol::RegionKind::kRoot).all.empty(); }
  /// The server's memory is mapped. REQUIRES: has_root()
  [[nodiscard]] bool is_mapped() const { return root_ != nullptr && !reads_from_afar_; }
  /// From now on as if it were not.
  void read_from_afar() { reads_from_afar_ = true; }
  [[nodiscard]] std::size_t row_bytes() const { return protocol::sparse_row_bytes(stride_bytes_); }

  // ---- in place. REQUIRES: is_mapped(). nullptr: in a region that has not been heard of, though it was
  // announced, or that is gone with its server.

  /// The newest directory and the regions as they are now, for lookups one after the other. Good until the
  /// worker looks at messages: then regions may be added. The lane goes on meanwhile, and may replace the
  /// directory: the old one leads to segments that say they are retired.
  class Snapshot;
  [[nodiscard]] Snapshot snapshot() const;
  /// Of a row that row() has returned.
  [[nodiscard]] static Key key_of(const std::byte* row) {
    return load(reinterpret_cast<const std::uint64_t*>(row));
  }
  /// The row: its key, then its values.
  [[nodiscard]] const std::byte* row(protocol::Row row) const {
    return mapped(protocol::RegionKind::kRows).at(index_of(row), row_bytes());
  }

  /// The key's row, if that is easily found now.
  [[nodiscard]] std::optional<protocol::Row> find(const protocol::KeyHash& hash, Key key) const;

  /// How many rows the part has: those before it have had a key.
  [[nodiscard]] std::uint64_t rows_end() const { return load(root_ + protocol::kRootRows); }
  /// How many rows are left from this one on, itself included, in its region. 0: it has not been heard of.
  [[nodiscard]] std::uint64_t rows_left_in_region(protocol::Row row) const {
    const Regions& those = regions(protocol::RegionKind::kRows);
    const std::uint64_t items = std::uint64_t{1} << those.shift;
    return index_of(row) >> those.shift < those.all.size() ? items - index_of(row) % items : 0;
  }

  // ---- from afar: where to read what. nullopt: as nullptr above.

  [[nodiscard]] RemoteDescriptor root() const;
  [[nodiscard]] std::optional<RemoteDescriptor> directory_of(std::uint64_t depth) const;
  [[nodiscard]] std::optional<RemoteDescriptor> buckets_of(std::uint32_t segment, std::size_t first,
                                                           std::size_t count) const;
  [[nodiscard]] std::optional<RemoteDescriptor> row_of(protocol::Row row) const { return rows_from(row, 1); }
  /// REQUIRES: count <= rows_left_in_region(first), or that is 0
  [[nodiscard]] std::optional<RemoteDescriptor> rows_from(protocol::Row first, std::uint64_t count) const;
  /// The word of rows_end().
  [[nodiscard]] RemoteDescriptor rows_end_word() const;

  /// Where the row of a key is that was read before. Rows do not move; of one that goes the server says so
  /// before it is another key's.
  [[nodiscard]] std::optional<protocol::Row> known_row(Key key) const {
    const auto found = known_rows_.find(key);
    return found == known_rows_.end() ? std::nullopt : std::optional(protocol::Row{found->second});
  }
  void know_row(Key key, protocol::Row row);
  void forget_row(Key key) { known_rows_.erase(key); }

  /// A segment is gone, and the directory is not what it was.
  void forget_segment() {
    directory_copy.clear();
    ++segments_gone_;
  }
  [[nodiscard]] std::uint64_t segments_gone() const { return segments_gone_; }

  /// This worker's copy of the directory; empty: there is none, or it is known to be too old.
  std::vector<std::uint64_t> directory_copy;

 private:
  struct Region {
    const std::byte* mapped = nullptr;
    RemoteDescriptor remote;
  };
  struct Regions {
    std::uint32_t shift = 0;  ///< items of a region, as a power of two
    std::vector<Region> all;
  };
  /// Items by their numbers, in mapped memory.
  struct MappedRegions {
    const Region* first = nullptr;
    std::uint64_t count = 0;
    std::uint32_t shift = 0;
    [[nodiscard]] const std::byte* at(std::uint64_t item, std::size_t item_bytes) const {
      const std::uint64_t region = item >> shift;
      if (region >= count || first[region].mapped == nullptr) [[unlikely]]
        return nullptr;
      return first[region].mapped + (item & ((std::uint64_t{1} << shift) - 1)) * item_bytes;
    }
  };

  [[nodiscard]] static std::uint64_t load(const std::uint64_t* word) {
    return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
  }
  [[nodiscard]] Regions& regions(protocol::RegionKind kind) {
    return regions_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] const Regions& regions(protocol::RegionKind kind) const {
    return regions_[static_cast<std::size_t>(kind)];
  }
  [[nodiscard]] const std::uint64_t* directory(std::uint64_t depth) const {
    if (depth <= protocol::kRootDepth) [[likely]]
      return root_ + (std::uint64_t{1} << depth);
    const auto& all = regions(protocol::RegionKind::kDirectory).all;
    const std::uint64_t at = depth - protocol::kRootDepth - 1;
    return at < all.size() ? reinterpret_cast<const std::uint64_t*>(all[at].mapped) : nullptr;
  }
  [[nodiscard]] MappedRegions mapped(protocol::RegionKind kind) const {
    const Regions& those = regions(kind);
    return {those.all.data(), those.all.size(), those.shift};
  }
  [[nodiscard]] std::optional<RemoteDescriptor> remote(protocol::RegionKind kind, std::uint64_t item,
                                                       std::size_t item_bytes, std::size_t offset,
                                                       std::size_t bytes) const;

  const protocol::HashedKeys keys_;
  const std::size_t stride_bytes_;
  const std::size_t most_known_;
  bool reads_from_afar_ = false;
  std::uint64_t segments_gone_ = 0;
  const std::uint64_t* root_ = nullptr;
  std::array<Regions, protocol::kRegionKinds> regions_;
  absl::flat_hash_map<Key, std::uint64_t> known_rows_;
};

class SparseView::Snapshot {
 public:
  Snapshot() = default;

  /// The segment that has the key if one has.
  [[nodiscard]] const protocol::IndexSegment* segment(const protocol::KeyHash& hash) const {
    if (directory_ == nullptr) [[unlikely]]
      return nullptr;
    const std::uint64_t entry = load(directory_ + hash.segment_bits(depth_));
    return reinterpret_cast<const protocol::IndexSegment*>(
        segments_.at(protocol::DirectoryEntry::segment(entry), sizeof(protocol::IndexSegment)));
  }
  [[nodiscard]] const std::byte* row(protocol::Row row) const { return rows_.at(index_of(row), row_bytes_); }

 private:
  friend class SparseView;

  const std::uint64_t* directory_ = nullptr;
  std::uint32_t depth_ = 0;
  MappedRegions segments_;
  MappedRegions rows_;
  std::size_t row_bytes_ = 0;
};

inline SparseView::Snapshot SparseView::snapshot() const {
  Snapshot snapshot;
  // Acquire: pairs with the lane's release; the directory's entries are seen after its depth.
  const std::uint64_t depth = load(root_);
  snapshot.depth_ = static_cast<std::uint32_t>(depth);
  snapshot.directory_ = directory(depth);
  snapshot.segments_ = mapped(protocol::RegionKind::kSegments);
  snapshot.rows_ = mapped(protocol::RegionKind::kRows);
  snapshot.row_bytes_ = row_bytes();
  return snapshot;
}

}  // namespace verbena::worker
