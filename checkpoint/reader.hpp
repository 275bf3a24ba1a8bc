// Reading a checkpoint, by whoever needs which part of it: the processes that read need not be as many as
// those that wrote. Of an increment (checkpoint/layers.hpp) all is read, from the checkpoints that have it.
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
#include "checkpoint/layers.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/rows.hpp"

namespace verbena::checkpoint {

/// Rows out of one chunk. Their memory is the reader's, which says how long they are there.
struct Rows {
  /// As they were added: any numbers of `numbers`; otherwise each of them, in order.
  bool are_scattered = false;
  /// There are no such rows: older checkpoints have them, from which the rest comes. One column, their keys;
  /// any of `numbers`.
  bool are_removed = false;
  NumberRange numbers;
  std::uint64_t count = 0;
  std::vector<Column> columns;
};

/// Rows of a table, a chunk at a time, for whoever has other work in between. Memory: one chunk, and 24 bytes
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
  /// Reads the manifest, and those of the checkpoints that it builds upon, and looks at each file's header
  /// and length, but not at their chunks. The first error, with the path: as read_layers() and, for data
  /// files, DATA_LOSS, UNIMPLEMENTED or what FileSystem::open() returns. `files` must outlive the reader.
  static absl::StatusOr<Reader> open(FileSystem& files, const std::string& path);

  [[nodiscard]] const Manifest& manifest() const { return layers_.front().manifest; }
  [[nodiscard]] const std::string& path() const { return layers_.front().path; }
  /// The checkpoint, and those that it builds upon: more than one if it is an increment.
  [[nodiscard]] std::span<const Layer> layers() const { return layers_; }

  /// All rows of the table whose numbers are in `range`, chunk by chunk. Rows that were added scattered come
  /// with all of their chunk, if any number of it may be in `range`: the caller chooses among them. Of an
  /// increment a row may come several times; the first one is the newest, and a row that comes after it was
  /// said to be removed is none. This reader must outlive what is returned.
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
  Reader(FileSystem& files, std::vector<Layer> layers) : files_(&files), layers_(std::move(layers)) {}

  FileSystem* files_;
  std::vector<Layer> layers_;  ///< the newest first
};

}  // namespace verbena::checkpoint
