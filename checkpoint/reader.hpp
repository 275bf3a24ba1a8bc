// Reading a checkpoint, by whoever needs which part of it: the processes that read need not be as many as
// those that wrote.
//
// What is read is what was written, or an error: no byte is given to the caller before its chunk's checksum
// has been compared. The files may be any bytes: they cost no more memory than one chunk (kMostPayloadBytes)
// and the manifest explain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/file_system.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/rows.hpp"

namespace verbena::checkpoint {

inline constexpr std::string_view kManifestName = "manifest.json";

/// Reads and decodes the manifest of the checkpoint at `path`. Errors name the file: DATA_LOSS it is damaged,
/// NOT_FOUND there is none, UNIMPLEMENTED it is of another format, INVALID_ARGUMENT it says what cannot be.
absl::StatusOr<Manifest> read_manifest(FileSystem& files, const std::string& path);

/// Rows out of one chunk. Their memory is theirs until the call that got them returns.
struct Rows {
  bool are_scattered =
      false;  ///< as they were added: any numbers of `numbers`; otherwise each of them, in order
  NumberRange numbers;
  std::uint64_t count = 0;
  std::vector<Column> columns;
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

  /// Calls visit() with all rows of the table whose numbers are in `range`, chunk by chunk. Rows that were
  /// added scattered come with all of their chunk, if any number of it may be in `range`: the caller chooses
  /// among them. Stops at the first error, which visit() may return, too. DATA_LOSS names the file, the
  /// offset and what was expected; rows that came before are right.
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

  FileSystem* files_;
  std::string path_;
  Manifest manifest_;
};

}  // namespace verbena::checkpoint
