#include "protocol/partition.hpp"

#include <gtest/gtest.h>

namespace verbena::protocol {
namespace {

TEST(RangePartitionTest, PartsAreContiguousFairAndFindable) {
  for (std::uint64_t rows : {0ULL, 1ULL, 2ULL, 7ULL, 64ULL, 1001ULL}) {
    for (std::uint32_t parts : {1U, 2U, 3U, 8U, 100U}) {
      const RangePartition partition(rows, parts);
      Key next = 0;
      for (std::uint32_t part = 0; part < parts; ++part) {
        const KeyRange range = partition.range(part);
        ASSERT_EQ(range.first, next);
        EXPECT_LE(range.size(), partition.range(0).size());
        EXPECT_LE(partition.range(0).size(), range.size() + 1);
        for (Key key = range.first; key < range.last; ++key) ASSERT_EQ(partition.part_of(key), part) << key;
        next = range.last;
      }
      EXPECT_EQ(next, rows);
    }
  }
}

TEST(RangePartitionTest, LargeKeys) {
  const RangePartition partition((std::uint64_t{1} << 40) - 1, 7);
  for (std::uint32_t part = 0; part < 7; ++part) {
    EXPECT_EQ(partition.part_of(partition.range(part).first), part);
    EXPECT_EQ(partition.part_of(partition.range(part).last - 1), part);
  }
}

}  // namespace
}  // namespace verbena::protocol
