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

absl::Status keep_turns(Session& session, const Turns& turns) {
  // The table holds nothing. Its consistency model makes the session wait for the others in clock().
  return session
      .table<float>({.name = "mf.turns",
                     .rows = 1,
                     .width = 1,
                     .consistency = BoundedDelay{.delay = turns.clocks_ahead}})
      .status();
}

absl::Status LocalizedItems::block_begins(Upcoming upcoming) {
  if (!coming_) coming_ = table().localize(upcoming(0).rows);
  RETURN_IF_ERROR(coming_->wait());
  coming_.reset();
  if (ahead_) coming_ = table().localize(upcoming(1).rows);
  return absl::OkStatus();
}

absl::Status IntendedItems::block_begins(Upcoming upcoming) {
  for (; said_ <= lookahead_; ++said_) {
    const UpcomingBlock block = upcoming(said_);
    const std::int64_t clock = current_clock() + block.clocks;
    RETURN_IF_ERROR(table().intent(block.rows, clock, clock + 1));
  }
  --said_;  // at the next call, the block that begins now is no longer upcoming
  return absl::OkStatus();
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
