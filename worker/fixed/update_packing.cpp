#include "worker/fixed/update_packing.hpp"

#include <algorithm>

namespace verbena::worker {

namespace {

/// For rows of at most so many bytes, "auto" packs what travels over a network: keys and padding are then
/// more than half of what records take.
constexpr std::size_t kNarrowBytes = 8;
constexpr std::uint32_t kLeastRecords = 4;  // fewer do not make up for the header

std::optional<protocol::Row> known_row(const Part& part, Key key) {
  if (part.sparse == nullptr) return part.range.row_of(key);
  return part.sparse->is_mapped() ? part.sparse->find(protocol::KeyHash(key), key)
                                  : part.sparse->known_row(key);
}

}  // namespace

UpdatePacking::UpdatePacking(const protocol::PushEncoding& encoding, const protocol::FilterRule& filter,
                             const RowLayout& layout)
    : encoding_(encoding),
      rounds_(filter.rounding != protocol::FilterRule::Rounding::kNone),
      row_bytes_(layout.row_bytes),
      packer_(layout.type, layout.width) {
  if (encoding.zstd_level > 0) compressor_.emplace(encoding.zstd_level);
}

bool UpdatePacking::pays(const Part& part) const {
  if (encoding_.kind != protocol::PushEncoding::Kind::kAuto)
    return encoding_.kind == protocol::PushEncoding::Kind::kPacked;
  return !part.link->reads_in_place && (rounds_ || row_bytes_ <= kNarrowBytes);
}

std::span<const std::byte> UpdatePacking::pack(Part& part, UpdateBuffer& updates, std::size_t i,
                                               const protocol::BulkHeader& header) {
  if (updates.records_in(i) < kLeastRecords) return {};
  const absl::StatusOr<std::span<std::byte>> memory = updates.packed_memory(i);
  if (!memory.ok()) return {};  // records need none
  protocol::PackedHeader packed{.is_ahead = header.kind == protocol::BulkKind::kUpdatesAhead,
                                .scale = updates.scale()};
  const bool lists = encoding_.listed_keys > 0;
  take(part, updates, i, lists);
  if (lists) {
    const SentKeyLists::Naming naming = part.lists.find_or_add(keys_, encoding_.listed_keys);
    packed.names = naming.names;
    packed.list = naming.number;
    if (naming.names == protocol::PackedHeader::Names::kRowsAndKeys) take(part, updates, i, false);
  }
  // A new list may cost some bytes.
  const bool is_new = packed.names == protocol::PackedHeader::Names::kNewList;
  const std::size_t most = is_new ? std::min(memory->size(), protocol::max_bulk_bytes(part.link->inbox_bytes))
                                  : updates.message_bytes(i);
  const std::optional<std::size_t> length = packer_.pack(header, packed, memory->first(most));
  if (!length && is_new) part.lists.drop(packed.list);
  if (!length) return {};
  const std::span<std::byte> message = memory->first(*length);
  return compressor_ ? message.first(protocol::compress_packed(message, *compressor_)) : message;
}

void UpdatePacking::take(const Part& part, const UpdateBuffer& updates, std::size_t i, bool by_keys) {
  packer_.clear();
  keys_.clear();
  const std::uint32_t begin = updates.first_record_of(i);
  for (std::uint32_t record = begin; record < begin + updates.records_in(i); ++record) {
    const Key key = updates.key(record);
    const std::byte* const values = updates.values(record);
    const std::optional<protocol::Row> row = by_keys ? std::nullopt : known_row(part, key);
    if (row) {
      packer_.add_row(index_of(*row), values);
    } else {
      packer_.add_key(key, values);
    }
    if (by_keys) keys_.push_back(key);
  }
}

}  // namespace verbena::worker
