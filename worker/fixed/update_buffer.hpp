// The update buffer: this worker's updates of one clock to one lane's rows of one table, added up for each
// row, in the same bytes in which they are sent, unless they are packed: chunks of
// [BulkHeader][record][record]…
#pragma once

#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/prefetch.hpp"
#include "protocol/messages.hpp"
#include "protocol/row.hpp"
#include "worker/fixed/row_index.hpp"
#include "worker/local_memory.hpp"

namespace verbena::worker {

/// Thread safety: none; one owner.
class UpdateBuffer {
 public:
  struct Chunk {
    LocalSpan memory;
    std::uint32_t records = 0;
    std::uint64_t sequence = 0;  ///< number of this message among those to its lane; set when shipped
    LocalSpan packed;            ///< as packed_memory() returned it
  };

  /// `rows`: how many there are, as RowIndex takes it. REQUIRES: chunk_bytes has room for at least one
  /// record.
  UpdateBuffer(std::uint64_t rows, std::size_t stride_bytes, std::size_t chunk_bytes, LocalMemory& memory);

  /// The values of the row's update; nullptr if there is none.
  [[nodiscard]] std::byte* find(protocol::Row row) const {
    const std::uint32_t slot = index_.find(row);
    return slot == 0 ? nullptr : values(slot - 1);
  }

  /// find() or find_or_add() will be called soon.
  void prefetch(protocol::Row row) const { index_.prefetch(row); }

  /// The values of the row's update; if `fresh`, they have not been set to zero. nullptr if memory is short.
  struct Found {
    std::byte* values = nullptr;
    bool fresh = false;
  };
  /// `key`: the row's, for the message.
  [[nodiscard]] Found find_or_add(protocol::Row row, Key key) {
    const std::uint32_t slot = records_;
    // Room for it comes first: then one look at the index will do.
    if ((slot >> per_chunk_shift_) == chunks_.size()) [[unlikely]] {
      if (std::byte* const there = find(row)) return {there, false};
      if (!add_chunk()) return {};
    }
    std::uint32_t number = 0;
    try {
      number = index_.find_or_set(row, slot + 1);
    } catch (const std::bad_alloc&) {
      return {};
    }
    if (number != 0) return {values(number - 1), false};
    rows_[slot] = row;
    ++records_;
    std::memcpy(record(slot), &key, sizeof key);
    return {values(slot), true};
  }

  /// find_or_add() of some rows one after the other, with all that it needs at hand: as far as the compiler
  /// knows, writing an update may change anything that is in memory. Until its end nothing else may be done
  /// with the buffer.
  class Run {
   public:
    /// REQUIRES: can_run() of as many rows as it will add.
    explicit Run(UpdateBuffer& buffer)
        : buffer_(buffer),
          numbers_(buffer.index_.array()),
          rows_(buffer.rows_.data()),
          records_(buffer.records_),
          record_bytes_(buffer.record_bytes_),
          next_(buffer.record(buffer.records_)),
          ahead_bytes_(std::min(buffer.record_bytes_, kAheadBytes)) {}
    /// Also if a rule of the program's own throws: what was added is in the buffer.
    ~Run() { buffer_.records_ = records_; }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    [[nodiscard]] [[gnu::always_inline]] Found find_or_add(protocol::Row row, Key key) {
      std::uint32_t& number = numbers_[index_of(row)];
      if (number != 0) return {buffer_.values(number - 1), false};
      rows_[records_] = row;
      number = ++records_;
      std::byte* const record = std::exchange(next_, next_ + record_bytes_);
      for (std::size_t at = 0; at < ahead_bytes_; at += kLineBytes)
        base::prefetch_to_write(record + kAheadBytes + at);
      std::memcpy(record, &key, sizeof key);
      return {record + sizeof key, true};
    }

   private:
    static constexpr std::size_t kLineBytes = 64;
    /// The server has read this memory, when the buffer was used last: each line has to be had from its core
    /// before it can be written. Half of what a push took was waiting for that.
    static constexpr std::size_t kAheadBytes = 2048;

