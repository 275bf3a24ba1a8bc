#include "checkpoint/chunk_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/return_if_error.hpp"
#include "checkpoint/checksum.hpp"

namespace verbena::checkpoint {
namespace {

absl::Status damaged(std::string_view what) {
  return absl::DataLossError(std::string(what));
}

/// The sum of the columns of all rows; nullopt: these are no columns, or too long.
std::optional<std::uint64_t> bytes_of_rows(const ChunkHeader& header) {
  if (header.columns == 0 || header.columns > kMostColumns) return std::nullopt;
  std::uint64_t row_bytes = 0;
  for (std::size_t i = 0; i < kMostColumns; ++i) {
    if ((header.column_bytes[i] != 0) != (i < header.columns)) return std::nullopt;
    row_bytes += header.column_bytes[i];
  }
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(row_bytes, header.rows, &bytes)) return std::nullopt;
  return bytes;
}

/// How long the payload must be before compression, by what it holds.
std::optional<std::uint64_t> expected_payload(const ChunkHeader& header) {
  const bool is_keys = header.columns == 1 && header.column_bytes[0] == sizeof(std::uint64_t);
  if (header.kind == ChunkKind::kRemovedRows && !is_keys) return std::nullopt;
  if (header.kind != ChunkKind::kBlob) return bytes_of_rows(header);
  const bool has_columns = header.columns != 0 || header.column_bytes != ChunkHeader{}.column_bytes;
  if (has_columns || header.last == UINT64_MAX) return std::nullopt;
  return header.last - header.first + 1;
}

bool is_that_chunk(const ChunkHeader& header, const ChunkEntry& entry) {
  return header.magic == kChunkMagic && header.kind == entry.kind && header.number == entry.number &&
         header.first == entry.first && header.last == entry.last && header.rows == entry.rows;
}

/// Whether the lengths fit together, so that they can be used.
bool are_sound_lengths(const ChunkHeader& header, const ChunkEntry& entry) {
  const std::optional<std::uint64_t> payload = expected_payload(header);
  if (!payload || *payload != header.raw_bytes || header.stored_bytes != entry.bytes - sizeof header)
    return false;
  switch (header.compression) {
    case ChunkCompression::kNone:
      return header.stored_bytes == header.raw_bytes;
    case ChunkCompression::kZstd:
      return header.raw_bytes <= kMostCompressedBytes;
  }
  return false;
}

}  // namespace

absl::Status check_file_header(const ReadableFile& file, std::uint64_t clock) {
  FileHeader header;
  if (file.bytes() < sizeof header) {
    return damaged(fmt::format("expected a header of {} bytes, found the file's end after {}", sizeof header,
                               file.bytes()));
  }
  RETURN_IF_ERROR(file.read(0, std::as_writable_bytes(std::span(&header, 1))));
  if (header.magic != kFileMagic)
    return damaged("expected a data file of a checkpoint, found something else");
  if (header.version != kDataVersion) {
    // Where a later version has its checksum is not known.
    return absl::UnimplementedError(
        fmt::format("it is of version {}, which this program does not know: it reads version {}",
                    header.version, kDataVersion));
  }
  const std::uint64_t checksum = checksum_of(bytes_before_checksum(header));
  if (header.checksum != checksum) {
    return damaged(fmt::format("expected a header with the checksum {}, found {}", checksum_text(checksum),
                               checksum_text(header.checksum)));
  }
  if (header.clock != clock)
    return damaged(fmt::format("expected a file of clock {}, found one of clock {}", clock, header.clock));
  return absl::OkStatus();
}

absl::StatusOr<ChunkReader::Chunk> ChunkReader::read(const ReadableFile& file, const ChunkEntry& entry) {
  stored_ = {};
  if (entry.offset > file.bytes() || entry.bytes > file.bytes() - entry.offset ||
      entry.bytes < sizeof(ChunkHeader)) {
    return damaged(fmt::format("expected a chunk of {} bytes, found the file's end after {}", entry.bytes,
                               file.bytes()));
  }
  buffer_.resize(std::max<std::size_t>(buffer_.size(), entry.bytes));
  const std::span<std::byte> bytes = std::span(buffer_).first(entry.bytes);
  RETURN_IF_ERROR(file.read(entry.offset, bytes));
  stored_ = bytes;

  Chunk chunk;
  std::memcpy(&chunk.header, bytes.data(), sizeof chunk.header);
  const std::span<const std::byte> payload = bytes.subspan(sizeof chunk.header);
  Checksum checksum;
  checksum.add(bytes_before_checksum(chunk.header));
  checksum.add(payload);
  if (checksum.value() != entry.checksum || chunk.header.checksum != entry.checksum) {
    return damaged(fmt::format("expected the checksum {}, found {} of a chunk that says {}",
                               checksum_text(entry.checksum), checksum_text(checksum.value()),
                               checksum_text(chunk.header.checksum)));
  }
  if (!is_that_chunk(chunk.header, entry) || !are_sound_lengths(chunk.header, entry)) {
    return damaged(fmt::format("expected a chunk of {}, found a header that says otherwise",
                               description_of(entry.kind, entry.number, entry.first, entry.last)));
  }
  chunk.payload = payload;
  if (chunk.header.compression == ChunkCompression::kZstd) {
    const auto raw = decompressor_.decompress(payload, chunk.header.raw_bytes);
    if (!raw) {
      return damaged(fmt::format("expected a zstd frame of {} bytes, found none", chunk.header.raw_bytes));
    }
    chunk.payload = *raw;
  }
  return chunk;
}

}  // namespace verbena::checkpoint
