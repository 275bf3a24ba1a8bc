#include "protocol/placement.hpp"

#include <gtest/gtest.h>

#include "protocol/row.hpp"

namespace verbena::protocol {
namespace {

TEST(PlacementTest, EachKeyHasOneServerAndOneOfItsLanes) {
  constexpr std::uint32_t kLanes = 3;
  for (const std::uint32_t servers : {1U, 2U, 5U}) {
    for (const std::uint64_t rows : {1U, 4U, 17U, 100U}) {
      const TablePlacement table = Placement(servers).table(rows);
      Key next = 0;
      for (std::uint32_t server = 0; server < servers; ++server) {
        EXPECT_EQ(table.keys(server).first, next);
        for (std::uint32_t lane = 0; lane < kLanes; ++lane) {
          const KeyRange keys = table.keys(server, lane, kLanes);
          EXPECT_EQ(keys.first, next);
          for (; next < keys.last; ++next) EXPECT_EQ(table.server_of(next), server);
        }
        EXPECT_EQ(table.keys(server).last, next);
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(RowRangeTest, TurnsKeysIntoRowsAndBack) {
  const RowRange range({10, 13});
  EXPECT_EQ(range.size(), 3U);
  EXPECT_FALSE(range.has(9));
  EXPECT_TRUE(range.has(10));
  EXPECT_TRUE(range.has(12));
  EXPECT_FALSE(range.has(13));
  EXPECT_EQ(range.row_of(12), Row{2});
  EXPECT_EQ(range.key_of(Row{2}), 12U);
}

}  // namespace
}  // namespace verbena::protocol