    UpdateBuffer& buffer_;
    std::uint32_t* const numbers_;
    protocol::Row* const rows_;
    std::uint32_t records_;
    const std::size_t record_bytes_;
    std::byte* next_;
    const std::size_t ahead_bytes_;
  };
  /// A Run may add so many rows: the part is dense, and the memory is there.
  [[nodiscard]] bool can_run(std::size_t rows) const {
    return index_.array() != nullptr && (records_ >> per_chunk_shift_) < chunks_.size() &&
           (records_ & per_chunk_mask_) + rows <= std::size_t{per_chunk_mask_} + 1;
  }

  [[nodiscard]] std::uint32_t records() const { return records_; }
  /// REQUIRES: i < records().
  [[nodiscard]] protocol::Row row(std::uint32_t i) const { return rows_[i]; }
  [[nodiscard]] Key key(std::uint32_t i) const {
    Key key = 0;
    std::memcpy(&key, record(i), sizeof key);
    return key;
  }
  /// Its values. REQUIRES: as row().
  [[nodiscard]] std::byte* values(std::uint32_t i) const { return record(i) + sizeof(Key); }
  [[nodiscard]] bool empty() const { return records_ == 0; }
  [[nodiscard]] std::size_t chunks() const { return (records_ + per_chunk_mask_) >> per_chunk_shift_; }
  /// REQUIRES: i < chunks(). `memory` is that of the whole chunk; the message is its first message_bytes(i)
  /// bytes.
  [[nodiscard]] Chunk& chunk(std::size_t i) { return chunks_[i]; }
  [[nodiscard]] const Chunk& chunk(std::size_t i) const { return chunks_[i]; }
  [[nodiscard]] std::size_t message_bytes(std::size_t i) const;
  [[nodiscard]] std::uint32_t records_in(std::size_t i) const;
  [[nodiscard]] std::uint32_t first_record_of(std::size_t i) const {
    return static_cast<std::uint32_t>(i << per_chunk_shift_);
  }
  /// Enough for the chunk's message when it is packed (protocol/packed_updates.hpp). Errors: as
  /// LocalMemory::allocate().
  absl::StatusOr<std::span<std::byte>> packed_memory(std::size_t i);
  /// If it is not 0, all values are small multiples of it.
  [[nodiscard]] float scale() const { return scale_; }
  void set_scale(float scale) { scale_ = scale; }
  /// The chunk that holds the row's update. REQUIRES: find(row) is not nullptr.
  [[nodiscard]] const Chunk& chunk_of(protocol::Row row) const {
    return chunks_[(index_.find(row) - 1) >> per_chunk_shift_];
  }

  /// Moves a row's update to another buffer of the same rows, which has no update of this row. Returns false
  /// if memory is short. REQUIRES: find(row) is not nullptr. The last record takes the free place, so indices
  /// of records change.
  bool move_to(protocol::Row row, UpdateBuffer& other);
  /// Forgets a row's update. REQUIRES, and what becomes of indices: as move_to().
  void remove(protocol::Row row);

  /// Forgets the updates, keeps the memory.
  void clear();

 private:
  /// False: memory is short.
  bool add_chunk();
  [[nodiscard]] std::byte* record(std::uint32_t slot) const {
    return chunks_[slot >> per_chunk_shift_].memory.bytes.data() + sizeof(protocol::BulkHeader) +
           (slot & per_chunk_mask_) * record_bytes_;
  }

  const std::size_t record_bytes_;
  const std::uint32_t per_chunk_shift_;  ///< records per chunk, a power of two
  const std::uint32_t per_chunk_mask_;
  LocalMemory& memory_;
  RowIndex index_;  ///< slot + 1
  std::vector<Chunk> chunks_;
  std::vector<protocol::Row> rows_;  ///< by record; the first records_ count
  std::uint32_t records_ = 0;
  float scale_ = 0;
};

}  // namespace verbena::worker
