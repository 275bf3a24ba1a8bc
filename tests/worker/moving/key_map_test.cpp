#include "worker/moving/key_map.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace verbena::worker {
namespace {

TEST(KeyMapTest, HoldsWhatWasPutThereUntilItIsErased) {
  KeyMap<int> map;
  map.allocate(130);
  EXPECT_TRUE(map.empty());
  EXPECT_EQ(map.find(64), nullptr);
  EXPECT_TRUE(map.try_emplace(64, 7).second);
  EXPECT_FALSE(map.try_emplace(64, 8).second) << "the key is there already";
  EXPECT_EQ(map.find(64)->second, 7);
  map[64] = 9;
  map[129] = 1;
  EXPECT_EQ(map.find(64)->second, 9);
  EXPECT_FALSE(map.contains(63));
  EXPECT_FALSE(map.contains(65));
  EXPECT_TRUE(map.erase(64));
  EXPECT_FALSE(map.erase(64));
  EXPECT_FALSE(map.empty()) << "key 129 is left";
  map.erase(map.find(129));
  EXPECT_TRUE(map.empty());
}

TEST(KeyMapTest, WhatIsPutThereAnewBeginsAnew) {
  KeyMap<int> map;
  map.allocate(2);
  map[1] = 5;
  map.erase(1);
  EXPECT_EQ(map[1], 0);
}

TEST(KeySetTest, CountsEachKeyOnce) {
  KeySet set;
  set.allocate(65);
  EXPECT_TRUE(set.insert(64));
  EXPECT_FALSE(set.insert(64));
  EXPECT_TRUE(set.contains(64));
  EXPECT_FALSE(set.contains(0));
  EXPECT_EQ(set.keys(), (std::vector<Key>{64}));
  EXPECT_TRUE(set.insert(3));
  EXPECT_EQ(set.keys(), (std::vector<Key>{3, 64}));
  EXPECT_TRUE(set.erase(3));
  EXPECT_TRUE(set.erase(64));
  EXPECT_TRUE(set.empty());
  EXPECT_FALSE(set.erase(64));
}

}  // namespace
}  // namespace verbena::worker
