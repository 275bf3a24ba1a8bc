#include "apps/mf/item_store.hpp"

#include <array>
#include <cassert>

#include "base/return_if_error.hpp"

namespace verbena::apps::mf {

absl::StatusOr<Rows> TableItems::open(std::uint32_t first, std::uint32_t last) {
  range_ = {first, last};
  packed_.resize(range_.size() * rows_.format().width());
  RETURN_IF_ERROR(table_.pull(range_, packed_));
  rows_.unpack(packed_);
  watch_.computing_begins();
  return rows_.rows();
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
