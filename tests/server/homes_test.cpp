#include "server/homes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace verbena::server {
namespace {

using protocol::KeyAnswers;

constexpr std::uint32_t kHome = 2;

Homes make() {
  auto homes = Homes::create({100, 110}, kHome);
  EXPECT_TRUE(homes.ok());
  return std::move(*homes);
}

struct Said {
  std::uint32_t worker;
  KeyAnswers::Kind kind;
  std::uint32_t node;
  std::uint64_t epoch;
  friend bool operator==(const Said&, const Said&) = default;
};
void PrintTo(const Said& said, std::ostream* out) {
  *out << "worker " << said.worker << ": kind " << static_cast<int>(said.kind) << ", node " << said.node
       << ", epoch " << said.epoch;
}
std::vector<Said> take(Homes::Answers& answers) {
  std::vector<Said> said;
  for (const Homes::Answer& each : std::exchange(answers, {}))
    said.push_back({each.worker, each.answer.kind, each.answer.node, each.answer.epoch});
  return said;
}
constexpr auto kOwned = KeyAnswers::Kind::kOwned;
constexpr auto kHere = KeyAnswers::Kind::kHere;
constexpr auto kTake = KeyAnswers::Kind::kTake;
constexpr auto kShared = KeyAnswers::Kind::kShared;
constexpr auto kAlone = KeyAnswers::Kind::kAlone;
constexpr auto kLost = KeyAnswers::Kind::kLost;

TEST(HomesTest, AKeyIsAtHomeUntilItMoves) {
  Homes homes = make();
  Homes::Answers answers;
  homes.locate(100, 7, answers);
  homes.localize(109, {.rank = 3, .node = kHome}, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{7, kOwned, kHome, 0}, {3, kHere, kHome, 0}}));
  EXPECT_EQ(homes.moving(), 0U);
}

TEST(HomesTest, WhatWasFoundIsWhereItWasFound) {
  Homes homes = make();
  Homes::Answers answers;
  homes.found(104, /*node=*/1, /*epoch=*/6);
  homes.found(104, /*node=*/0, /*epoch=*/5);
  homes.locate(104, 7, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{7, kOwned, 1, 6}}));
  homes.localize(104, {.rank = 3, .node = 0}, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kTake, 1, 6}}));
  EXPECT_TRUE(homes.arrived(104, 3, 7, answers).ok());
}

TEST(HomesTest, AMoveIsOneWorkersUntilItHasArrived) {
  Homes homes = make();
  Homes::Answers answers;
  homes.localize(105, {.rank = 3, .node = 0}, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kTake, kHome, 0}}));
  homes.locate(105, 7, answers);
  homes.locate(104, 7, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{7, kOwned, kHome, 0}})) << "another key";
  EXPECT_FALSE(homes.arrived(105, 4, 1, answers).ok()) << "another worker";
  EXPECT_FALSE(homes.arrived(105, 3, 2, answers).ok()) << "another epoch";
  EXPECT_FALSE(homes.arrived(104, 3, 1, answers).ok()) << "another key";
  EXPECT_TRUE(answers.empty());
  EXPECT_TRUE(homes.arrived(105, 3, 1, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{7, kOwned, 0, 1}}));
  EXPECT_FALSE(homes.arrived(105, 3, 2, answers).ok()) << "it has arrived already";
  EXPECT_EQ(homes.moving(), 0U);
}

TEST(HomesTest, WhoeverComesDuringAMoveIsAnsweredInOrder) {
  Homes homes = make();
  Homes::Answers answers;
  homes.localize(105, {.rank = 0, .node = 0}, answers);
  homes.locate(105, 1, answers);
  homes.localize(105, {.rank = 2, .node = 0}, answers);  // on the same node
  homes.localize(105, {.rank = 3, .node = 1}, answers);  // the second move
  homes.locate(105, 4, answers);
  homes.localize(105, {.rank = 5, .node = kHome}, answers);  // the third
  homes.locate(105, 6, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{0, kTake, kHome, 0}}));
  EXPECT_TRUE(homes.arrived(105, 0, 1, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{1, kOwned, 0, 1}, {2, kHere, 0, 1}, {3, kTake, 0, 1}}));
  homes.locate(105, 7, answers);
  EXPECT_TRUE(answers.empty());
  EXPECT_TRUE(homes.arrived(105, 3, 2, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{4, kOwned, 1, 2}, {5, kTake, 1, 2}}));
  EXPECT_TRUE(homes.arrived(105, 5, 3, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{6, kOwned, kHome, 3}, {7, kOwned, kHome, 3}}));
}

