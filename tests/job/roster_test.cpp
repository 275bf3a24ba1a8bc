#include "job/roster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace verbena::job {
namespace {

Roster without(Roster roster, const std::vector<std::uint32_t>& ranks) {
  for (const std::uint32_t rank : ranks) roster.places[rank].is_taken = false;
  return roster;
}

TEST(RosterTest, KnowsWhoIsOnIt) {
  Roster roster = without(Roster::of_beginning(4), {2});
  EXPECT_EQ(roster.count(), 3U);
  EXPECT_TRUE(roster.has(1, 0));
  EXPECT_FALSE(roster.has(1, 1)) << "another process of that rank";
  EXPECT_FALSE(roster.has(2, 0));
  EXPECT_FALSE(roster.has(4, 0));
}

TEST(RosterTest, ThatOfALaterRankZeroIsNewer) {
  Roster roster = Roster::of_beginning(3);
  Roster next = roster;
  next.number = 7;
  EXPECT_TRUE(next.is_newer_than(roster));
  roster.places[0].incarnation = 1;
  EXPECT_TRUE(roster.is_newer_than(next));
  EXPECT_FALSE(next.is_newer_than(roster));
  EXPECT_TRUE(next.is_newer_than(Roster{}));
  EXPECT_FALSE(Roster{}.is_newer_than(next));
}

TEST(RosterTest, GoesThroughJson) {
  Roster roster = without(Roster::of_beginning(3), {1});
  roster.number = 5;
  roster.places[1].incarnation = 3;
  EXPECT_EQ(roster_in(json_of(roster)), roster);
  for (const char* const text :
       {"3", "[]", "{}", R"({"number": 1})", R"({"number": -1, "places": []})",
        R"({"number": 1, "places": [[1]]})", R"({"number": 1, "places": [["x", 1]]})",
        R"({"number": 1, "places": [[4294967296, 1]]})", R"({"number": 1, "places": {}})"})
    EXPECT_FALSE(roster_in(nlohmann::json::parse(text))) << text;
}

TEST(RosterKeeperTest, TellsTheNextOneWhenHalfKnowTheLast) {
  const Roster all = Roster::of_beginning(6);
  RosterKeeper keeper(all);
  EXPECT_FALSE(keeper.next(all.places));
  const auto second = keeper.next(without(all, {5}).places);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->number, 1U);
  EXPECT_FALSE(keeper.is_settled());
  EXPECT_FALSE(keeper.next(without(all, {4, 5}).places)) << "not before";
  keeper.hear(1, 1);
  keeper.hear(1, 1);
  keeper.hear(2, 0);
  keeper.hear(5, 1);
  EXPECT_FALSE(keeper.is_settled()) << "with rank 0 there are two";
  keeper.hear(2, 1);
  EXPECT_TRUE(keeper.is_settled());
  const auto third = keeper.next(without(all, {4, 5}).places);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->number, 2U);
}

TEST(RosterKeeperTest, OthersThatHaveComeDoNotCountBeforeTheyAreSettled) {
  const Roster all = Roster::of_beginning(4);
  RosterKeeper keeper(all);
  std::vector<Roster::Place> others = all.places;
  for (const std::uint32_t rank : {1U, 2U, 3U}) others[rank].incarnation = 1;
  ASSERT_TRUE(keeper.next(others));
  for (const std::uint32_t rank : {1U, 2U, 3U}) keeper.hear(rank, 1);
  EXPECT_FALSE(keeper.is_settled());
}

/// A process of a job, which may be one that its rank 0 goes on without.
struct Process {
  std::uint32_t rank = 0;
  std::uint32_t incarnation = 0;
  Roster known;  ///< the newest roster that it knows
};

/// Whatever a rank 0 has told, and whoever has heard it: of those who leave it for another one either there
/// are too few for that one, or what is left is too little to go on with.
TEST(RosterKeeperTest, NeverDoTwoLead) {
  std::uint32_t led = 0;
  std::uint32_t went_on = 0;
  std::uint32_t was_backed = 0;
  for (std::uint32_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t limit) { return static_cast<std::uint32_t>(random() % limit); };
    const std::uint32_t size = 3 + below(5);
    Roster wanted = Roster::of_beginning(size);
    RosterKeeper keeper(wanted);
    std::vector<Process> processes;
    for (std::uint32_t rank = 1; rank < size; ++rank)
      processes.push_back({.rank = rank, .incarnation = 0, .known = wanted});
    const auto tell_to = [&](Process& process) {
      if (!keeper.told().has(process.rank, process.incarnation)) return;
      process.known = keeper.told();
      keeper.hear(process.rank, keeper.told().number);
    };
    for (std::uint32_t step = 0; step < 8; ++step) {
      Roster::Place& place = wanted.places[1 + below(size - 1)];
      if (place.is_taken) {
        place.is_taken = false;
      } else {
        place = {.incarnation = place.incarnation + 1, .is_taken = true};
        processes.push_back({.rank = static_cast<std::uint32_t>(&place - wanted.places.data()),
                             .incarnation = place.incarnation,
                             .known = {}});
      }
      static_cast<void>(keeper.next(wanted.places));
      for (Process& process : processes) {
        if (below(3) != 0) tell_to(process);
      }
    }
    // Some leave it, also of those that it goes on without.
    std::vector<Process> others;
    std::vector<Process> left;
    for (const Process& process : processes) (below(2) == 0 ? others : left).push_back(process);
    Roster newest;
    for (const Process& process : others) {
      if (process.known.is_newer_than(newest)) newest = process.known;
    }
    const auto come = static_cast<std::size_t>(std::ranges::count_if(
        others, [&](const Process& process) { return newest.has(process.rank, process.incarnation); }));
    const bool another_leads = 2 * come > newest.count();
    // If it was stopped meanwhile, it asks who follows it, whatever they know.
    std::vector<Roster::Place> followers(size);
    followers[0].is_taken = true;
    for (const Process& process : left)
      followers[process.rank] = {.incarnation = process.incarnation, .is_taken = true};
    const bool is_backed = keeper.is_backed_by(followers);
    ASSERT_FALSE(another_leads && is_backed) << "seed " << seed;
    was_backed += is_backed ? 1U : 0U;
    // The first one finds that they are gone, and all that are left hear what it says.
    for (const Process& process : others) {
      if (wanted.has(process.rank, process.incarnation)) wanted.places[process.rank].is_taken = false;
    }
    for (std::uint32_t attempt = 0; attempt < 4; ++attempt) {
      for (Process& process : left) tell_to(process);
      static_cast<void>(keeper.next(wanted.places));
    }
    const bool goes_on = keeper.is_settled() && keeper.told().places == wanted.places;
    ASSERT_FALSE(another_leads && goes_on) << "seed " << seed;
    led += another_leads ? 1U : 0U;
    went_on += goes_on ? 1U : 0U;
  }
  EXPECT_GT(led, 1000U);
  EXPECT_GT(went_on, 1000U);
  EXPECT_GT(was_backed, 1000U);
}

}  // namespace
}  // namespace verbena::job
