#include "server/inherited_keys.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace verbena::server {
namespace {

using protocol::KeyAnswers;
using protocol::KeyRequests;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kDead = 1;

class InheritedKeysTest : public ::testing::Test {
 protected:
  InheritedKeysTest() : keys_(*InheritedKeys::create({10, 20}, kDead)) {}
  void ask(std::uint32_t worker, Key key, KeyRequests::Kind kind = KeyRequests::Kind::kLocate) {
    keys_.wait({.worker = {.rank = worker, .node = 0}, .kind = kind, .row = {.key = key}});
  }
  bool find(std::uint32_t worker, Key key, std::uint32_t node, std::uint64_t epoch) {
    return keys_.found(worker, {.key = key, .kind = KeyAnswers::Kind::kHas, .node = node, .epoch = epoch})
        .ok();
  }
  /// Where its home says the row is.
  std::pair<std::uint32_t, std::uint64_t> place(Key key) {
    Homes::Answers answers;
    keys_.homes().locate(key, 7, answers);
    return {answers.at(0).answer.node, answers.at(0).answer.epoch};
  }
  std::vector<Key> end(std::uint32_t worker) {
    std::vector<InheritedKeys::Request> waiting;
    EXPECT_TRUE(keys_.end(worker, waiting));
    std::vector<Key> asked;
    asked.reserve(waiting.size());
    for (const InheritedKeys::Request& request : waiting) asked.push_back(request.row.key);
    return asked;
  }

  InheritedKeys keys_;
};

TEST_F(InheritedKeysTest, WhoAsksMakesTheCensus) {
  EXPECT_THAT(keys_.take_counters(), IsEmpty());
  ask(3, 12);
  ask(5, 14);
  ask(3, 11);
  EXPECT_THAT(keys_.take_counters(), ElementsAre(3, 5));
  EXPECT_THAT(keys_.take_counters(), IsEmpty()) << "they make it already";
  ask(6, 12);
  EXPECT_THAT(keys_.take_counters(), ElementsAre(6));
  EXPECT_TRUE(find(5, 14, /*node=*/2, /*epoch=*/4));
  EXPECT_FALSE(keys_.are_known());
  EXPECT_THAT(end(5), ElementsAre(12, 14, 11, 12)) << "in their order";
  EXPECT_TRUE(keys_.are_known());
  EXPECT_EQ(place(14), std::pair(2U, 4UL));
  EXPECT_EQ(place(12), std::pair(kDead, 0UL)) << "nobody has found it: it is lost with its first home";
}

TEST_F(InheritedKeysTest, TheNewestEpochCounts) {
  ask(3, 12);
  keys_.take_counters();
  EXPECT_TRUE(find(3, 12, 2, 4));
  EXPECT_TRUE(find(3, 12, 0, 5));
  EXPECT_TRUE(find(3, 12, 2, 4));
  end(3);
  EXPECT_EQ(place(12), std::pair(0U, 5UL));
}

TEST_F(InheritedKeysTest, WhoWasNotAskedFindsNothing) {
  ask(3, 12);
  keys_.take_counters();
  EXPECT_TRUE(find(4, 12, 2, 4));
  std::vector<InheritedKeys::Request> waiting;
  EXPECT_FALSE(keys_.end(4, waiting));
  EXPECT_FALSE(keys_.are_known());
  end(3);
  EXPECT_EQ(place(12), std::pair(kDead, 0UL));
}

TEST_F(InheritedKeysTest, AnotherDeathBeginsTheCensusAnew) {
  ask(3, 12);
  keys_.take_counters();
  keys_.begin_anew();
  std::vector<InheritedKeys::Request> waiting;
  EXPECT_FALSE(keys_.end(3, waiting)) << "it has not been asked again";
  EXPECT_THAT(keys_.take_counters(), ElementsAre(3));
  EXPECT_THAT(end(3), ElementsAre(12));
}

TEST_F(InheritedKeysTest, WhoIsGoneWaitsForNothing) {
  ask(3, 12);
  ask(5, 14);
  keys_.forget(3);
  EXPECT_THAT(keys_.take_counters(), ElementsAre(5));
  EXPECT_THAT(end(5), ElementsAre(14));
}

TEST_F(InheritedKeysTest, NobodyFindsWhatCannotBe) {
  ask(3, 12);
  keys_.take_counters();
  EXPECT_FALSE(find(3, 12, 2, /*epoch=*/0)) << "only its first home had it then";
  EXPECT_FALSE(keys_.found(3, {.key = 12, .kind = KeyAnswers::Kind::kOwned, .node = 2, .epoch = 4}).ok());
}

}  // namespace
}  // namespace verbena::server
