// Chunks out of several data files, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/chunk_reader.hpp"
#include "checkpoint/file_system.hpp"
#include "checkpoint/manifest.hpp"

namespace verbena::checkpoint {

/// Memory: one chunk, and three pointers for each. Throws std::bad_alloc. Thread safety: none.
class ChunkSequence {
 public:
  struct Place {
    const std::string* folder = nullptr;  ///< where the file is
    const DataFile* file = nullptr;
    const ChunkEntry* chunk = nullptr;
  };
  /// `places`: of checked manifests, which must outlive the sequence, as `files` must. Each file is opened
  /// once if its chunks follow each other.
  ChunkSequence(FileSystem& files, std::vector<Place> places) : files_(&files), places_(std::move(places)) {}

  /// nullopt: there are no more. The payload is there until the next call. Errors name the file and the
  /// offset: those of ChunkReader::read() and FileSystem::open(). A call after an error tries the same chunk
  /// again.
  absl::StatusOr<std::optional<ChunkReader::Chunk>> next();
  /// Of all chunks, as they stand in the files.
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  FileSystem* files_;
  std::vector<Place> places_;
  std::size_t next_ = 0;
  const DataFile* opened_ = nullptr;  ///< whose file_ it is
  std::unique_ptr<ReadableFile> file_;
  ChunkReader reader_;
};

}  // namespace verbena::checkpoint
