// Reading a checkpoint, by whoever needs which part of it: the processes that read need not be as many as
// those that wrote.
//
// What is read is what was written, or an error: no byte is given to the caller before its chunk's checksum
// has been compared. The files may be any bytes: they cost no more memory than one chunk (kMostPayloadBytes)
// and the manifest explain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/chunk_sequence.hpp"
#include "checkpoint/file_system.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/rows.hpp"

namespace verbena::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";

/// Reads and decodes the manifest of the checkpoint at `path`. Errors name the file: DATA_LOSS it is damaged,
/// NOT_FOUND there is none, UNIMPLEMENTED it is of another format, INVALID_ARGUMENT it says what cannot be.
absl::StatusOr<Manifest> read_manifest(FileSystem& files, const std::string& path);

/// Rows out of one chunk. Their memory is the reader's, which says how long they are there.
struct Rows {
  bool are_scattered =
      false;  ///< as they were added: any numbers of `numbers`; otherwise each of them, in order
  NumberRange numbers;
  std::uint64_t count = 0;
  std::vector<Column> columns;
};

/// Rows of a table, a chunk at a time, for whoever has other work in between. Memory: one chunk, and 16 bytes
/// for each. Throws std::bad_alloc. Thread safety: none; several may read at the same time.
class RowReader {
 public:
  /// The rows of the next chunk; nullopt: there are no more. They are there until the next call. Errors as
  /// Reader::read_rows(); a call after one tries the same chunk again.
  absl::StatusOr<std::optional<Rows>> next();
  /// Of all chunks, from the first one on, as they stand in the files.
  [[nodiscard]] std::uint64_t bytes() const { return chunks_.bytes(); }

 private:
  friend class Reader;
  RowReader(ChunkSequence chunks, NumberRange range) : chunks_(std::move(chunks)), range_(range) {}

  ChunkSequence chunks_;
  NumberRange range_;
};

/// Thread safety: several threads may read at the same time.
class Reader {
 public:
  /// Reads the manifest and looks at each file's header and length, but not at their chunks. The first error,
  /// with the path: as read_manifest() and, for data files, DATA_LOSS, UNIMPLEMENTED or what
  /// FileSystem::open() returns. `files` must outlive the reader.
  static absl::StatusOr<Reader> open(FileSystem& files, std::string path);

  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  /// All rows of the table whose numbers are in `range`, chunk by chunk. Rows that were added scattered come
  /// with all of their chunk, if any number of it may be in `range`: the caller chooses among them. This
  /// reader must outlive what is returned, and stay where it is.
  [[nodiscard]] RowReader rows(std::uint32_t table, NumberRange range) const;
  /// Calls visit() with these rows, which are there until it returns. Stops at the first error, which visit()
  /// may return, too. DATA_LOSS names the file, the offset and what was expected; rows that came before are
  /// right.
  absl::Status read_rows(std::uint32_t table, NumberRange range,
                         absl::FunctionRef<absl::Status(const Rows&)> visit) const;

  /// Calls visit() with the bytes of the blob, piece after piece. NOT_FOUND: there is none of that name; else
  /// as read_rows().
  absl::Status read_blob(std::string_view name,
                         absl::FunctionRef<absl::Status(std::span<const std::byte>)> visit) const;
  /// All of it.
  absl::StatusOr<std::vector<std::byte>> read_blob(std::string_view name) const;

 private:
  Reader(FileSystem& files, std::string path, Manifest manifest)
      : files_(&files), path_(std::move(path)), manifest_(std::move(manifest)) {}
  /// The chunks of these parts for which is_wanted() holds, in the order of their files.
  [[nodiscard]] ChunkSequence chunks_of(std::span<const Part> parts,
                                        absl::FunctionRef<bool(const ChunkEntry&)> is_wanted) const;

  FileSystem* files_;
  std::string path_;
  Manifest manifest_;
};

}  // namespace verbena::checkpoint
