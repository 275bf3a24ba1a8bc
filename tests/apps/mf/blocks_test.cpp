#include "apps/mf/blocks.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
