#include "apps/embedding/moving_blocks.hpp"

#include <cassert>

#include "base/return_if_error.hpp"

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

Turns turns(std::uint32_t workers, std::size_t blocks) {
  assert(workers > 0 && blocks >= workers);
  // `apart` clocks after one worker, another is at the same block. When a worker is at clock c, all workers
  // have finished the clocks before c − clocks_ahead, and its next block had its last visit at c + 1 − apart.
  const std::size_t apart = blocks / workers;
  if (apart < 2) return {};
  return {.clocks_ahead = static_cast<std::uint32_t>(apart - 2), .next_is_free = true};
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
