#include "checkpoint/chunk_sequence.hpp"

#include <fmt/format.h>

namespace verbena::checkpoint {

absl::StatusOr<std::optional<ChunkReader::Chunk>> ChunkSequence::next() {
  if (next_ == places_.size()) return std::nullopt;
  const Place& place = places_[next_];
  const std::string path = fmt::format("{}/{}", *place.folder, place.file->name);
  if (opened_ != place.file) {
    auto file = files_->open(path);
    if (!file.ok()) return file.status();
    file_ = *std::move(file);
    opened_ = place.file;
  }
  absl::StatusOr<ChunkReader::Chunk> chunk = reader_.read(*file_, *place.chunk);
  if (!chunk.ok()) {
    return absl::Status(chunk.status().code(), fmt::format("{}: offset {}: {}", path, place.chunk->offset,
                                                           std::string(chunk.status().message())));
  }
  ++next_;
  return *chunk;
}

std::uint64_t ChunkSequence::bytes() const {
  std::uint64_t bytes = 0;
  for (const Place& place : places_) bytes += place.chunk->bytes;
  return bytes;
}

}  // namespace verbena::checkpoint
