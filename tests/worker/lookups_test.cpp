#include "worker/lookups.hpp"

#include <gtest/gtest.h>

namespace verbena::worker {
namespace {

TEST(LookupsTest, WhatIsHeardIsKnownWhenNoOlderLookupIsUnderWay) {
  Lookups lookups;
  EXPECT_FALSE(lookups.has_to_say());
  const Lookups::Ticket before = lookups.begin();
  const Lookups::Ticket beside = lookups.begin();
  lookups.hear(3);
  EXPECT_FALSE(lookups.has_to_say()) << "they may go by what they read before";
  EXPECT_FALSE(lookups.is_newest(before)) << "what it finds may be gone";
  const Lookups::Ticket after = lookups.begin();
  EXPECT_TRUE(lookups.is_newest(after));
  lookups.end(before);
  EXPECT_FALSE(lookups.has_to_say());
  lookups.end(beside);
  EXPECT_TRUE(lookups.has_to_say()) << "the last one knew it when it began";
  EXPECT_EQ(lookups.known_to_all(), 3);
  lookups.said(3);
  EXPECT_TRUE(lookups.has_said_all());
  lookups.hear(2);
  EXPECT_EQ(lookups.known_to_all(), 3);
  EXPECT_FALSE(lookups.has_said_all());
  lookups.end(after);
  EXPECT_EQ(lookups.known_to_all(), 5);
}

TEST(LookupsTest, LookupsEndInAnyOrder) {
  Lookups lookups;
  const Lookups::Ticket first = lookups.begin();
  lookups.hear(1);
  const Lookups::Ticket second = lookups.begin();
  lookups.hear(1);
  const Lookups::Ticket third = lookups.begin();
  lookups.end(second);
  EXPECT_EQ(lookups.known_to_all(), 0);
  lookups.end(first);
  EXPECT_EQ(lookups.known_to_all(), 2);
  lookups.end(third);
  EXPECT_EQ(lookups.known_to_all(), 2);
}

}  // namespace
}  // namespace verbena::worker
