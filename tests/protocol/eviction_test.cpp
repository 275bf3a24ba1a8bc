#include "protocol/eviction.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace verbena::protocol {
namespace {

EvictionRule rule(std::string_view text) {
  return EvictionRule::find(text).value();
}

TEST(EvictionTest, OnlyTheseChoicesAreUnderstood) {
  EXPECT_FALSE(rule("never").evicts());
  for (const char* text : {"age", "count", "norm", "age(clocks=3,most_mb=2)", "lru(most_mb=0.5)"})
    EXPECT_TRUE(rule(text).evicts()) << text;
  EXPECT_EQ(rule("age(clocks=3,most_mb=2)").most_bytes(), 2'000'000);
  EXPECT_EQ(rule("lru(most_mb=0.5)").most_bytes(), 500'000);
  EXPECT_EQ(rule("age(most_mb=1e-9)").most_bytes(), 1) << "0 would be no limit";
  for (const char* text : {"", "old", "never(clocks=1)", "age(clocks=0)", "age(most=1)", "lru",
                           "lru(most_mb=0)", "count(least=-1)", "norm(clocks=0.5)"}) {
    const auto found = EvictionRule::find(text);
    ASSERT_FALSE(found.ok()) << text;
    EXPECT_THAT(std::string(found.status().message()), ::testing::HasSubstr("eviction")) << text;
  }
}

TEST(EvictionTest, ByAge) {
  const EvictionRule age = rule("age(clocks=10)");
  RowUse use{.last_push = 5};
  age.count_push(use, 7);
  EXPECT_FALSE(age.is_due(use, 16));
  EXPECT_TRUE(age.is_due(use, 17));
  EXPECT_FALSE(age.is_due(use, 6)) << "a sweep that began before";
  EXPECT_EQ(age.clocks_between_sweeps(), 1);
  EXPECT_EQ(rule("age(clocks=800)").clocks_between_sweeps(), 100);
}

TEST(EvictionTest, PushesLoseHalfOfTheirWeightInAHalfLife) {
  const EvictionRule count = rule("count(least=1,half_life=10)");
  RowUse use{.last_push = 100};
  for (int i = 0; i < 4; ++i) count.count_push(use, 100);
  EXPECT_FLOAT_EQ(use.pushes, 4);
  EXPECT_FALSE(count.is_due(use, 119));
  EXPECT_TRUE(count.is_due(use, 121));
  EXPECT_FALSE(count.is_due(use, 90)) << "a sweep that began before";
  count.count_push(use, 110);
  EXPECT_FLOAT_EQ(use.pushes, 3);
  EXPECT_FALSE(count.is_due(use, 125));
}

/// A row that comes as often as is asked for stays from the beginning; another one goes, but not at once.
TEST(EvictionTest, ANewRowIsTakenForOneThatHasComeOftenEnough) {
  const EvictionRule count = rule("count(least=2,half_life=20)");
  const auto clocks_until_due = [&](std::uint32_t gap) {
    RowUse use = count.new_use(100);
    count.count_push(use, 100);
    for (std::uint32_t now = 101; now < 1000; ++now) {
      if (count.is_due(use, now)) return now - 100;
      if ((now - 100) % gap == 0) count.count_push(use, now);
    }
    return 1000U;
  };
  EXPECT_EQ(clocks_until_due(1000), 12) << "pushed to once: 3 count 2 after 11.7 clocks";
  EXPECT_EQ(clocks_until_due(11), 1000);
  EXPECT_LT(clocks_until_due(15), 100);
  EXPECT_FALSE(rule("count").is_due(rule("count").new_use(7), 7)) << "also if nobody has pushed to it";
  EXPECT_EQ(rule("age").new_use(7).last_push, 7);
}

TEST(EvictionTest, TheNormCountsOnlyOnceARowHasAged) {
  const EvictionRule norm = rule("norm(least=0.5,clocks=4)");
  EXPECT_EQ(norm.least_norm(), 0.5);
  EXPECT_EQ(rule("norm(least=0)").least_norm(), 0) << "no norm is smaller: all rows stay";
  EXPECT_EQ(rule("age").least_norm(), std::nullopt);
  EXPECT_FALSE(norm.is_due({.last_push = 1}, 4));
  EXPECT_TRUE(norm.is_due({.last_push = 1}, 5));
}

TEST(EvictionTest, TheLeastRecentlyUsedAreNotDueByThemselves) {
  EXPECT_FALSE(rule("lru(most_mb=1)").is_due({.last_push = 0}, 1'000'000));
}

}  // namespace
}  // namespace verbena::protocol