TEST(HomesTest, ARowGoesToTheOnlyNodeThatIntendsToUseIt) {
  Homes homes = make();
  Homes::Answers answers;
  homes.intend(105, {.rank = 0, .node = 0}, answers);
  homes.intend(106, {.rank = 1, .node = kHome}, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{0, kTake, kHome, 0}, {1, kHere, kHome, 0}}));
  homes.intend(105, {.rank = 2, .node = 0}, answers);  // on the same node, in line
  homes.intend(105, {.rank = 3, .node = 1}, answers);  // on another node, later
  homes.intend(106, {.rank = 3, .node = 1}, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kShared, kHome, 0}}));
  EXPECT_TRUE(homes.arrived(105, 0, 1, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{2, kHere, 0, 1}, {3, kShared, 0, 1}}));
  EXPECT_EQ(homes.intended(), 2U);
}

TEST(HomesTest, WhoIsLeftAloneIsToldOnce) {
  Homes homes = make();
  Homes::Answers answers;
  homes.intend(105, {.rank = 0, .node = 0}, answers);
  EXPECT_TRUE(homes.arrived(105, 0, 1, answers).ok());
  homes.intend(105, {.rank = 3, .node = 1}, answers);
  homes.intend(105, {.rank = 4, .node = 1}, answers);
  take(answers);
  EXPECT_TRUE(homes.end_intent(105, 0, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kAlone, 0, 1}}));
  EXPECT_FALSE(homes.end_intent(105, 0, answers).ok()) << "it has ended already";
  EXPECT_FALSE(homes.end_intent(106, 3, answers).ok()) << "another key";
  // The first worker ends its intent instead of taking the row: the next one of the node is told.
  EXPECT_TRUE(homes.end_intent(105, 3, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{4, kAlone, 0, 1}}));
  homes.intend(105, {.rank = 4, .node = 1}, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{4, kTake, 0, 1}}));
  homes.intend(105, {.rank = 0, .node = 0}, answers);
  EXPECT_TRUE(homes.arrived(105, 4, 2, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{0, kShared, 1, 2}}));
}

/// Intents of workers of the node where the row is are counted there: the home does not know them.
TEST(HomesTest, ARowThatIsKeptStaysUntilItIsReleased) {
  Homes homes = make();
  Homes::Answers answers;
  homes.intend(105, {.rank = 0, .node = 0}, answers);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_TRUE(answers[0].yields);
  EXPECT_FALSE(homes.settled(105, 3, 1, answers).ok()) << "another worker";
  take(answers);
  EXPECT_TRUE(homes.settled(105, 0, 1, answers).ok());
  EXPECT_EQ(homes.intended(), 0U);
  homes.intend(105, {.rank = 3, .node = 1}, answers);
  homes.locate(105, 4, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kTake, 0, 1}}));
  EXPECT_FALSE(homes.kept(105, 4, 1, answers).ok()) << "another worker";
  EXPECT_FALSE(homes.kept(105, 3, 2, answers).ok()) << "another epoch";
  EXPECT_TRUE(homes.kept(105, 3, 1, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{4, kOwned, 0, 1}}))
      << "and nobody is told that its node is alone";
  homes.intend(105, {.rank = 4, .node = kHome}, answers);
  EXPECT_TRUE(homes.end_intent(105, 4, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{4, kShared, 0, 1}}));
  homes.released(105, 1, answers);
  EXPECT_TRUE(answers.empty()) << "another node";
  homes.released(105, 0, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kAlone, 0, 1}}));
  homes.localize(105, {.rank = 4, .node = kHome}, answers);
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_FALSE(answers[0].yields) << "a localize takes what it wants";
}

TEST(HomesTest, AReleaseMayOvertakeThatTheRowWasKept) {
  Homes homes = make();
  Homes::Answers answers;
  homes.intend(105, {.rank = 3, .node = 1}, answers);
  homes.released(105, kHome, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kTake, kHome, 0}}));
  EXPECT_TRUE(homes.kept(105, 3, 0, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kAlone, kHome, 0}}));
}

/// Workers in line move the row next. They learn from the node where the row is that it is kept.
TEST(HomesTest, WhoIsInLineMovesARowThatHasSettled) {
  Homes homes = make();
  Homes::Answers answers;
  homes.intend(105, {.rank = 0, .node = 0}, answers);
  homes.intend(105, {.rank = 3, .node = 1}, answers);
  take(answers);
  EXPECT_TRUE(homes.settled(105, 0, 1, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kTake, 0, 1}}));
}

