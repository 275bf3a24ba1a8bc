#include "worker/fixed/subscriptions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace verbena::worker {
namespace {

using protocol::Row;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Row kOne{1};
constexpr Row kTwo{2};

class SubscriptionsTest : public ::testing::Test {
 protected:
  void enter(Row row) {
    cached_.insert(row);
    subscriptions_.note(row);
  }
  void leave(Row row) {
    cached_.erase(row);
    live_.erase(row);
    subscriptions_.note(row);
  }
  /// Takes the changes and tells the server of them, in one message for each row.
  Subscriptions::Changes tell() {
    Subscriptions::Changes changes = subscriptions_.take([&](Row row) { return cached_.contains(row); },
                                                         [&](Row row) { return live_.contains(row); });
    for (const Row row : changes.end) subscriptions_.told(row, false, ++messages_);
    for (const Row row : changes.begin) subscriptions_.told(row, true, ++messages_);
    return changes;
  }

  Subscriptions subscriptions_;
  std::set<Row> cached_;
  std::set<Row> live_;
  std::uint64_t messages_ = 0;
};

TEST_F(SubscriptionsTest, IfNoRowMayLeaveEachIsToldAndEachPushCounts) {
  subscriptions_.start(10, /*may_leave=*/false);
  enter(kTwo);
  enter(kOne);
  EXPECT_THAT(tell().begin, ElementsAre(kTwo, kOne));
  EXPECT_THAT(tell().begin, IsEmpty());
  EXPECT_TRUE(subscriptions_.covers(kTwo, 0));
}

TEST_F(SubscriptionsTest, APushCountsOnceTheLaneHasHeardOfTheLatestSubscription) {
  subscriptions_.start(10, /*may_leave=*/true);
  EXPECT_FALSE(subscriptions_.covers(kOne, 0)) << "nobody has subscribed";
  enter(kOne);
  EXPECT_THAT(tell().begin, ElementsAre(kOne));
  EXPECT_FALSE(subscriptions_.covers(kOne, messages_ - 1));
  EXPECT_TRUE(subscriptions_.covers(kOne, messages_));
  leave(kOne);
  EXPECT_THAT(tell().end, ElementsAre(kOne));
  EXPECT_FALSE(subscriptions_.covers(kOne, messages_));
  // The row comes back: what the lane pushed for the old subscription does not count.
  enter(kOne);
  static_cast<void>(tell());
  EXPECT_FALSE(subscriptions_.covers(kOne, messages_ - 1));
  EXPECT_TRUE(subscriptions_.covers(kOne, messages_));
}

TEST_F(SubscriptionsTest, WhatCameAndWentIsNotTold) {
  subscriptions_.start(10, /*may_leave=*/true);
  for (int i = 0; i < 100; ++i) {
    enter(kOne);
    leave(kOne);
  }
  const Subscriptions::Changes changes = tell();
  EXPECT_THAT(changes.begin, IsEmpty());
  EXPECT_THAT(changes.end, IsEmpty());
  enter(kTwo);
  EXPECT_THAT(tell().begin, ElementsAre(kTwo));
  // The row leaves and comes back, and eager pushes have kept it fresh: the server need not be told.
  leave(kTwo);
  enter(kTwo);
  live_.insert(kTwo);
  const Subscriptions::Changes again = tell();
  EXPECT_THAT(again.begin, IsEmpty());
  EXPECT_THAT(again.end, IsEmpty());
}

}  // namespace
}  // namespace verbena::worker
