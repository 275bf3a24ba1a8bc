#include "worker/fixed/row_cache.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace verbena::worker {

namespace {

constexpr std::size_t kCacheSlabBytes = std::size_t{1} << 20;
// Cached rows that are scattered take whole pages of a flat cache, at worst all of this.
constexpr std::size_t kMaxFlatBytes = std::size_t{64} << 20;

std::uint32_t slab_shift_for(std::size_t row_bytes) {
  return static_cast<std::uint32_t>(std::bit_width(std::max<std::size_t>(kCacheSlabBytes / row_bytes, 1)) -
                                    1);
}

bool is_flat(std::uint64_t rows, std::size_t row_bytes, std::uint64_t most_rows) {
  return rows <= std::min<std::uint64_t>(most_rows, kMaxFlatBytes / row_bytes);
}

}  // namespace

RowCache::RowCache(std::uint64_t rows, std::size_t stride_bytes, std::uint64_t most_rows)
    : all_rows_(rows),
      most_rows_(most_rows),
      row_bytes_(sizeof(CachedRow) + stride_bytes),
      slab_shift_(slab_shift_for(row_bytes_)),
      index_(is_flat(rows, row_bytes_, most_rows) ? 0 : rows) {
  if (is_flat(rows, row_bytes_, most_rows)) flat_ = base::make_zeroed_array<std::byte>(rows * row_bytes_);
}

RowCache::Place RowCache::insert(protocol::Row row) {
  if (flat_ != nullptr) return {.row = &at(row), .evicted = {}};
  if (most_rows_ == 0) return {};
  Place place;
  std::uint32_t slot = rows_;
  if (!free_slots_.empty()) {
    slot = free_slots_.back();
  } else if (rows_ == most_rows_) {
    slot = evict();
    place.evicted = slots_[slot].row;
  } else if ((slot >> slab_shift_) == slabs_.size()) {
    std::unique_ptr<std::byte[]> slab(new (std::nothrow) std::byte[row_bytes_ << slab_shift_]);
    if (slab == nullptr) return {};
    slabs_.push_back(std::move(slab));
  }
  try {
    index_.set(row, slot + 1);
  } catch (const std::bad_alloc&) {
    return {.row = nullptr, .evicted = place.evicted};
  }
  if (!free_slots_.empty()) {
    free_slots_.pop_back();
  } else if (slot == rows_) {
    ++rows_;
  }
  if (is_bounded()) {
    if (slot == slots_.size()) slots_.emplace_back();
    slots_[slot] = {.row = row};
  }
  place.row = new (slab_row(slot)) CachedRow{};
  return place;
}

void RowCache::erase(protocol::Row row) {
  if (flat_ != nullptr) return at(row).set_clock(CachedRow::kAbsent);
  const std::uint32_t slot = index_.find(row);
  if (slot == 0) return;
  index_.erase(row);
  free_slots_.push_back(slot - 1);
}

/// Evicts a row and returns its slot. REQUIRES: none is free
std::uint32_t RowCache::evict() {
  for (;; hand_ = (hand_ + 1) % rows_) {
    if (slots_[hand_].touched) {
      slots_[hand_].touched = false;
      continue;
    }
    const std::uint32_t slot = hand_;
    hand_ = (hand_ + 1) % rows_;
    index_.erase(slots_[slot].row);
    return slot;
  }
}

}  // namespace verbena::worker
