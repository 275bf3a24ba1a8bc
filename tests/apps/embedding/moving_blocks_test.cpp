#include "apps/embedding/moving_blocks.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace verbena::apps {
namespace {

TEST(ScheduleTest, KeepsWorkersApart) {
  for (std::uint32_t workers = 1; workers <= 5; ++workers) {
    for (std::size_t blocks = workers; blocks <= 4 * std::size_t{workers} + 1; ++blocks) {
      const std::size_t apart = blocks / workers;
      std::map<std::size_t, std::pair<std::uint64_t, std::uint32_t>> last_visit;
      std::vector<std::size_t> visits(workers * blocks);
      for (std::uint64_t clock = 0; clock < 3 * blocks; ++clock) {
        for (std::uint32_t rank = 0; rank < workers; ++rank) {
          const std::size_t block = scheduled_block(clock, rank, workers, blocks);
          ASSERT_LT(block, blocks);
          const auto found = last_visit.find(block);
          if (found != last_visit.end() && found->second.second != rank) {
            ASSERT_GE(clock - found->second.first, apart) << workers << " workers, " << blocks << " blocks";
          }
          last_visit[block] = {clock, rank};
          ++visits[rank * blocks + block];
        }
      }
      for (const std::size_t count : visits) ASSERT_EQ(count, 3U);
    }
  }
}

TEST(ScheduleTest, FewerBlocksThanWorkersAreShared) {
  for (const std::size_t blocks : {1U, 3U}) {
    for (std::uint32_t rank = 0; rank < 5; ++rank) {
      std::set<std::size_t> visited;
      for (std::uint64_t clock = 0; clock < blocks; ++clock) {
        visited.insert(scheduled_block(clock, rank, 5, blocks));
      }
      EXPECT_EQ(visited.size(), blocks);
      EXPECT_LT(*visited.rbegin(), blocks);
    }
  }
}

TEST(TurnsTest, ABlockIsFreeWhenItsTurnComes) {
  for (std::uint32_t workers = 1; workers <= 6; ++workers) {
    for (std::size_t blocks = workers; blocks <= 5 * workers; ++blocks) {
      const Turns turns = apps::turns(workers, blocks);
      const auto is_free = [&](std::size_t block, std::uint64_t clock, std::uint32_t of) {
        // Other workers may be this far behind, so they may still train their blocks of these clocks.
        const std::uint64_t finished = clock < turns.clocks_ahead ? 0 : clock - turns.clocks_ahead;
        for (std::uint32_t other = 0; other < workers; ++other) {
          for (std::uint64_t at = finished; other != of && at <= clock; ++at) {
            if (scheduled_block(at, other, workers, blocks) == block) return false;
          }
        }
        return true;
      };
      bool next_is_free = true;
      for (std::uint64_t clock = 0; clock < 2 * blocks; ++clock) {
        for (std::uint32_t rank = 0; rank < workers; ++rank) {
          ASSERT_TRUE(is_free(scheduled_block(clock, rank, workers, blocks), clock, rank))
              << workers << " workers, " << blocks << " blocks";
          next_is_free &= is_free(scheduled_block(clock + 1, rank, workers, blocks), clock, rank);
        }
      }
      ASSERT_TRUE(next_is_free || !turns.next_is_free) << workers << " workers, " << blocks << " blocks";
    }
  }
}

TEST(TurnsTest, MoreBlocksLeaveMoreRoom) {
  const auto of_four = [](std::size_t blocks) {
    const Turns turns = apps::turns(4, blocks);
    return std::pair(turns.clocks_ahead, turns.next_is_free);
  };
  EXPECT_EQ(of_four(4), std::pair(0U, false));
  EXPECT_EQ(of_four(7), std::pair(0U, false));
  EXPECT_EQ(of_four(8), std::pair(0U, true));
  EXPECT_EQ(of_four(12), std::pair(1U, true));
  EXPECT_EQ(of_four(20), std::pair(3U, true));
}

}  // namespace
}  // namespace verbena::apps
