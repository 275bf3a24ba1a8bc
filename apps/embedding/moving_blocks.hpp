// Training in place, block by block: the keys of a table are divided into blocks, and in each clock a worker
// trains one. Workers take turns with the blocks, so that no two train the same rows at a time (DSGD: Gemulla
// et al., KDD'11). Where the rows are those of a dynamic table, a block moves to the node of the worker whose
// turn it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "apps/application.hpp"
#include "apps/embedding/allocation.hpp"
#include <verbena/keys.hpp>
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::apps {

/// The block that worker `rank` trains at clock `clock`, from 0. Any two workers are at different blocks, and
/// at least ⌊blocks / workers⌋ clocks lie between the visits of two workers to one and the same block: with
/// workers · (staleness + 1) blocks, what a visitor reads is complete even under SSP. If there are fewer
/// blocks than workers, some workers are at the same block.
std::size_t scheduled_block(std::uint64_t clock, std::uint32_t rank, std::uint32_t workers,
                            std::size_t blocks);

/// How many blocks there should be where rows of dynamic tables are trained. With several servers, three for
/// each of several workers: a worker can have its next block fetched while it trains one, and another worker
/// trains the third. With one server nothing is fetched, and one for each worker is fastest.
std::size_t moving_blocks(std::uint32_t workers, std::uint32_t servers);

/// How many blocks there are: as many as are `given` (--clocks-per-iteration), or where that is 0 as many as
/// train fastest. `move`: rows do.
std::size_t blocks_of(std::int64_t given, bool move, const JobShape& shape);
/// INVALID_ARGUMENT: so many are too few where rows move. `rows`: what a block is of, "items".
absl::Status check_blocks(std::int64_t given, bool move, std::uint32_t workers, std::string_view rows);

/// How workers that train blocks in place keep out of each other's way.
struct Turns {
  /// How many clocks a worker may be ahead of the slowest one (Session::limit_lead()). Within this limit, the
  /// worker that had the block before has finished with it.
  std::uint32_t clocks_ahead = 0;
  /// When a worker begins a block, no other worker trains its next block any more.
  bool next_is_free = false;
};
/// REQUIRES: blocks ≥ workers.
Turns turns(std::uint32_t workers, std::size_t blocks);
/// INVALID_ARGUMENT: --lookahead 1 was given, and would do nothing, for the next block is not free. `rows`:
/// as for check_blocks().
absl::Status check_lookahead(std::uint32_t workers, std::size_t blocks, std::string_view rows);

/// A block that this worker will train: its rows, and in how many of the session's clocks from now.
struct UpcomingBlock {
  Keys rows = KeyRange{};
  std::int64_t clocks = 0;
};
/// Returns the block that comes after `ahead` others; 0: the block that begins. After the last block, a block
/// without rows.
using Upcoming = absl::FunctionRef<UpcomingBlock(std::size_t ahead)>;

/// Has a dynamic table's rows come to this worker's node, block by block. REQUIRES:
/// Session::limit_lead(Turns::clocks_ahead).
class MovingBlocks {
 public:
  /// `ahead`: the next block comes while this one is trained. For kLocalize, REQUIRES then:
  /// Turns::next_is_free.
  MovingBlocks(Session& session, const UntypedTable& table, RowAllocation allocation, bool ahead)
      : session_(session), table_(table), allocation_(allocation), ahead_(ahead) {}

  /// A block is trained from now on until the next clock().
  absl::Status block_begins(Upcoming upcoming);

 private:
  absl::Status localize(Upcoming upcoming);
  absl::Status intend(Upcoming upcoming);

  Session& session_;
  UntypedTable table_;
  const RowAllocation allocation_;
  const bool ahead_;
  std::optional<Pending> coming_;  ///< kLocalize: the next block, if it was asked for
  std::size_t said_ = 0;           ///< kIntent: upcoming blocks for which the intent was signalled
};

}  // namespace verbena::apps
