#include "apps/mf/blocks.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

#include "apps/mf/kernel.hpp"

namespace verbena::apps::mf {
namespace {

using Key = std::tuple<std::uint32_t, std::uint32_t, float>;

std::vector<Rating> random_ratings(std::size_t count, std::uint32_t users, std::uint32_t items,
                                   std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Rating> ratings;
  for (std::size_t n = 0; n < count; ++n) {
    // The smaller of two draws, so that items with low numbers are popular.
    const std::uint64_t item = std::min(random() % items, random() % items);
    ratings.push_back({static_cast<std::uint32_t>(random() % users), static_cast<std::uint32_t>(item),
                       static_cast<float>(n)});
  }
  return ratings;
}

std::vector<std::uint64_t> counts(const std::vector<Rating>& ratings, std::size_t items) {
  std::vector<std::uint64_t> result(items);
  for (const Rating& rating : ratings) ++result[rating.item];
  return result;
}

TEST(ItemLayoutTest, IsABijection) {
  for (const std::size_t blocks : {1U, 2U, 3U, 7U, 200U}) {
    const ItemLayout layout = lay_out_items(counts(random_ratings(1000, 10, 101, 1), 101), blocks);
    ASSERT_EQ(layout.blocks(), blocks);
    EXPECT_EQ(layout.begin.front(), 0U);
    EXPECT_EQ(layout.begin.back(), 101U);
    EXPECT_TRUE(std::is_sorted(layout.begin.begin(), layout.begin.end()));
    std::vector<std::uint32_t> rows = layout.row_of_item;
    std::sort(rows.begin(), rows.end());
    for (std::uint32_t row = 0; row < 101; ++row) ASSERT_EQ(rows[row], row);
  }
}

TEST(ItemLayoutTest, GivesBlocksLikeNumbersOfRatings) {
  const std::vector<std::uint64_t> of_item = counts(random_ratings(100'000, 10, 1000, 1), 1000);
  const ItemLayout layout = lay_out_items(of_item, 6);
  std::vector<std::uint64_t> of_block(6);
  for (std::size_t item = 0; item < 1000; ++item) {
    const auto above = std::upper_bound(layout.begin.begin(), layout.begin.end(), layout.row_of_item[item]);
    of_block[static_cast<std::size_t>(above - layout.begin.begin()) - 1] += of_item[item];
  }
  const auto [least, most] = std::minmax_element(of_block.begin(), of_block.end());
  EXPECT_LT(static_cast<double>(*most), 1.02 * static_cast<double>(*least));
}

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
      const Turns turns = mf::turns(workers, blocks);
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
    const Turns turns = mf::turns(4, blocks);
    return std::pair(turns.clocks_ahead, turns.next_is_free);
  };
  EXPECT_EQ(of_four(4), std::pair(0U, false));
  EXPECT_EQ(of_four(7), std::pair(0U, false));
  EXPECT_EQ(of_four(8), std::pair(0U, true));
  EXPECT_EQ(of_four(12), std::pair(1U, true));
  EXPECT_EQ(of_four(20), std::pair(3U, true));
}

class BlocksTest : public ::testing::TestWithParam<std::tuple<std::size_t, TileLimits>> {};

TEST_P(BlocksTest, CoverEveryRatingOnce) {
  const auto& [blocks, limits] = GetParam();
  constexpr std::size_t kUsers = 53;
  const std::vector<Rating> ratings = random_ratings(5000, kUsers, 97, 2);
  const ItemLayout layout = lay_out_items(counts(ratings, 97), blocks);
  const RatingBlocks sorted = sort_into_blocks(ratings, layout, kUsers, limits, 1);
  ASSERT_EQ(sorted.blocks.size(), blocks);
  std::set<Key> left;
  for (const Rating& rating : ratings)
    left.insert({rating.user, layout.row_of_item[rating.item], rating.value});
  ASSERT_EQ(left.size(), ratings.size());
  for (std::size_t block = 0; block < blocks; ++block) {
    for (const Slice& slice : sorted.blocks[block]) {
      EXPECT_GE(slice.first_row, layout.begin[block]);
      EXPECT_LE(slice.last_row, layout.begin[block + 1]);
      EXPECT_LE(slice.last_row - slice.first_row, limits.item_rows);
      for (const Tile& tile : slice.tiles) {
        std::set<std::uint32_t> users;
        ASSERT_FALSE(sorted.of(tile).empty());
        for (const Rating& rating : sorted.of(tile)) {
          EXPECT_LT(rating.item, slice.last_row - slice.first_row);
          EXPECT_EQ(left.erase({rating.user, slice.first_row + rating.item, rating.value}), 1U);
          users.insert(rating.user);
        }
        EXPECT_LT(*users.rbegin() - *users.begin(), limits.user_rows);
      }
    }
  }
  EXPECT_TRUE(left.empty());
}

INSTANTIATE_TEST_SUITE_P(Cuts, BlocksTest,
                         ::testing::Combine(::testing::Values(1U, 2U, 6U, 300U),
                                            ::testing::Values(TileLimits{1, 1}, TileLimits{7, 10},
                                                              TileLimits{1000, 1000})),
                         [](const auto& test) {
                           const TileLimits& limits = std::get<TileLimits>(test.param);
                           return fmt::format("{}Of{}ItemsAnd{}Users", std::get<std::size_t>(test.param),
                                              limits.item_rows, limits.user_rows);
                         });

TEST(SortTest, IsDeterministicAndShuffledBySeed) {
  const std::vector<Rating> ratings = random_ratings(2000, 20, 30, 3);
  const ItemLayout layout = lay_out_items(counts(ratings, 30), 2);
  const auto values = [&](std::uint64_t seed) {
    std::vector<float> result;
    for (const Rating& rating : sort_into_blocks(ratings, layout, 20, {30, 20}, seed).ratings) {
      result.push_back(rating.value);
    }
    return result;
  };
  EXPECT_EQ(values(1), values(1));
  EXPECT_NE(values(1), values(2));
  std::vector<float> sorted = values(1);
  EXPECT_FALSE(std::is_sorted(sorted.begin(), sorted.begin() + 500));
}

TEST(SortTest, TakesNoUsersAndNoRatings) {
  const ItemLayout layout = lay_out_items(std::vector<std::uint64_t>{3, 1}, 4);
  const RatingBlocks sorted = sort_into_blocks({}, layout, 0, {10, 10}, 1);
  EXPECT_EQ(sorted.blocks.size(), 4U);
  EXPECT_TRUE(sorted.ratings.empty());
}

TEST(TileLimitsTest, FitsAtLeastOneRow) {
  EXPECT_EQ(cache_sized(padded(1'000'000)).item_rows, 1U);
  EXPECT_GE(cache_sized(16).user_rows, 1000U);
}

}  // namespace
}  // namespace verbena::apps::mf
