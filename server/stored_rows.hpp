// Where the rows of a static table lie, and what its lane keeps beside each row: arrays by row, in chunks of
// as many rows. A dense table is one chunk. A sparse table gets one after the other; none of them moves.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/prefetch.hpp"
#include "protocol/eviction.hpp"
#include "protocol/row.hpp"
#include <verbena/keys.hpp>
#include <verbena/server_function.hpp>

namespace verbena::server {

class ImageCopier;

/// What a bit for each worker takes: a word of one, two or four bytes, or as many of eight as it needs. Most
/// jobs are small, and there are many rows.
constexpr std::size_t worker_bits_bytes(std::uint32_t workers) {
  const std::size_t words = (std::size_t{workers} + 63) / 64;
  return workers <= 8 ? 1 : workers <= 16 ? 2 : workers <= 32 ? 4 : words * sizeof(std::uint64_t);
}

/// Does not own the memory. Each row is written only by its lane. Thread safety: chunks are added by one
/// thread, and only while no other uses the rows.
class StoredRows {
 public:
  struct Chunk {
    std::byte* values = nullptr;
    std::byte* states = nullptr;  ///< what the rule keeps; nullptr if it keeps nothing
    /// For an eager table: one bit per worker, in worker_bits_bytes(), and, under a push budget, how much the
    /// row has changed (lane.hpp).
    std::uint8_t* subscribed = nullptr;
    std::uint8_t* dirty = nullptr;
    double* changes = nullptr;
    /// The step that the lane is about to take; see lane.hpp. nullptr: it takes each worker's steps by
    /// themselves.
    std::uint32_t* step_of = nullptr;
    protocol::RowUse* uses = nullptr;  ///< nullptr: the table's rows stay for good
  };
  /// Distances between the entries of two rows.
  struct Strides {
    std::size_t row_bytes = 0;
    std::size_t state_bytes = 0;
    std::size_t bits_bytes = 0;  ///< of `subscribed`, and of `dirty`
    std::size_t kept_bytes = 0;  ///< of all that is kept beside a row but its state
  };
  static constexpr std::uint32_t kOneChunk = 63;

  StoredRows() = default;
  /// Chunks of 2^`chunk_shift` rows.
  StoredRows(const Strides& strides, std::uint32_t chunk_shift) : strides_(strides), shift_(chunk_shift) {}

  void add_chunk(const Chunk& chunk) { chunks_.push_back(chunk); }
  /// REQUIRES: there are chunks. All are alike.
  [[nodiscard]] const Chunk& first_chunk() const { return chunks_.front(); }
  [[nodiscard]] std::uint64_t capacity() const { return std::uint64_t{chunks_.size()} << shift_; }

  [[nodiscard]] std::byte* values(protocol::Row row) const {
    return chunk(row).values + place(row) * strides_.row_bytes;
  }
  [[nodiscard]] std::byte* state(protocol::Row row) const {
    std::byte* const states = chunk(row).states;
    return states == nullptr ? nullptr : states + place(row) * strides_.state_bytes;
  }
  [[nodiscard]] std::uint8_t* subscribed(protocol::Row row) const {
    return chunk(row).subscribed + place(row) * strides_.bits_bytes;
  }
  [[nodiscard]] std::uint8_t* dirty(protocol::Row row) const {
    return chunk(row).dirty + place(row) * strides_.bits_bytes;
  }
  [[nodiscard]] double& changes(protocol::Row row) const { return chunk(row).changes[place(row)]; }
  [[nodiscard]] std::uint32_t& step_of(protocol::Row row) const { return chunk(row).step_of[place(row)]; }
  [[nodiscard]] protocol::RowUse& use(protocol::Row row) const { return chunk(row).uses[place(row)]; }
  [[nodiscard]] const Strides& strides() const { return strides_; }
  /// The memory of so many rows: their values, each with `before_bytes` before it, what their rules keep, and
  /// when they were used. (What else is kept beside rows is about workers, or about the moment.) REQUIRES:
  /// `first` is the first one of a chunk, or there is one chunk
  void add_memory(protocol::Row first, std::uint64_t rows, std::size_t before_bytes,
                  std::vector<std::span<std::byte>>& extents) const {
    while (rows > 0) {
      const std::uint64_t here = shift_ == kOneChunk ? rows : std::min(rows, std::uint64_t{1} << shift_);
      extents.emplace_back(values(first) - before_bytes, here * strides_.row_bytes);
      if (std::byte* const states = state(first)) extents.emplace_back(states, here * strides_.state_bytes);
      if (chunk(first).uses != nullptr)
        extents.emplace_back(reinterpret_cast<std::byte*>(&use(first)), here * sizeof(protocol::RowUse));
      first = protocol::Row{index_of(first) + here};
      rows -= here;
    }
  }
  /// All of that of one row.
  void copy_before_change(protocol::Row row, std::size_t before_bytes, ImageCopier& copier) const;
  /// What so many rows take.
  void count_bytes(TableMemory& memory, std::uint64_t rows) const {
    memory.value_bytes = rows * strides_.row_bytes;
    memory.state_bytes = rows * strides_.state_bytes;
    memory.book_bytes = rows * strides_.kept_bytes;
  }
  /// The row, and what the rule keeps of it, will be written soon.
  void prefetch(protocol::Row row) const {
    prefetch(values(row), strides_.row_bytes);
    if (std::byte* const kept = state(row)) prefetch(kept, strides_.state_bytes);
  }

 private:
  /// The two lines of a short row that begins in the middle of one. Those of a long row follow by themselves.
  static void prefetch(std::byte* first, std::size_t bytes) {
    base::prefetch_to_write(first);
    base::prefetch_to_write(first + bytes - 1);
  }
  [[nodiscard]] const Chunk& chunk(protocol::Row row) const { return chunks_[index_of(row) >> shift_]; }
  [[nodiscard]] std::uint64_t place(protocol::Row row) const {
    return index_of(row) & ((std::uint64_t{1} << shift_) - 1);
  }

  Strides strides_;
  std::uint32_t shift_ = kOneChunk;
  std::vector<Chunk> chunks_;
};

}  // namespace verbena::server
