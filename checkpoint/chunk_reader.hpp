// One chunk out of a data file, which anyone may have written or damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/compression.hpp"
#include "checkpoint/file_system.hpp"
#include "checkpoint/format.hpp"
#include "checkpoint/manifest.hpp"

namespace verbena::checkpoint {

/// Whether the file begins as a data file of a checkpoint of this clock does. DATA_LOSS says what was
/// expected; UNIMPLEMENTED: it is of another version.
absl::Status check_file_header(const ReadableFile& file, std::uint64_t clock);

/// Keeps its memory from chunk to chunk. Throws std::bad_alloc. Thread safety: none.
class ChunkReader {
 public:
  struct Chunk {
    ChunkHeader header;
    std::span<const std::byte> payload;  ///< not compressed; until the next call
  };

  /// The chunk that stands where `entry`, of a checked manifest, says, and is what it says. DATA_LOSS: it is
  /// not, or a checksum is wrong; the message says what was expected. Lengths are compared with the file's
  /// before memory is taken.
  absl::StatusOr<Chunk> read(const ReadableFile& file, const ChunkEntry& entry);
  /// The last chunk's bytes as they stand in the file, also after an error, as far as they could be read.
  [[nodiscard]] std::span<const std::byte> stored() const { return stored_; }

 private:
  std::vector<std::byte> buffer_;
  std::span<const std::byte> stored_;
  base::Decompressor decompressor_;
};

}  // namespace verbena::checkpoint
