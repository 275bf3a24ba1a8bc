#include "worker/moving/replicas.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/maximum_rule.hpp"

namespace verbena::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Values = std::array<float, 3>;

class ReplicasTest : public ::testing::Test {
 protected:
  explicit ReplicasTest(const protocol::UpdateRule& rule = {ValueType::kFloat, 3})
      : replicas_(RowLayout(rule)) {}
  void push(const Values& update) { replicas_.push(5, *replicas_.find(5), bytes(update)); }
  void put(const Values& row) { replicas_.put(*replicas_.find(5), bytes(row)); }
  Values taken() {
    Values row = {};
    std::vector<std::byte> updates;
    replicas_.take_updates(*replicas_.find(5), updates);
    EXPECT_EQ(updates.size(), sizeof row);
    std::memcpy(row.data(), updates.data(), sizeof row);
    return row;
  }
  Values values() {
    Values row = {};
    std::memcpy(row.data(), replicas_.find(5)->values(), sizeof row);
    return row;
  }
  static const std::byte* bytes(const Values& row) { return reinterpret_cast<const std::byte*>(row.data()); }
  Replicas replicas_;
};

TEST_F(ReplicasTest, OwnUpdatesShowBeforeAndAfterARefresh) {
  ASSERT_NE(replicas_.make(5), nullptr);
  EXPECT_EQ(replicas_.make(5), nullptr);
  push({1, 2, 3});
  put({10, 20, 30});
  EXPECT_EQ(values(), (Values{11, 22, 33}));
  push({1, 1, 1});
  EXPECT_EQ(values(), (Values{12, 23, 34}));
  EXPECT_EQ(taken(), (Values{2, 3, 4})) << "all of them, once";
  EXPECT_EQ(values(), (Values{12, 23, 34}));
  push({5, 5, 5});
  put({12, 23, 35});
  EXPECT_EQ(values(), (Values{17, 28, 40})) << "what was sent is in the owner's row";
  EXPECT_EQ(taken(), (Values{5, 5, 5}));
}

TEST_F(ReplicasTest, WhatIsDirtyIsToldOnce) {
  ASSERT_NE(replicas_.make(5), nullptr);
  EXPECT_THAT(replicas_.take_dirty(), IsEmpty());
  push({1, 1, 1});
  push({1, 1, 1});
  EXPECT_THAT(replicas_.take_dirty(), ElementsAre(5));
  static_cast<void>(taken());
  push({1, 1, 1});
  EXPECT_THAT(replicas_.take_dirty(), ElementsAre(5));
}

/// With another update rule than addition.
class ReplicasOfMaximaTest : public ReplicasTest {
 protected:
  ReplicasOfMaximaTest() : ReplicasTest(maximum()) {}
  static protocol::UpdateRule maximum() {
    static_cast<void>(register_update_rule<verbena::testing::Maximum>());  // if it is not there yet
    return protocol::UpdateRule::find(verbena::testing::Maximum::kName, ValueType::kFloat, 3).value();
  }
};

TEST_F(ReplicasOfMaximaTest, TheRuleSaysWhatOwnUpdatesDo) {
  ASSERT_NE(replicas_.make(5), nullptr);
  push({1, 2, 3});
  EXPECT_EQ(values(), (Values{1, 2, 3}));
  push({3, 2, 1});
  EXPECT_EQ(values(), (Values{3, 2, 3}));
  put({2, 9, 2});
  EXPECT_EQ(values(), (Values{3, 9, 3}));
  EXPECT_EQ(taken(), (Values{3, 2, 3}));
}

}  // namespace
}  // namespace verbena::worker
