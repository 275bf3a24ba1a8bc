#include "server/unpacking.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "server/sparse_part.hpp"

namespace verbena::server {

namespace {

/// Stays in the processor's nearest caches.
constexpr std::size_t kPieceBytes = 16'384;

}  // namespace

bool Unpacking::begin(const LanePart& part, ValueType type, std::uint32_t width,
                      const protocol::BulkMessage& message, const std::vector<Key>* keys) {
  const auto updates = protocol::PackedUpdates::read(message, type, width, decompressor_);
  if (!updates.ok()) return false;
  updates_ = *updates;
  if (keys != nullptr && keys->size() != updates_.count()) return false;
  if (keys == nullptr && updates_.header().names == protocol::PackedHeader::Names::kList) return false;
  header_ = message.header;
  header_.kind =
      updates_.header().is_ahead != 0 ? protocol::BulkKind::kUpdatesAhead : protocol::BulkKind::kUpdates;
  part_ = part;
  keys_ = keys;
  record_bytes_ = protocol::record_bytes(protocol::row_stride_bytes(type, width));
  done_ = 0;
  memory_.resize(std::max(kPieceBytes, record_bytes_) / sizeof(std::uint64_t));
  return true;
}

Unpacking::Piece Unpacking::next() {
  while (done_ < updates_.count()) {
    const Piece piece = next_some();
    if (piece.records > 0) return piece;
  }
  return {};
}

/// Maybe none, if rows are named that there are not.
Unpacking::Piece Unpacking::next_some() {
  auto* const memory = reinterpret_cast<std::byte*>(memory_.data());
  const auto most = static_cast<std::uint32_t>(memory_.size() * sizeof(std::uint64_t) / record_bytes_);
  const std::uint32_t by_row = updates_.header().by_row;
  const bool is_by_row = done_ < by_row;
  const std::uint32_t records = std::min(most, (is_by_row ? by_row : updates_.count()) - done_);
  updates_.next_values(records, memory + sizeof(Key), record_bytes_);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < records; ++i) {
    std::uint64_t name = 0;
    if (is_by_row) {
      const std::optional<std::uint64_t> row = updates_.next_row();
      const std::uint64_t rows = part_.sparse != nullptr ? part_.sparse->rows_made() : part_.keys.size();
      if (!row || *row >= rows) continue;  // only a worker that breaks the rules names one that there is not
      name = part_.sparse != nullptr ? *row : part_.keys.first + *row;
    } else {
      name = keys_ != nullptr ? (*keys_)[done_ + i] : updates_.key(done_ + i - by_row);
    }
    std::byte* const record = memory + kept * record_bytes_;
    if (kept != i) std::memcpy(record, memory + i * record_bytes_, record_bytes_);
    std::memcpy(record, &name, sizeof name);
    ++kept;
  }
  done_ += records;
  return {kept, is_by_row && part_.sparse != nullptr, {memory, kept * record_bytes_}};
}

}  // namespace verbena::server
