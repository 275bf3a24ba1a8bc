#include "apps/embedding/moving_blocks.hpp"

#include <fmt/format.h>

#include <cassert>

#include "base/return_if_error.hpp"
#include "consistency/model.hpp"

namespace verbena::apps {

std::size_t scheduled_block(std::uint64_t clock, std::uint32_t rank, std::uint32_t workers,
                            std::size_t blocks) {
  assert(blocks > 0 && rank < workers);
  const std::size_t start = std::size_t{rank} * blocks / workers;
  return (start + static_cast<std::size_t>(clock % blocks)) % blocks;
}

std::size_t moving_blocks(std::uint32_t workers, std::uint32_t servers) {
  constexpr std::size_t kFetching = 3;
  return workers == 1 || servers == 1 ? workers : workers * kFetching;
}

std::size_t blocks_of(std::int64_t given, bool move, const JobShape& shape) {
  if (given > 0) return static_cast<std::size_t>(given);
  if (move) return moving_blocks(shape.workers, shape.servers);
  // So many keep workers that train the same rows at least as many clocks apart as the staleness, so that
  // each sees what the other has just trained.
  return shape.workers == 1 ? 1
                            : shape.workers * (std::size_t{consistency::staleness(shape.consistency)} + 1);
}

absl::Status check_blocks(std::int64_t given, bool move, std::uint32_t workers, std::string_view rows) {
  if (!move || given == 0 || given >= workers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--clocks-per-iteration: where rows move, expected a block of {} for each of the {} "
                  "workers, found {}",
                  rows, workers, given));
}

Turns turns(std::uint32_t workers, std::size_t blocks) {
  assert(workers > 0 && blocks >= workers);
  // `apart` clocks after one worker, another is at the same block. When a worker is at clock c, all workers
  // have finished the clocks before c − clocks_ahead, and its next block had its last visit at c + 1 − apart.
  const std::size_t apart = blocks / workers;
  if (apart < 2) return {};
  return {.clocks_ahead = static_cast<std::uint32_t>(apart - 2), .next_is_free = true};
}

absl::Status check_lookahead(std::uint32_t workers, std::size_t blocks, std::string_view rows) {
  if (blocks < workers || turns(workers, blocks).next_is_free) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "--lookahead: expected 0 with {} block{} of {} for {} worker{}, of which none is free while "
      "one is trained, or --clocks-per-iteration {} or more; found 1",
      blocks, blocks == 1 ? "" : "s", rows, workers, workers == 1 ? "" : "s", 2 * std::uint64_t{workers}));
}

absl::Status MovingBlocks::block_begins(Upcoming upcoming) {
  switch (allocation_) {
    case RowAllocation::kStatic:
      return absl::OkStatus();
    case RowAllocation::kLocalize:
      return localize(upcoming);
    case RowAllocation::kIntent:
      return intend(upcoming);
  }
  return absl::OkStatus();
}

absl::Status MovingBlocks::localize(Upcoming upcoming) {
  if (!coming_) coming_ = table_.localize(upcoming(0).rows);
  RETURN_IF_ERROR(coming_->wait());
  coming_.reset();
  if (ahead_) coming_ = table_.localize(upcoming(1).rows);
  return absl::OkStatus();
}

absl::Status MovingBlocks::intend(Upcoming upcoming) {
  const std::size_t lookahead = ahead_ ? 1 : 0;  // blocks after the next one still belong to other workers
  for (; said_ <= lookahead; ++said_) {
    const UpcomingBlock block = upcoming(said_);
    const std::int64_t clock = session_.current_clock() + block.clocks;
    RETURN_IF_ERROR(table_.intent(block.rows, clock, clock + 1));
  }
  --said_;  // at the next call, the block that begins now is no longer upcoming
  return absl::OkStatus();
}

}  // namespace verbena::apps
