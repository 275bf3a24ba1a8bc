#include "worker/moving/intents.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(IntentsTest, AKeyBeginsInTimeAndEndsWithItsLastIntent) {
  Intents intents;
  intents.allocate(100);
  intents.add({1, 2}, 10, 12);
  intents.add({2, 3}, 11, 20);
  EXPECT_THAT(intents.take_begun(0, 9), IsEmpty());
  EXPECT_THAT(intents.take_begun(0, 10), ElementsAre(1, 2));
  EXPECT_THAT(intents.take_begun(1, 10), IsEmpty());
  EXPECT_THAT(intents.take_begun(1, 11), ElementsAre(3)) << "2 goes on";
  EXPECT_TRUE(intents.has_begun(2));
  EXPECT_THAT(intents.take_ended(11), IsEmpty());
  EXPECT_THAT(intents.take_ended(12), ElementsAre(1));
  EXPECT_FALSE(intents.has_begun(1));
  EXPECT_THAT(intents.take_ended(19), IsEmpty());
  EXPECT_THAT(intents.take_ended(25), ElementsAre(2, 3));
}

TEST(IntentsTest, AShorterIntentEndsNothing) {
  Intents intents;
  intents.allocate(100);
  intents.add({7}, 0, 10);
  intents.add({7}, 1, 3);
  EXPECT_THAT(intents.take_begun(0, 5), ElementsAre(7));
  EXPECT_THAT(intents.take_ended(9), IsEmpty());
  EXPECT_THAT(intents.take_ended(10), ElementsAre(7));
}

TEST(IntentsTest, WhatIsOverNeverBegins) {
  Intents intents;
  intents.allocate(100);
  intents.add({1}, 3, 5);
  intents.add({2}, 5, 5);
  EXPECT_THAT(intents.take_begun(5, 6), IsEmpty());
  EXPECT_TRUE(intents.empty());
}

TEST(IntentsTest, AKeyBeginsAnew) {
  Intents intents;
  intents.allocate(100);
  intents.add({1}, 1, 2);
  intents.add({1}, 8, 9);
  EXPECT_THAT(intents.take_begun(0, 3), ElementsAre(1));
  EXPECT_THAT(intents.take_ended(2), ElementsAre(1));
  EXPECT_THAT(intents.take_begun(7, 10), ElementsAre(1));
  EXPECT_THAT(intents.take_ended(9), ElementsAre(1));
  EXPECT_FALSE(intents.has_begun(1));
}

TEST(IntentsTest, AKeyIsUsedFromTheFirstOfItsIntentsOn) {
  Intents intents;
  intents.allocate(100);
  intents.add({1}, 5, 6);
  static_cast<void>(intents.take_begun(0, 10));
  EXPECT_FALSE(intents.is_used_by(1, 4));
  EXPECT_TRUE(intents.is_used_by(1, 5));
  intents.add({1}, 3, 4);
  static_cast<void>(intents.take_begun(0, 10));
  EXPECT_TRUE(intents.is_used_by(1, 3));
  EXPECT_FALSE(intents.is_used_by(2, 100)) << "it has not begun";
}

TEST(IntentsTest, WhatIsUsedNextIsToldOnce) {
  Intents intents;
  intents.allocate(100);
  intents.add({1}, 4, 9);
  intents.add({2}, 5, 9);
  static_cast<void>(intents.take_begun(0, 10));
  EXPECT_THAT(intents.take_used(3), IsEmpty());
  EXPECT_THAT(intents.take_used(4), ElementsAre(1));
  EXPECT_THAT(intents.take_used(7), ElementsAre(2));
  EXPECT_THAT(intents.take_used(8), IsEmpty());
}

TEST(LeadTimeTest, IsLongEnoughForMostAndNotMuchLonger) {
  LeadTime lead;
  EXPECT_EQ(lead.clocks(), LeadTime::kFirst);
  for (int i = 0; i < 100; ++i) {
    lead.add_clock(0.001);
    lead.add_coming(i % 2 == 0 ? 0.002 : 0.004);
  }
  EXPECT_GE(lead.clocks(), 1 + 4);
  EXPECT_LE(lead.clocks(), 1 + 8);
  for (int i = 0; i < 100; ++i) lead.add_clock(1);
  EXPECT_EQ(lead.clocks(), 2) << "one for the row, one for asking in the middle of a clock";
  for (int i = 0; i < 200; ++i) lead.add_clock(0);
  EXPECT_GT(lead.clocks(), 1000) << "and must not overflow";
}

}  // namespace
}  // namespace verbena::worker