/// The row is kept no longer: a localize has moved it, or the worker that kept it has died.
TEST(HomesTest, WhoFoundARowKeptIsToldWhenItIsElsewhereOrItsKeeperDead) {
  Homes homes = make();
  Homes::Answers answers;
  homes.intend(105, {.rank = 3, .node = 1}, answers);
  EXPECT_TRUE(homes.kept(105, 3, 0, answers).ok());
  homes.localize(105, {.rank = 0, .node = 0}, answers);
  take(answers);
  EXPECT_TRUE(homes.arrived(105, 0, 1, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kAlone, 0, 1}}));
  homes.intend(105, {.rank = 3, .node = 1}, answers);
  EXPECT_TRUE(homes.kept(105, 3, 1, answers).ok());
  take(answers);
  homes.lose({.rank = 4, .node = kHome}, answers);
  EXPECT_TRUE(answers.empty());
  homes.lose({.rank = 0, .node = 0}, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kAlone, 0, 1}}));
}

TEST(HomesTest, WhoWasLeftAloneDuringAMoveIsToldAfterIt) {
  Homes homes = make();
  Homes::Answers answers;
  homes.intend(105, {.rank = 3, .node = 1}, answers);
  EXPECT_TRUE(homes.arrived(105, 3, 1, answers).ok());
  homes.intend(105, {.rank = 4, .node = kHome}, answers);
  homes.localize(105, {.rank = 0, .node = 0}, answers);
  take(answers);
  homes.leave(3, answers);
  EXPECT_TRUE(answers.empty());
  EXPECT_TRUE(homes.arrived(105, 0, 2, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{4, kAlone, 0, 2}}));
  homes.leave(4, answers);
  homes.leave(4, answers);
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(homes.intended(), 0U);
}

TEST(HomesTest, WhatADeadWorkerWasMovingIsLookedForByTheNext) {
  Homes homes = make();
  Homes::Answers answers;
  homes.localize(105, {.rank = 0, .node = 0}, answers);
  homes.locate(105, 1, answers);
  homes.localize(105, {.rank = 3, .node = 1}, answers);
  homes.locate(105, 4, answers);
  take(answers);
  homes.lose({.rank = 0, .node = 0}, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{1, kOwned, kHome, 0}, {3, kTake, kHome, 0}}))
      << "the old owner may have it";
  EXPECT_FALSE(homes.missing(105, {.rank = 3, .node = 1}, 1, answers).ok()) << "another epoch";
  EXPECT_TRUE(homes.missing(105, {.rank = 3, .node = 1}, 0, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kTake, 0, 1}})) << "the dead worker's node";
  EXPECT_TRUE(homes.arrived(105, 3, 2, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{4, kOwned, 1, 2}}));
  homes.localize(105, {.rank = 5, .node = 1}, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{5, kHere, 1, 2}})) << "no doubt is left";
  EXPECT_EQ(homes.moving(), 0U);
}

TEST(HomesTest, ARowInDoubtIsNowhereUntilItIsMoved) {
  Homes homes = make();
  Homes::Answers answers;
  homes.localize(105, {.rank = 0, .node = 0}, answers);
  homes.lose({.rank = 0, .node = 0}, answers);
  EXPECT_EQ(homes.moving(), 0U);
  take(answers);
  homes.locate(105, 4, answers);
  homes.intend(105, {.rank = 2, .node = kHome}, answers);
  EXPECT_EQ(take(answers), (std::vector<Said>{{4, kOwned, kHome, 0}, {2, kTake, kHome, 0}}));
  // A worker that looks for the row may die, too: then it may have brought the row to its own node.
  homes.lose({.rank = 2, .node = kHome}, answers);
  homes.localize(105, {.rank = 3, .node = 1}, answers);
  for (const Said& place : {Said{3, kTake, kHome, 0}, Said{3, kTake, 0, 1}, Said{3, kTake, kHome, 1}}) {
    EXPECT_EQ(take(answers), std::vector<Said>{place});
    EXPECT_TRUE(homes.missing(105, {.rank = 3, .node = 1}, place.epoch, answers).ok());
  }
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kLost, kHome, 1}}));
}

