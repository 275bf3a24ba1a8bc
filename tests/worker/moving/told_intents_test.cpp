#include "worker/moving/told_intents.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/zeroed_array.hpp"

namespace verbena::worker {
namespace {

using protocol::Presence;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using State = ToldIntents::State;
using Kind = RequestQueue::Kind;

constexpr std::uint64_t kRows = 20;
constexpr Key kHere = 3;    // its home is node 0, which is this one
constexpr Key kThere = 13;  // its home is node 1

bool is_idle(Key /*key*/) {
  return false;
}

class ToldIntentsTest : public ::testing::Test {
 protected:
  ToldIntentsTest() {
    directory_.allocate();
    told_.allocate(kRows);
    for (int server = 0; server < 2; ++server) requests_.add_server();
    const RowLayout layout(protocol::UpdateRule(ValueType::kFloat, 2));
    slots_ = base::make_zeroed_array<std::uint64_t>(
        protocol::slot_region_bytes(kRows, layout.slot_bytes) / sizeof(std::uint64_t) + 1);
    own_.map(reinterpret_cast<std::byte*>(slots_.get()), kRows, directory_.home_keys(0));
  }
  ToldIntents::Keys end(Key key) {
    told_.begin_ending(key);
    return told_.end_idle(is_idle);
  }
  [[nodiscard]] std::uint32_t counted(Key key) const { return own_.presence().load(key).intents(); }
  /// Sends the requests, and returns what the homes are told.
  std::vector<std::pair<Kind, Key>> sent() {
    std::vector<std::pair<Kind, Key>> all;
    requests_.send([&](std::uint32_t server, const protocol::KeyRequests& requests) {
      for (const RequestQueue::Row& row : requests.rows) {
        EXPECT_EQ(server, directory_.home(row.key));
        all.emplace_back(requests.kind, row.key);
      }
      return true;
    });
    return all;
  }

  OwnSlots own_{RowLayout(protocol::UpdateRule(ValueType::kFloat, 2)), /*holder=*/1,
                /*is_only_node=*/false};
  Directory directory_{{kRows, 2}};
  RequestQueue requests_{0};
  ToldIntents told_{own_, directory_, requests_};
  base::ZeroedArray<std::uint64_t> slots_;
};

TEST_F(ToldIntentsTest, OfARowThatIsHereNobodyElseHears) {
  EXPECT_TRUE(told_.count(kHere));
  EXPECT_EQ(counted(kHere), 1);
  EXPECT_TRUE(told_.is(kHere, State::kCounted));
  EXPECT_THAT(end(kHere), ElementsAre(kHere));
  EXPECT_EQ(counted(kHere), 0);
  EXPECT_FALSE(told_.contains(kHere));
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(ToldIntentsTest, ARowThatSomebodyElseWantsIsReleasedWithTheLastIntent) {
  ASSERT_TRUE(told_.count(kHere));
  ASSERT_TRUE(own_.presence().want(kHere));
  EXPECT_THAT(end(kHere), ElementsAre(kHere));
  EXPECT_THAT(sent(), ElementsAre(std::pair(Kind::kReleased, kHere)));
}

TEST_F(ToldIntentsTest, OfARowThatIsElsewhereTheHomeHearsTheEnd) {
  EXPECT_FALSE(told_.count(kThere));
  told_.set_asking(kThere);
  EXPECT_THAT(end(kThere), IsEmpty()) << "its home has not answered";
  told_.set_shared(kThere);
  EXPECT_THAT(told_.end_idle(is_idle), ElementsAre(kThere));
  EXPECT_THAT(sent(), ElementsAre(std::pair(Kind::kDone, kThere)));
  EXPECT_THAT(told_.end_idle(is_idle), IsEmpty());
}

TEST_F(ToldIntentsTest, WhatTheHomeKnowsOfEndsThereWhenItIsCountedHere) {
  told_.set_asking(kHere);
  ASSERT_TRUE(told_.count(kHere)) << "the row has come meanwhile";
  EXPECT_THAT(sent(), ElementsAre(std::pair(Kind::kDone, kHere)));
}

TEST_F(ToldIntentsTest, WhatIsInUseEndsLater) {
  told_.set_shared(kThere);
  told_.begin_ending(kThere);
  EXPECT_THAT(told_.end_idle([](Key key) { return key == kThere; }), IsEmpty());
  EXPECT_TRUE(told_.is_ending(kThere));
  EXPECT_THAT(told_.end_idle(is_idle), ElementsAre(kThere));
}

TEST_F(ToldIntentsTest, OneMoreIntentKeepsIt) {
  told_.set_shared(kThere);
  told_.begin_ending(kThere);
  EXPECT_TRUE(told_.keep(kThere));
  EXPECT_THAT(told_.end_idle(is_idle), IsEmpty());
  EXPECT_TRUE(told_.contains(kThere));
  EXPECT_FALSE(told_.keep(kThere));
}

TEST_F(ToldIntentsTest, AMoveThatEndsWithoutTheRowLeavesTheIntentWithTheHome) {
  told_.set_asking(kThere);
  told_.on_not_coming(kThere);
  EXPECT_TRUE(told_.is(kThere, State::kShared));
}

TEST_F(ToldIntentsTest, ARowThatHasLeftAndComeBackIsCountedAnew) {
  ASSERT_TRUE(told_.count(kHere));
  own_.presence().store(kHere, Presence());            // it leaves
  own_.presence().store(kHere, Presence::here(5, 0));  // and comes back
  told_.on_here(kHere, 5);
  EXPECT_EQ(counted(kHere), 1);
  EXPECT_THAT(end(kHere), ElementsAre(kHere));
  EXPECT_EQ(counted(kHere), 0);
}

TEST_F(ToldIntentsTest, AnHeirIsToldNothingOfTheEndOfWhatItDoesNotKnow) {
  told_.set_shared(kThere);
  EXPECT_TRUE(told_.forget(kThere)) << "the heir is to be told of the intent";
  EXPECT_TRUE(told_.contains(kThere));
  told_.on_here(kThere, 3);
  EXPECT_TRUE(told_.is(kThere, State::kForgotten)) << "nor does it know that the row has come";
  told_.on_not_coming(kThere);
  EXPECT_TRUE(told_.is(kThere, State::kForgotten)) << "or that it has not";
  EXPECT_THAT(end(kThere), ElementsAre(kThere));
  EXPECT_THAT(sent(), IsEmpty());

  told_.set_shared(kThere);
  told_.begin_ending(kThere);
  EXPECT_FALSE(told_.forget(kThere)) << "it is over";

  ASSERT_TRUE(told_.count(kHere));
  EXPECT_FALSE(told_.forget(kHere)) << "no home has been told";
  EXPECT_TRUE(told_.is(kHere, State::kCounted));
}

TEST_F(ToldIntentsTest, WhatAHomeHasForgottenIsCountedWithoutAWord) {
  told_.set_shared(kHere);
  ASSERT_TRUE(told_.forget(kHere));
  EXPECT_TRUE(told_.count(kHere));
  EXPECT_EQ(counted(kHere), 1);
  EXPECT_THAT(sent(), IsEmpty());
}

TEST_F(ToldIntentsTest, WhoLeavesEndsWhatItHasCounted) {
  ASSERT_TRUE(told_.count(kHere));
  told_.set_shared(kThere);
  told_.end_all_counted();
  EXPECT_EQ(counted(kHere), 0);
  EXPECT_TRUE(told_.contains(kThere)) << "its home notices that this worker leaves";
}

}  // namespace
}  // namespace verbena::worker
