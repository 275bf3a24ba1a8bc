#include "worker/fixed/sparse_view.hpp"

#include <fmt/format.h>

#include <bit>

namespace verbena::worker {

using protocol::RegionKind;
using transport::RemoteDescriptor;

absl::Status SparseView::add(const protocol::RegionAdded& added, transport::Connection& connection) {
  Regions& those = regions(added.kind);
  const bool is_directory = added.kind == RegionKind::kDirectory;
  const std::uint64_t number = those.all.size() + (is_directory ? protocol::kRootDepth + 1 : 0);
  const std::uint64_t items = is_directory                      ? std::uint64_t{1} << number
                              : added.kind == RegionKind::kRoot ? 1
                              : those.all.empty()               ? added.items
                                                                : std::uint64_t{1} << those.shift;
  const bool is_one_too_many = is_directory                      ? number > protocol::KeyHash::kSegmentBits
                               : added.kind == RegionKind::kRoot ? number > 0
                                                                 : false;
  // Far beyond what any memory holds, products would overflow.
  const std::size_t bytes = protocol::region_bytes(added.kind, added.items, stride_bytes_);
  if (is_one_too_many || added.number != number || added.items != items ||
      added.items > added.memory.length_bytes || added.memory.length_bytes != bytes) {
    return absl::InvalidArgumentError(
        fmt::format("added region {} of kind {} with {} items in {} bytes, expected region {} with {} in {}",
                    added.number, static_cast<std::uint32_t>(added.kind), added.items,
                    added.memory.length_bytes, number, items, bytes));
  }
  Region region{.remote = added.memory.as<RemoteDescriptor>()};
  region.mapped = connection.mapped(region.remote);
  if (added.kind == RegionKind::kRoot) {
    root_ = reinterpret_cast<const std::uint64_t*>(region.mapped);
  }
  if (reinterpret_cast<std::uintptr_t>(region.mapped) % alignof(protocol::IndexSegment) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("added region {} of kind {} at an address that no region has", added.number,
                    static_cast<std::uint32_t>(added.kind)));
  }
  // One that cannot be mapped as the root was is gone: its server has died, and an event will say so. Until
  // then, who needs it waits, as for one that has not been heard of.
  those.shift = static_cast<std::uint32_t>(std::countr_zero(added.items));
  those.all.push_back(region);
  return absl::OkStatus();
}

std::optional<protocol::Row> SparseView::find(const protocol::KeyHash& hash, Key key) const {
  const Snapshot now = snapshot();
  const protocol::IndexSegment* const of_key = now.segment(hash);
  if (of_key == nullptr) return std::nullopt;
  const protocol::IndexAnswer answer = protocol::look_up(*of_key, hash, [&](protocol::Row one) {
    const std::byte* const there = now.row(one);
    return there != nullptr && key_of(there) == key;
  });
  if (answer.kind != protocol::IndexAnswer::Kind::kFound) return std::nullopt;
  return answer.row;
}

void SparseView::know_row(Key key, protocol::Row row) {
  if (known_rows_.size() >= most_known_) known_rows_.erase(known_rows_.begin());  // any of them
  known_rows_.emplace(key, index_of(row));
}

std::optional<RemoteDescriptor> SparseView::remote(RegionKind kind, std::uint64_t item,
                                                   std::size_t item_bytes, std::size_t offset,
                                                   std::size_t bytes) const {
  const Regions& those = regions(kind);
  const std::uint64_t region = item >> those.shift;
  if (region >= those.all.size()) return std::nullopt;
  const std::uint64_t at = item & ((std::uint64_t{1} << those.shift) - 1);
  return those.all[region].remote.slice(at * item_bytes + offset, bytes);
}

RemoteDescriptor SparseView::root() const {
  return regions(RegionKind::kRoot).all.front().remote.slice(0, sizeof(std::uint64_t));
}

std::optional<RemoteDescriptor> SparseView::directory_of(std::uint64_t depth) const {
  const std::size_t bytes = sizeof(std::uint64_t) << depth;
  if (depth <= protocol::kRootDepth) return regions(RegionKind::kRoot).all.front().remote.slice(bytes, bytes);
  const auto& all = regions(RegionKind::kDirectory).all;
  const std::uint64_t at = depth - protocol::kRootDepth - 1;
  if (at >= all.size()) return std::nullopt;
  return all[at].remote;
}

std::optional<RemoteDescriptor> SparseView::buckets_of(std::uint32_t segment, std::size_t first,
                                                       std::size_t count) const {
  return remote(RegionKind::kSegments, segment, sizeof(protocol::IndexSegment),
                first * sizeof(protocol::IndexBucket), count * sizeof(protocol::IndexBucket));
}

std::optional<RemoteDescriptor> SparseView::rows_from(protocol::Row first, std::uint64_t count) const {
  return remote(RegionKind::kRows, index_of(first), row_bytes(), 0, count * row_bytes());
}

RemoteDescriptor SparseView::rows_end_word() const {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  return regions(RegionKind::kRoot).all.front().remote.slice(protocol::kRootRows * kWord, kWord);
}

}  // namespace verbena::worker
