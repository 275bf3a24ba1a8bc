// Where the index and the rows of one lane's part of a sparse table lie: in regions of the server's memory,
// which are added one by one, each announced to the workers (RegionAdded) before anything names it. So the
// index holds numbers only. Nothing moves, and no region goes away before the table does.
//
//   root        one, the first: which directory is the newest, all directories of up to kRootDepth bits, and
//               how many rows there are
//   directory   a larger directory, by its depth
//   segments    `items` segments of the index: segment n is in region n ÷ items
//   rows        `items` rows: row n is in region n ÷ items. A row is its key, then its values
#pragma once

#include <cstddef>
#include <cstdint>

#include "protocol/row.hpp"
#include "protocol/sparse_index.hpp"
#include <verbena/keys.hpp>

namespace verbena::protocol {

enum class RegionKind : std::uint32_t { kRoot = 0, kDirectory = 1, kSegments = 2, kRows = 3 };
inline constexpr std::uint32_t kRegionKinds = 4;
inline constexpr std::uint32_t kMaxRegionNumber = (1U << 24) - 1;

/// The words of a root region: word 0 is the depth of the newest directory; the directory of depth d begins
/// at word 2^d and has as many words. Word kRootRows, in a cache line of its own, says how many rows there
/// are: those with smaller numbers have, or have had, their keys.
inline constexpr std::uint32_t kRootDepth = 12;
inline constexpr std::size_t kRootRows = std::size_t{2} << kRootDepth;
inline constexpr std::size_t kRootBytes = kRootRows * sizeof(std::uint64_t) + 64;

/// Distance between the rows of a region. `stride_bytes`: of the values.
constexpr std::size_t sparse_row_bytes(std::size_t stride_bytes) {
  return sizeof(Key) + stride_bytes;
}

/// The bytes that a region of `items` items needs.
constexpr std::size_t region_bytes(RegionKind kind, std::uint64_t items, std::size_t stride_bytes) {
  switch (kind) {
    case RegionKind::kRoot:
      return kRootBytes;
    case RegionKind::kDirectory:
      return items * sizeof(std::uint64_t);
    case RegionKind::kSegments:
      return items * sizeof(IndexSegment);
    case RegionKind::kRows:
      return items * sparse_row_bytes(stride_bytes);
  }
  return 0;
}

}  // namespace verbena::protocol
