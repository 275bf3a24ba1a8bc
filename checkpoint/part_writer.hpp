// One process's part of a checkpoint: its files in the folder that Folder::begin() has made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/compression.hpp"
#include "checkpoint/checksum.hpp"
#include "checkpoint/file_system.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/rows.hpp"

namespace verbena::checkpoint {

struct PartOptions {
  std::string name;  ///< as is_part_name() wants it, and no other process's of this checkpoint: "server-0"
  std::uint64_t most_file_bytes = std::uint64_t{256} << 20;  ///< longer only where one chunk is
  std::uint64_t chunk_bytes = std::uint64_t{2} << 20;        ///< of payload; 1 to kMostCompressedBytes
  int zstd_level = 0;  ///< 1 to base::kMaxCompressionLevel; 0: not compressed
};

/// Memory: two chunks at most (rows that wait, and compressed ones), or one row if that is longer.
///
/// An error names the file, what was to be written and why it was not. Nothing is written after it: all later
/// calls return the same error. A part whose finish() has not returned OK must not get into a manifest.
///
/// Throws std::bad_alloc. Thread safety: none.
class PartWriter {
 public:
  /// Makes the first file. `folder` is what Folder::begin() has returned. ALREADY_EXISTS: there is a part of
  /// this name. INVALID_ARGUMENT: the options. `files` must outlive the writer.
  static absl::StatusOr<PartWriter> create(FileSystem& files, std::string folder, std::uint64_t clock,
                                           PartOptions options);

  /// Any count of rows, of which the first has the number `first` and each other the next one. Rows that go
  /// on where those of the last call ended, with columns of the same widths, come into the same chunk.
  /// INVALID_ARGUMENT, and nothing has happened: no columns or more than kMostColumns; columns of different
  /// counts of rows; a row longer than kMostPayloadBytes.
  absl::Status add_rows(std::uint32_t table, std::uint64_t first, std::span<const Column> columns);

  /// Rows that all have numbers in `numbers`, in whatever order: rows of a sparse table, say, with their keys
  /// in a column and the parts of the hash that their server has for numbers. INVALID_ARGUMENT as above, and
  /// for an empty range.
  absl::Status add_scattered_rows(std::uint32_t table, NumberRange numbers, std::span<const Column> columns);

  /// Keys of rows that the base has, and this checkpoint has no more (checkpoint/layers.hpp). `numbers` as
  /// above. INVALID_ARGUMENT: an empty range.
  absl::Status add_removed_rows(std::uint32_t table, NumberRange numbers,
                                std::span<const std::uint64_t> keys);

  /// Appends to the blob of this name, which there is from the first call on, even if `bytes` is empty.
  /// INVALID_ARGUMENT, and nothing has happened: a name as is_shown_name() does not want it.
  absl::Status add_blob(std::string_view name, std::span<const std::byte> bytes);

  /// Brings all to the disk, files and names. REQUIRES: it has not returned OK before; no call comes after.
  absl::StatusOr<Part> finish();

 private:
  /// Rows or bytes that wait for their chunk to be full. Its payload has room for `capacity` rows: column c
  /// begins after `capacity` times the widths of those before it. Bytes of a blob are rows of one byte.
  struct Waiting {
    ChunkHeader header;  ///< of `header.rows` rows, also for blobs
    std::uint64_t capacity = 0;
  };

  PartWriter(FileSystem& files, std::string folder, std::uint64_t clock, PartOptions options)
      : files_(&files), folder_(std::move(folder)), clock_(clock), options_(std::move(options)) {}

  absl::Status add_in_any_order(ChunkKind kind, std::uint32_t table, NumberRange numbers,
                                std::span<const Column> columns);
  absl::Status add(const ChunkHeader& kind, std::uint64_t rows, std::span<const Column> columns);
  [[nodiscard]] bool goes_on(const ChunkHeader& kind) const;
  void begin_chunk(const ChunkHeader& kind);
  absl::Status flush();
  absl::Status write_chunk(const ChunkHeader& header, std::span<const std::byte> payload);
  absl::Status begin_file();
  absl::Status end_file();
  absl::Status write(std::span<const std::byte> bytes);
  absl::Status fail(const absl::Status& status, std::string_view what);

  FileSystem* files_;
  std::string folder_;
  std::uint64_t clock_;
  PartOptions options_;
  std::optional<base::Compressor> compressor_;

  Part part_;
  std::unique_ptr<NewFile> file_;  ///< the last of part_.files
  Checksum file_checksum_;
  std::optional<Waiting> waiting_;
  std::vector<std::byte> payload_;
  absl::Status status_;
};

}  // namespace verbena::checkpoint
