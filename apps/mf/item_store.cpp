#include "apps/mf/item_store.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::apps::mf {

absl::StatusOr<Rows> TableItems::read(std::uint32_t first, std::uint32_t last) {
  range_ = {first, last};
  packed_.resize(range_.size() * rows_.format().width());
  RETURN_IF_ERROR(table_.pull(range_, packed_));
  rows_.unpack(packed_);
  return rows_.rows();
}

absl::StatusOr<Rows> TableItems::open(std::uint32_t first, std::uint32_t last) {
  absl::StatusOr<Rows> rows = read(first, last);
  watch_.computing_begins();
  return rows;
}

absl::Status TableItems::close(std::uint64_t trained) {
  watch_.computing_ends(trained);
  rows_.difference(packed_);
  return table_.push(range_, packed_);
}

absl::Status TableItems::clock() {
  watch_.clock_ends();
  return session_.clock();
}

absl::StatusOr<Rows> MovingItems::open(std::uint32_t first, std::uint32_t last) {
  places_.resize(kRowsAreHeld ? last - first : 0);
  if (places_.empty()) return TableItems::open(first, last);
  absl::StatusOr<HeldRows> held = table().hold(KeyRange{first, last}, places_);
  if (!held.ok()) return held.status();
  held_ = *std::move(held);
  if (std::find(places_.begin(), places_.end(), nullptr) != places_.end()) {
    // Some rows are elsewhere, or another worker holds them. No row is held while the worker waits for them.
    places_.clear();
    RETURN_IF_ERROR(held_.release());
    return TableItems::open(first, last);
  }
  const std::size_t width = rows().format().width();
  for (std::size_t row = 0; row < places_.size(); ++row) rows().unpack({places_[row], width}, row);
  watch().computing_begins();
  return rows().rows();
}

absl::Status MovingItems::close(std::uint64_t trained) {
  if (places_.empty()) return TableItems::close(trained);
  watch().computing_ends(trained);
  const std::size_t width = rows().format().width();
  for (std::size_t row = 0; row < places_.size(); ++row) rows().pack({places_[row], width}, row);
  return held_.release();
}

void MiniBatchItems::request(MiniBatch& batch) {
  batch.places.clear();
  for (Rating& rating : batch.ratings) {
    std::uint32_t& index = index_of_item_[rating.item];
    if (index == 0) {
      batch.places.push_back(rating.item);
      index = static_cast<std::uint32_t>(batch.places.size());
    }
    rating.item = index - 1;
  }
  for (const std::uint32_t item : batch.places) index_of_item_[item] = 0;
  store_.request(std::array{NeededRows{.table = 0, .keys = batch.places}});
}

absl::StatusOr<Rows> MiniBatchItems::open(const MiniBatch& batch) {
  assert(batch.places.size() <= rows_.size());
  const absl::StatusOr<std::span<const RowPointers>> opened = store_.open();
  if (!opened.ok()) return opened.status();
  packed_ = opened->front();
  const std::size_t width = rows_.format().width();
  for (std::size_t i = 0; i < batch.places.size(); ++i) {
    rows_.unpack(std::span(packed_[batch.places[i]], width), i);
  }
  return rows_.rows();
}

absl::Status MiniBatchItems::close(const MiniBatch& batch) {
  const std::size_t width = rows_.format().width();
  for (std::size_t i = 0; i < batch.places.size(); ++i) {
    rows_.pack(std::span(packed_[batch.places[i]], width), i);
  }
  return store_.close(batch.ratings.size());
}

}  // namespace verbena::apps::mf
