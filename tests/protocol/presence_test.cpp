#include "protocol/presence.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace verbena::protocol {
namespace {

/// The presence words of three keys.
class PresenceTest : public ::testing::Test {
 protected:
  alignas(kCacheLineBytes) std::array<std::byte, 3 * sizeof(Presence)> words_{};
  PresenceMap map_{words_.data(), KeyRange{}};
};

TEST_F(PresenceTest, AWordIsItsParts) {
  EXPECT_EQ(Presence().bits(), 0U);
  EXPECT_FALSE(Presence().is_here());
  const Presence here = Presence::here(0x0102030405, 3);
  EXPECT_TRUE(here.is_here());
  EXPECT_EQ(here.intents(), 3U);
  EXPECT_EQ(here.since(), 0x030405U) << "its lower bits";
  EXPECT_FALSE(here.is_wanted());
  EXPECT_EQ(here.bits(), 0x03040507U) << "as docs/protocol.md says";
  EXPECT_EQ(here.wanted().bits(), 0x03040587U);
  EXPECT_EQ(here.wanted().without_intents(), Presence::here(0x0102030405, 0));
  EXPECT_EQ(here.with_intents(Presence::kMaxIntents).intents(), Presence::kMaxIntents);
}

TEST_F(PresenceTest, ZerosAreHowItIsAtFirst) {
  EXPECT_EQ(map_.load(1), Presence());
  const PresenceMap at_home(words_.data(), {1, 3});
  EXPECT_EQ(at_home.load(0), Presence());
  EXPECT_EQ(at_home.load(1), Presence::here(0, 0));
  EXPECT_EQ(at_home.begin_intent(2), std::optional<std::uint32_t>(0));
  EXPECT_EQ(at_home.load(2), Presence::here(0, 1));
  EXPECT_TRUE(at_home.want(2));
  EXPECT_TRUE(at_home.end_intent(2, 0));
  EXPECT_EQ(at_home.load(2), Presence::here(0, 0));
  at_home.store(2, Presence());
  EXPECT_EQ(at_home.load(2), Presence()) << "it has left";
  EXPECT_EQ(at_home.begin_intent(2), std::nullopt);
}

TEST_F(PresenceTest, TheWordsFollowTheSlots) {
  EXPECT_EQ(presence_offset(10, slot_bytes(8)) % kCacheLineBytes, 0U);
  EXPECT_GE(presence_offset(10, slot_bytes(8)), all_slots_bytes(10, slot_bytes(8)));
  EXPECT_EQ(slot_region_bytes(10, slot_bytes(8)), presence_offset(10, slot_bytes(8)) + 40);
}

TEST_F(PresenceTest, IntentsAreCountedWhereTheRowIsHere) {
  EXPECT_EQ(map_.begin_intent(1), std::nullopt);
  map_.store(1, Presence::here(5, 0));
  EXPECT_EQ(map_.begin_intent(1), 5U);
  EXPECT_EQ(map_.begin_intent(1), 5U);
  EXPECT_EQ(map_.load(1).intents(), 2U);
  EXPECT_EQ(map_.load(0), Presence()) << "another key";
  EXPECT_EQ(map_.load(2), Presence()) << "another key";
  EXPECT_FALSE(map_.end_intent(1, 4)) << "the intent was counted in an earlier stay of the row";
  EXPECT_EQ(map_.load(1).intents(), 2U);
  EXPECT_FALSE(map_.end_intent(1, 5));
  EXPECT_FALSE(map_.end_intent(1, 5));
  EXPECT_FALSE(map_.end_intent(1, 5)) << "none are left";
  EXPECT_EQ(map_.load(1), Presence::here(5, 0));
}

TEST_F(PresenceTest, NoMoreAreCountedThanThereIsRoomFor) {
  map_.store(1, Presence::here(5, Presence::kMaxIntents));
  EXPECT_EQ(map_.begin_intent(1), std::nullopt);
  EXPECT_EQ(map_.load(1), Presence::here(5, Presence::kMaxIntents));
}

TEST_F(PresenceTest, TheLastWhoIntendsFindsThatTheRowIsWanted) {
  map_.store(1, Presence::here(5, 0));
  EXPECT_FALSE(map_.want(1)) << "nobody intends to use the row: it may be taken";
  EXPECT_FALSE(map_.load(1).is_wanted());
  map_.store(1, Presence::here(5, 2));
  EXPECT_TRUE(map_.want(1));
  EXPECT_TRUE(map_.want(1)) << "a second worker may want it, too";
  EXPECT_FALSE(map_.end_intent(1, 5));
  EXPECT_TRUE(map_.end_intent(1, 5));
  EXPECT_EQ(map_.load(1), Presence::here(5, 0));
  EXPECT_EQ(map_.begin_intent(1), 5U);
  EXPECT_FALSE(map_.end_intent(1, 5)) << "the last intent has cleared the mark";
}

TEST_F(PresenceTest, ManyCountAtTheSameTime) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20'000;
  map_.store(1, Presence::here(5, 0));
  std::array<int, kThreads> released{};
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_EQ(map_.begin_intent(1), 5U);
        EXPECT_TRUE(map_.want(1)) << "one is counted";
        released[static_cast<std::size_t>(thread)] += map_.end_intent(1, 5) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(map_.load(1), Presence::here(5, 0));
  int all = 0;
  for (const int count : released) all += count;
  EXPECT_GE(all, 1) << "whoever was the last";
}

}  // namespace
}  // namespace verbena::protocol
