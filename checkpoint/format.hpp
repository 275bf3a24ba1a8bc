// A checkpoint's data files, byte by byte. All numbers are little-endian.
//
// A file: a FileHeader, then chunks until its end. A chunk: a ChunkHeader, then `stored_bytes` of payload.
// What files and chunks there are stands in the checkpoint's manifest (checkpoint/manifest.hpp), with their
// lengths and checksums.
//
// The payload of rows, before compression: the columns one after the other, each `rows` times
// `column_bytes[c]`. A column is what the caller wants it to be: keys, values, state of an update rule,
// counters of use. That of a blob: a piece of a named string of bytes.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace verbena::checkpoint {

static_assert(std::endian::native == std::endian::little, "what is in memory is what is in the file");

constexpr std::uint32_t kDataVersion = 1;  ///< this program reads no other one
inline constexpr std::array<char, 8> kFileMagic = {'V', 'R', 'B', 'N', 'C', 'K', 'P', 'T'};
inline constexpr std::array<char, 4> kChunkMagic = {'C', 'H', 'N', 'K'};

struct FileHeader {
  std::array<char, 8> magic = kFileMagic;
  std::uint32_t version = kDataVersion;
  std::uint32_t reserved = 0;
  std::uint64_t clock = 0;     ///< of the checkpoint
  std::uint64_t checksum = 0;  ///< XXH3-64 of the bytes before it
};
static_assert(std::is_trivially_copyable_v<FileHeader> && sizeof(FileHeader) == 32);
static_assert(offsetof(FileHeader, version) == 8 && offsetof(FileHeader, reserved) == 12 &&
              offsetof(FileHeader, clock) == 16 && offsetof(FileHeader, checksum) == 24);

enum class ChunkKind : std::uint16_t {
  kRows = 1,  ///< row i of the chunk has the number `first` + i
  kScatteredRows =
      2,      ///< the rows have any numbers from `first` to `last`, in any order, also several the same
  kBlob = 3,  ///< the bytes `first` to `last` of a blob
  /// Of an increment (checkpoint/layers.hpp): keys of rows that its base has, and that are there no more. One
  /// column of 8 bytes; numbers as those of kScatteredRows.
  kRemovedRows = 4,
};
enum class ChunkCompression : std::uint16_t { kNone = 0, kZstd = 1 };

constexpr std::size_t kMostColumns = 8;

struct ChunkHeader {
  std::array<char, 4> magic = kChunkMagic;
  ChunkKind kind = ChunkKind::kRows;
  ChunkCompression compression = ChunkCompression::kNone;
  std::uint32_t number = 0;   ///< of the table; of the blob within its part
  std::uint32_t columns = 0;  ///< blobs: 0
  std::uint64_t first = 0;
  std::uint64_t last = 0;                                     ///< included
  std::uint64_t rows = 0;                                     ///< blobs: 0
  std::array<std::uint32_t, kMostColumns> column_bytes = {};  ///< of a row; 0 beyond `columns`
  std::uint64_t stored_bytes = 0;
  std::uint64_t raw_bytes = 0;  ///< before compression
  std::uint64_t checksum =
      0;  ///< XXH3-64 of the header's bytes before it, and of the payload as it is stored
};
static_assert(std::is_trivially_copyable_v<ChunkHeader> && sizeof(ChunkHeader) == 96);
static_assert(offsetof(ChunkHeader, kind) == 4 && offsetof(ChunkHeader, compression) == 6 &&
              offsetof(ChunkHeader, number) == 8 && offsetof(ChunkHeader, columns) == 12 &&
              offsetof(ChunkHeader, first) == 16 && offsetof(ChunkHeader, last) == 24 &&
              offsetof(ChunkHeader, rows) == 32 && offsetof(ChunkHeader, column_bytes) == 40 &&
              offsetof(ChunkHeader, stored_bytes) == 72 && offsetof(ChunkHeader, raw_bytes) == 80 &&
              offsetof(ChunkHeader, checksum) == 88);

/// What the checksum of a header is of, or begins with.
template <class Header>
std::span<const std::byte> bytes_before_checksum(const Header& header) {
  return std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum));
}

/// The payload of a compressed chunk before its compression: a small file must not ask for much memory.
constexpr std::uint64_t kMostCompressedBytes = std::uint64_t{4} << 20;
/// The payload of any chunk. Only a single row may be longer than kMostCompressedBytes.
constexpr std::uint64_t kMostPayloadBytes = std::uint64_t{1} << 30;

}  // namespace verbena::checkpoint
