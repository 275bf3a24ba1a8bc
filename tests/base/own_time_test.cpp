#include "base/own_time.hpp"

#include <gtest/gtest.h>

namespace verbena::base {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

TEST(OwnTimeTest, StandsStillWhileNobodyLooks) {
  OwnTime::TimePoint clock = std::chrono::steady_clock::now();
  const OwnTime::TimePoint begin = clock;
  OwnTime time(clock);
  EXPECT_EQ(time.now(), begin);
  for (int i = 0; i < 3; ++i) time.look(clock += milliseconds(1000));
  EXPECT_EQ(time.now() - begin, milliseconds(3000));
  time.look(clock += hours(1));
  EXPECT_EQ(time.now() - begin, milliseconds(3000) + OwnTime::kMostBetweenLooks);
  time.look(clock - milliseconds(1));
  time.look(clock);
  EXPECT_LE(time.now() - begin, milliseconds(3001) + OwnTime::kMostBetweenLooks)
      << "it goes on, and not back";
}

}  // namespace
}  // namespace verbena::base
