#include "worker/fixed/pull_ways.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

namespace verbena::worker {
namespace {

using std::chrono::nanoseconds;
using Way = PullWays::Way;

constexpr std::size_t kPulledKeys = 100;

/// Pulls, one after the other, of which each way always takes the same time.
struct Pulls {
  Way pull(std::size_t keys = kPulledKeys, nanoseconds delay = {}) {
    const PullWays::Trip trip = ways.begin(keys, now);
    now += (trip.way == Way::kReads ? reads : gather) + delay;
    changed = ways.ended(trip, now);
    return trip.way;
  }
  /// Of so many pulls, how many are gathered.
  int gathered(int pulls, std::size_t keys = kPulledKeys) {
    int count = 0;
    for (int i = 0; i < pulls; ++i) count += pull(keys) == Way::kGather ? 1 : 0;
    return count;
  }

  PullWays ways;
  nanoseconds reads;
  nanoseconds gather;
  transport::TimePoint now = {};
  bool changed = false;
};

constexpr int kOfATrial = 2 * static_cast<int>(PullWays::kTries);

TEST(PullWaysTest, TheFasterWayIsTakenOnceBothWereTried) {
  for (const Way usual : {Way::kReads, Way::kGather}) {
    for (const auto& [reads, gather] : {std::pair(1000, 5000), std::pair(5000, 1000)}) {
      Pulls pulls{.ways = PullWays(usual), .reads = nanoseconds(reads), .gather = nanoseconds(gather)};
      EXPECT_EQ(pulls.pull(), usual);
      EXPECT_EQ(pulls.gathered(kOfATrial - 1),
                static_cast<int>(PullWays::kTries) - (usual == Way::kGather ? 1 : 0));
      const Way faster = reads < gather ? Way::kReads : Way::kGather;
      EXPECT_EQ(pulls.changed, usual != faster);
      EXPECT_EQ(pulls.gathered(100), faster == Way::kGather ? 100 : 0);
    }
  }
}

TEST(PullWaysTest, ALittleFasterIsNotEnough) {
  Pulls pulls{.ways = PullWays(Way::kGather), .reads = nanoseconds(900), .gather = nanoseconds(1000)};
  pulls.gathered(kOfATrial);
  EXPECT_EQ(pulls.gathered(100), 100);
}

TEST(PullWaysTest, WhatAlsoWaitedForSomethingElseDoesNotCount) {
  Pulls pulls{.ways = PullWays(Way::kReads), .reads = nanoseconds(1000), .gather = nanoseconds(5000)};
  for (int i = 0; i < kOfATrial; ++i)
    pulls.pull(kPulledKeys, pulls.ways.chosen(kPulledKeys) == Way::kReads && i < kOfATrial - 2
                                ? nanoseconds(100'000)
                                : nanoseconds(0));
  EXPECT_EQ(pulls.gathered(100), 0);
}

TEST(PullWaysTest, PullsOfOtherSizesAreTriedByThemselves) {
  Pulls pulls{.ways = PullWays(Way::kReads), .reads = nanoseconds(5000), .gather = nanoseconds(1000)};
  pulls.gathered(kOfATrial);
  EXPECT_EQ(pulls.ways.chosen(kPulledKeys), Way::kGather);
  EXPECT_EQ(pulls.ways.chosen(10 * kPulledKeys), Way::kReads);
  pulls.gather = nanoseconds(50'000);
  pulls.gathered(kOfATrial, 10 * kPulledKeys);
  EXPECT_EQ(pulls.gathered(100, 10 * kPulledKeys), 0);
  EXPECT_EQ(pulls.gathered(100), 100);
}

TEST(PullWaysTest, BothAreTriedAgainEverMoreRarely) {
  Pulls pulls{.ways = PullWays(Way::kReads), .reads = nanoseconds(5000), .gather = nanoseconds(1000)};
  pulls.gathered(kOfATrial);
  std::swap(pulls.reads, pulls.gather);  // the server is busy now
  EXPECT_EQ(pulls.gathered(PullWays::kFirstPause), static_cast<int>(PullWays::kFirstPause));
  pulls.gathered(kOfATrial);
  EXPECT_EQ(pulls.gathered(2 * PullWays::kFirstPause), 0);
  EXPECT_EQ(pulls.gathered(kOfATrial), static_cast<int>(PullWays::kTries));
  EXPECT_EQ(pulls.gathered(4 * PullWays::kFirstPause), 0);
}

TEST(PullWaysTest, PullsThatNeverEndAreTriedAgain) {
  PullWays ways(Way::kReads);
  transport::TimePoint now = {};
  // The server that gathers is lost.
  for (int i = 0; i < 2 * static_cast<int>(PullWays::kMostInTrial); ++i) {
    const PullWays::Trip trip = ways.begin(kPulledKeys, now);
    now += nanoseconds(5000);
    if (trip.way == Way::kReads) {
      EXPECT_FALSE(ways.ended(trip, now));
    }
  }
  // It is back.
  for (int i = 0; i < 2 * static_cast<int>(PullWays::kMostInTrial); ++i) {
    const PullWays::Trip trip = ways.begin(kPulledKeys, now);
    now += nanoseconds(trip.way == Way::kReads ? 5000 : 1000);
    ways.ended(trip, now);
  }
  EXPECT_EQ(ways.chosen(kPulledKeys), Way::kGather);
}

TEST(PullWaysTest, ManyPullsAtOnce) {
  PullWays ways(Way::kReads);
  transport::TimePoint now = {};
  std::vector<PullWays::Trip> trips;
  for (int i = 0; i < 50; ++i) trips.push_back(ways.begin(kPulledKeys, now));
  for (const PullWays::Trip& trip : trips) {
    now += nanoseconds(10);
    ways.ended(trip, now + nanoseconds(trip.way == Way::kReads ? 50'000 : 1000));
  }
  EXPECT_EQ(ways.chosen(kPulledKeys), Way::kGather);
}

}  // namespace
}  // namespace verbena::worker