TEST(HomesTest, EverybodyIsToldOfALostRow) {
  Homes homes = make();
  Homes::Answers answers;
  homes.localize(105, {.rank = 0, .node = 0}, answers);
  homes.lose({.rank = 0, .node = 0}, answers);
  homes.localize(105, {.rank = 3, .node = 1}, answers);
  homes.locate(105, 4, answers);
  homes.localize(105, {.rank = 5, .node = kHome}, answers);
  EXPECT_TRUE(homes.missing(105, {.rank = 3, .node = 1}, 0, answers).ok());
  take(answers);
  EXPECT_TRUE(homes.missing(105, {.rank = 3, .node = 1}, 1, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{3, kLost, 0, 1}, {4, kLost, 0, 1}, {5, kLost, 0, 1}}));
  EXPECT_EQ(homes.moving(), 0U);
  homes.locate(105, 4, answers);
  homes.localize(105, {.rank = 5, .node = 0}, answers);
  homes.intend(105, {.rank = 5, .node = 0}, answers);
  EXPECT_TRUE(homes.missing(105, {.rank = 5, .node = 0}, 1, answers).ok());
  homes.locate(104, 4, answers);
  EXPECT_EQ(
      take(answers),
      (std::vector<Said>{
          {4, kLost, 0, 1}, {5, kLost, 0, 1}, {5, kLost, 0, 1}, {5, kLost, 0, 1}, {4, kOwned, kHome, 0}}));
}

TEST(HomesTest, WhoMissesARowOfItsOwnNodeIsBelievedOnlyWhereNothingHasMoved) {
  Homes homes = make();
  Homes::Answers answers;
  EXPECT_TRUE(homes.missing(105, {.rank = 0, .node = 0}, 0, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{0, kTake, kHome, 0}}))
      << "it was not told that it is on node 0";
  EXPECT_TRUE(homes.missing(105, {.rank = 2, .node = kHome}, 0, answers).ok());
  EXPECT_TRUE(answers.empty()) << "it is on its way";
  EXPECT_TRUE(homes.arrived(105, 0, 1, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{2, kTake, 0, 1}}));
  EXPECT_TRUE(homes.arrived(105, 2, 2, answers).ok());
  EXPECT_TRUE(homes.missing(105, {.rank = 4, .node = kHome}, 2, answers).ok());
  EXPECT_EQ(take(answers), (std::vector<Said>{{4, kLost, kHome, 2}})) << "the home knows nothing newer";
}

TEST(HomesTest, TheDeadWaitInNoLine) {
  Homes homes = make();
  Homes::Answers answers;
  homes.intend(105, {.rank = 0, .node = 0}, answers);
  homes.localize(105, {.rank = 3, .node = 1}, answers);
  homes.locate(105, 3, answers);
  homes.intend(105, {.rank = 3, .node = 1}, answers);
  homes.intend(106, {.rank = 3, .node = 1}, answers);
  take(answers);
  homes.lose({.rank = 3, .node = 1}, answers);
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(homes.intended(), 1U);
  EXPECT_TRUE(homes.arrived(105, 0, 1, answers).ok());
  EXPECT_TRUE(answers.empty());
  EXPECT_EQ(homes.moving(), 0U);
}

TEST(HomesTest, NobodyIsForgottenAndOneMovesAtATime) {
  constexpr std::uint32_t kWorkers = 6;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); };
    Homes homes = make();
    std::map<Key, std::pair<std::uint32_t, std::uint64_t>> movers;  // worker, and the epoch of its arrival
    std::vector<std::map<Key, int>> open(kWorkers);                 // questions without an answer
    std::vector<std::map<Key, int>> intends(kWorkers);
    Homes::Answers answers;
    const auto hear = [&] {
      for (const Homes::Answer& each : std::exchange(answers, {})) {
        const Key key = each.answer.key;
        if (each.answer.kind == kAlone) {
          ASSERT_TRUE(intends[each.worker].contains(key));
          ASSERT_NE(each.answer.node, each.worker % 3);
          continue;
        }
        ASSERT_GT(open[each.worker][key]--, 0) << "an answer too many";
        if (each.answer.kind != kTake) continue;
        ASSERT_FALSE(movers.contains(key)) << "two movers";
        ASSERT_NE(each.answer.node, each.worker % 3) << "a move to where it is";
        movers[key] = {each.worker, each.answer.epoch + 1};
      }
    };
    for (int step = 0; step < 500; ++step) {
      const Key key = 100 + below(3);
      const std::uint32_t worker = below(kWorkers);
      if (below(10) == 0) homes.released(key, below(3), answers);
      ASSERT_NO_FATAL_FAILURE(hear());
      if (const auto move = movers.find(key); move != movers.end() && below(3) == 0) {
        const auto [mover, epoch] = move->second;
        movers.erase(move);
        if (below(3) == 0) {
          ASSERT_TRUE(homes.kept(key, mover, epoch - 1, answers).ok());
        } else if (intends[mover].erase(key) > 0) {
          ASSERT_TRUE(homes.settled(key, mover, epoch, answers).ok());
        } else {
          ASSERT_TRUE(homes.arrived(key, mover, epoch, answers).ok());
        }
      } else if (intends[worker].contains(key) && below(2) == 0) {
        intends[worker].erase(key);
        ASSERT_TRUE(homes.end_intent(key, worker, answers).ok());
      } else if (++open[worker][key]; below(3) == 0) {
        homes.locate(key, worker, answers);
      } else if (below(2) == 0) {
        ++intends[worker][key];
        homes.intend(key, {.rank = worker, .node = worker % 3}, answers);
      } else {
        homes.localize(key, {.rank = worker, .node = worker % 3}, answers);
      }
      ASSERT_NO_FATAL_FAILURE(hear());
    }
    while (!movers.empty()) {
      const auto [key, mover] = *movers.begin();
      movers.erase(movers.begin());
      ASSERT_TRUE(homes.arrived(key, mover.first, mover.second, answers).ok());
      ASSERT_NO_FATAL_FAILURE(hear());
    }
    for (const auto& worker : open) {
      for (const auto& [key, count] : worker) EXPECT_EQ(count, 0) << "key " << key;
    }
    EXPECT_EQ(homes.moving(), 0U);
    for (std::uint32_t worker = 0; worker < kWorkers; ++worker) homes.leave(worker, answers);
    EXPECT_EQ(homes.intended(), 0U);
  }
}

