#include "worker/fixed/update_buffer.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <new>

#include "protocol/packed_updates.hpp"

namespace verbena::worker {

using protocol::Row;

namespace {

std::uint32_t shift_for(std::uint64_t rows, std::size_t record_bytes, std::size_t chunk_bytes) {
  assert(chunk_bytes >= sizeof(protocol::BulkHeader) + record_bytes);
  const std::uint64_t fit = (chunk_bytes - sizeof(protocol::BulkHeader)) / record_bytes;
  const std::uint64_t useful = std::bit_ceil(std::clamp<std::uint64_t>(rows, 1, std::uint64_t{1} << 30));
  return static_cast<std::uint32_t>(std::bit_width(std::min(fit, useful)) - 1);
}

}  // namespace

UpdateBuffer::UpdateBuffer(std::uint64_t rows, std::size_t stride_bytes, std::size_t chunk_bytes,
                           LocalMemory& memory)
    : record_bytes_(protocol::record_bytes(stride_bytes)),
      per_chunk_shift_(shift_for(rows, record_bytes_, chunk_bytes)),
      per_chunk_mask_((std::uint32_t{1} << per_chunk_shift_) - 1),
      memory_(memory),
      index_(rows) {}

std::uint32_t UpdateBuffer::records_in(std::size_t i) const {
  return std::min<std::uint32_t>(records_ - static_cast<std::uint32_t>(i << per_chunk_shift_),
                                 per_chunk_mask_ + 1);
}

std::size_t UpdateBuffer::message_bytes(std::size_t i) const {
  return sizeof(protocol::BulkHeader) + records_in(i) * record_bytes_;
}

absl::StatusOr<std::span<std::byte>> UpdateBuffer::packed_memory(std::size_t i) {
  Chunk& chunk = chunks_[i];
  if (chunk.packed.bytes.empty()) {
    const absl::StatusOr<LocalSpan> memory =
        memory_.allocate(chunk.memory.bytes.size() + sizeof(protocol::PackedHeader));
    if (!memory.ok()) return memory.status();
    chunk.packed = *memory;
  }
  return chunk.packed.bytes;
}

bool UpdateBuffer::add_chunk() {
  auto memory =
      memory_.allocate(sizeof(protocol::BulkHeader) + (std::size_t{per_chunk_mask_} + 1) * record_bytes_);
  if (!memory.ok()) return false;
  try {
    rows_.resize((chunks_.size() + 1) << per_chunk_shift_);
    chunks_.push_back({.memory = *memory});
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

bool UpdateBuffer::move_to(Row row, UpdateBuffer& other) {
  const std::uint32_t slot = index_.find(row) - 1;
  const Found to = other.find_or_add(row, key(slot));
  if (to.values == nullptr) return false;
  std::memcpy(to.values, values(slot), record_bytes_ - sizeof(Key));
  remove(row);
  return true;
}

void UpdateBuffer::remove(Row row) {
  const std::uint32_t slot = index_.find(row) - 1;
  const std::uint32_t last = records_ - 1;
  if (slot != last) {
    index_.set(rows_[last], slot + 1);
    rows_[slot] = rows_[last];
    std::memcpy(record(slot), record(last), record_bytes_);
  }
  index_.erase(row);
  records_ = last;
}

void UpdateBuffer::clear() {
  index_.clear(std::span(rows_).first(records_));
  records_ = 0;
  scale_ = 0;
}

}  // namespace verbena::worker
