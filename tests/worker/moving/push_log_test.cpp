#include "worker/moving/push_log.hpp"

#include <gtest/gtest.h>

namespace verbena::worker {
namespace {

TEST(PushLogTest, UpdatesOfARowGoInTheirOrder) {
  PushLog log;
  const int first = 0;
  const int then = 0;
  log.add(7, {&first, 0});
  log.add(7, {&then, 4});
  log.add(7, {&then, 5});
  log.add(8, {&then, 6});
  EXPECT_TRUE(log.is_first(7, {&first, 0}));
  EXPECT_FALSE(log.is_first(7, {&then, 4}));
  EXPECT_TRUE(log.is_first(8, {&then, 6})) << "each row has an order of its own";
  EXPECT_FALSE(log.end_first(7));
  EXPECT_TRUE(log.is_first(7, {&then, 4}));
  EXPECT_FALSE(log.is_first(7, {&then, 5})) << "an earlier update of the same push comes first";
  EXPECT_FALSE(log.end_first(7));
  EXPECT_TRUE(log.contains(7));
  EXPECT_TRUE(log.end_first(7));
  EXPECT_FALSE(log.contains(7));
  EXPECT_TRUE(log.contains(8));
}

}  // namespace
}  // namespace verbena::worker
