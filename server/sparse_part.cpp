#include "server/sparse_part.hpp"

#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::server {

using protocol::IndexAnswer;
using protocol::KeyHash;
using protocol::RegionKind;
using protocol::Row;

SparsePart::SparsePart(const Shape& shape, RegionDesk& desk)
    : shape_(shape),
      desk_(desk),
      rows_(shape.strides, shape.rows_shift),
      admission_(shape.admission, shape.expected_rows) {}

SparsePart::~SparsePart() {
  for (const Spare* const spare : {&spare_rows_, &spare_segments_, &directory_}) desk_.withdraw(spare->order);
}

absl::Status SparsePart::start() {
  const auto taken = take(directory_, RegionKind::kRoot, 0);
  if (!taken.ok()) return taken.status();
  root_ = reinterpret_cast<std::uint64_t*>((*taken)->memory);
  auto index = SparseIndex::create(*this, shape_.keys_of_segment);
  if (!index.ok()) return index.status();
  index_.emplace(*std::move(index));
  // A table that nobody has pushed to has memory for its first rows, so that it is refused when it is opened.
  order(spare_rows_, RegionKind::kRows, 0);
  desk_.serve();
  is_starting_ = false;
  return spare_rows_.order.status;
}

void SparsePart::order(Spare& spare, RegionKind kind, std::uint32_t number) {
  spare.order.shard = shape_.shard;
  spare.order.lane = shape_.lane;
  spare.order.kind = kind;
  spare.order.number = number;
  spare.is_ordered = true;
  desk_.place(spare.order);
}

absl::StatusOr<RegionDesk::Order*> SparsePart::take(Spare& spare, RegionKind kind, std::uint32_t number) {
  if (!spare.is_ordered) order(spare, kind, number);
  if (is_starting_) desk_.serve();
  desk_.wait_for(spare.order);
  spare.is_ordered = false;
  if (!spare.order.status.ok()) return spare.order.status;
  return &spare.order;
}

absl::StatusOr<std::uint32_t> SparsePart::add_segment() {
  if (next_segment_ >> shape_.segments_shift == segments_.size()) {
    const auto number = static_cast<std::uint32_t>(segments_.size());
    const auto taken = take(spare_segments_, RegionKind::kSegments, number);
    if (!taken.ok()) return taken.status();
    segments_.push_back(reinterpret_cast<protocol::IndexSegment*>((*taken)->memory));
    order(spare_segments_, RegionKind::kSegments, number + 1);
  }
  return next_segment_++;
}

absl::StatusOr<std::span<std::uint64_t>> SparsePart::add_directory(std::size_t entries) {
  depth_ = static_cast<std::uint32_t>(std::countr_zero(entries));
  if (depth_ <= protocol::kRootDepth) return std::span(root_ + entries, entries);
  const auto taken = take(directory_, RegionKind::kDirectory, depth_);
  if (!taken.ok()) return taken.status();
  return std::span(reinterpret_cast<std::uint64_t*>((*taken)->memory), entries);
}

void SparsePart::publish_directory() {
  // Release: who sees it sees the directory's entries.
  std::atomic_ref(*root_).store(depth_, std::memory_order_release);
}

Key SparsePart::key_of(Row row) const {
  // Readers may be reading it; only the lane writes it.
  return *reinterpret_cast<const Key*>(rows_.values(row) - sizeof(Key));
}

std::optional<Row> SparsePart::find(const KeyHash& hash, Key key) const {
  const IndexAnswer answer = index_->find(hash, key);
  if (answer.kind == IndexAnswer::Kind::kFound) return answer.row;
  return std::nullopt;
}

absl::StatusOr<Row> SparsePart::add(const KeyHash& hash, Key key) {
  if (next_row_ == rows_.capacity()) {
    const auto taken = take(spare_rows_, RegionKind::kRows, row_regions_);
    if (!taken.ok()) return taken.status();
    rows_.add_chunk((*taken)->chunk);
    order(spare_rows_, RegionKind::kRows, ++row_regions_);
  }
  // Nobody reads the row before the index has it.
  const Row row{next_row_};
  std::byte* const values = rows_.values(row);
  shape_.initial.write(key, shape_.type, shape_.width, values);
  std::memcpy(values - sizeof key, &key, sizeof key);
  RETURN_IF_ERROR(index_->insert(hash, row));
  ++next_row_;
  // Release: who sees it sees the rows before it, with their keys.
  std::atomic_ref(root_[protocol::kRootRows]).store(next_row_, std::memory_order_release);
  return row;
}

}  // namespace verbena::server
