#include "apps/data/random.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::apps {
namespace {

TEST(RandomTest, IsTheGeneratorOfThePaper) {
  // The numbers that the program of the paper's authors prints.
  Random random(1234567);
  for (const std::uint64_t number : {6457827717110365317U, 3203168211198807973U, 9817491932198370423U,
                                     4593380528125082431U, 16408922859458223821U})
    EXPECT_EQ(random(), number);
}

TEST(RandomTest, StreamsDiffer) {
  EXPECT_NE(Random(1, 0)(), Random(1, 1)());
  EXPECT_NE(Random(1, 0)(), Random(2, 0)());
}

TEST(RandomTest, UnitIntervalHasItsFirstNumberButNotItsLast) {
  EXPECT_EQ(to_unit_interval(0), 0);
  EXPECT_EQ(to_unit_interval(std::uint64_t{1} << 63U), 0.5);
  EXPECT_LT(to_unit_interval(UINT64_MAX), 1);
}

TEST(RandomTest, BelowReachesAllAndNoMore) {
  Random random(1);
  std::array<int, 7> seen{};
  for (int i = 0; i < 1000; ++i) ++seen.at(random_below(random, seen.size()));
  EXPECT_THAT(seen, ::testing::Each(::testing::Gt(0)));
}

}  // namespace
}  // namespace verbena::apps
