#include "worker/fixed/sent_key_lists.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace verbena::worker {
namespace {

using Names = protocol::PackedHeader::Names;

std::vector<Key> keys_from(Key first, std::size_t count = 10) {
  std::vector<Key> keys(count);
  for (std::size_t i = 0; i < count; ++i) keys[i] = first + i;
  return keys;
}

TEST(SentKeyListsTest, AListIsSentOnce) {
  SentKeyLists lists;
  const auto first = lists.find_or_add(keys_from(0), 1000);
  const auto second = lists.find_or_add(keys_from(100), 1000);
  EXPECT_EQ(first.names, Names::kNewList);
  EXPECT_EQ(second.names, Names::kNewList);
  EXPECT_NE(first.number, second.number);
  const auto again = lists.find_or_add(keys_from(0), 1000);
  EXPECT_EQ(again.names, Names::kList);
  EXPECT_EQ(again.number, first.number);
}

/// A list that begins like another one, or has its keys in another order, is another one.
TEST(SentKeyListsTest, TheWholeListCounts) {
  SentKeyLists lists;
  std::vector<Key> keys = keys_from(0, 1000);
  EXPECT_EQ(lists.find_or_add(keys, 10'000).names, Names::kNewList);
  keys.back() = 5000;
  EXPECT_EQ(lists.find_or_add(keys, 10'000).names, Names::kNewList);
  std::swap(keys[1], keys[2]);
  EXPECT_EQ(lists.find_or_add(keys, 10'000).names, Names::kNewList);
  keys.pop_back();
  EXPECT_EQ(lists.find_or_add(keys, 10'000).names, Names::kNewList);
}

TEST(SentKeyListsTest, WhatWasNotSentIsNotKnown) {
  SentKeyLists lists;
  lists.drop(lists.find_or_add(keys_from(0), 10).number);
  EXPECT_EQ(lists.find_or_add(keys_from(0), 10).names, Names::kNewList);
  EXPECT_EQ(lists.find_or_add(keys_from(0), 10).names, Names::kList);
}

/// A list that was dropped has taken the number of another one, which the server still has.
TEST(SentKeyListsTest, WhatTheServerHasCounts) {
  SentKeyLists lists;
  EXPECT_EQ(lists.find_or_add(keys_from(0, 60), 100).names, Names::kNewList);
  const auto next = lists.find_or_add(keys_from(1000, 60), 100);
  ASSERT_EQ(next.names, Names::kNewList) << "in the place of the first one";
  lists.drop(next.number);
  EXPECT_EQ(lists.find_or_add(keys_from(0, 60), 100).names, Names::kNewList);
  EXPECT_EQ(lists.find_or_add(keys_from(2000, 41), 100).names, Names::kNewList) << "in its place";
  EXPECT_EQ(lists.find_or_add(keys_from(3000, 59), 100).names, Names::kNewList);
  EXPECT_EQ(lists.find_or_add(keys_from(2000, 41), 100).names, Names::kList);
}

/// The numbers and sizes that the server would have.
TEST(SentKeyListsTest, NoMoreKeysThanAllowed) {
  constexpr std::uint64_t kMost = 100;
  SentKeyLists lists;
  std::map<std::uint32_t, std::vector<Key>> known;
  int hits = 0;
  constexpr int kPasses = 50;
  constexpr int kBatches = 15;  // a third of them does not fit
  for (int pass = 0; pass < kPasses; ++pass) {
    for (Key batch = 0; batch < kBatches; ++batch) {
      const std::vector<Key> keys = keys_from(batch * 1000, 9 + batch % 3);
      const auto names = lists.find_or_add(keys, kMost);
      if (names.names == Names::kList) {
        ++hits;
        ASSERT_EQ(known[names.number], keys);
      }
      if (names.names == Names::kNewList) known[names.number] = keys;
      std::size_t all = 0;
      for (const auto& [number, list] : known) all += list.size();
      ASSERT_LE(all, kMost);
    }
  }
  EXPECT_GT(hits, kPasses * kBatches / 4) << "though the least recently used one would always be the next";
}

TEST(SentKeyListsTest, AListThatIsTooLargeIsNone) {
  SentKeyLists lists;
  EXPECT_EQ(lists.find_or_add(keys_from(0, 101), 100).names, Names::kRowsAndKeys);
  EXPECT_EQ(lists.find_or_add(keys_from(0, 100), 100).names, Names::kNewList);
  EXPECT_EQ(lists.find_or_add(keys_from(0, 101), 100).names, Names::kRowsAndKeys);
}

}  // namespace
}  // namespace verbena::worker