/// Compares them with lists, which hold the same in a simpler way.
TEST(KeyIntentsTest, AreWhatListsWouldHold) {
  struct Intent {
    Worker worker;
    bool told = false;
  };
  constexpr std::uint32_t kWorkers = 5;
  constexpr KeyRange kKeys = {100, 103};
  std::map<Key, std::vector<Intent>> lists;
  KeyIntents intents(kKeys);
  std::mt19937 random(7);
  int told_of_lone = 0;
  int told_of_several = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Key key = kKeys.first + random() % kKeys.size();
    const auto rank = static_cast<std::uint32_t>(random() % kWorkers);
    const auto node = static_cast<std::uint32_t>(random() % 3);
    std::vector<Intent>& list = lists[key];
    const auto own =
        std::find_if(list.begin(), list.end(), [&](const Intent& one) { return one.worker.rank == rank; });
    const auto others_than = [&](std::uint32_t one_node) {
      return std::any_of(list.begin(), list.end(),
                         [&](const Intent& one) { return one.worker.node != one_node; });
    };
    switch (random() % 8) {
      case 0:
        intents.add(key, {rank, rank % 3});
        if (own == list.end()) {
          list.push_back({{rank, rank % 3}});
        } else {
          own->told = false;
        }
        break;
      case 1:
      case 2:
        EXPECT_EQ(intents.remove(key, rank), own != list.end());
        if (own != list.end()) list.erase(own);
        break;
      case 3:
        intents.mark_told(key, rank);
        if (own != list.end()) own->told = true;
        break;
      case 4:
        intents.forget_told(key);
        for (Intent& one : list) one.told = false;
        break;
      default: {
        const auto next = std::find_if(list.begin(), list.end(), [](const Intent& one) { return !one.told; });
        const bool tells =
            next != list.end() && list.front().worker.node != node && !others_than(list.front().worker.node);
        const std::optional<std::uint32_t> told = intents.tell_alone(key, node);
        ASSERT_EQ(told.has_value(), tells);
        if (!tells) break;
        EXPECT_EQ(*told, next->worker.rank);
        next->told = true;
        ++(list.size() == 1 ? told_of_lone : told_of_several);
      }
    }
    EXPECT_EQ(intents.has_any(key), !list.empty());
    EXPECT_EQ(intents.others_than(key, node), others_than(node));
    std::vector<Key> keys;
    std::size_t count = 0;
    for (const auto& [one_key, one_list] : lists) {
      count += one_list.empty() ? 0U : 1U;
      for (const Intent& one : one_list) {
        if (one.worker.rank == rank) keys.push_back(one_key);
      }
    }
    ASSERT_EQ(intents.keys_of(rank), keys);
    ASSERT_EQ(intents.keys().size(), count);
    ASSERT_EQ(intents.size(), count);
  }
  EXPECT_GT(told_of_lone, 100);
  EXPECT_GT(told_of_several, 100);
}

}  // namespace
}  // namespace verbena::server
