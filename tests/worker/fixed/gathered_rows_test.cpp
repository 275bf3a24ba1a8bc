#include "worker/fixed/gathered_rows.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace verbena::worker {
namespace {

constexpr std::size_t kRowBytes = 12;
constexpr std::size_t kKeys = 70;

/// Of keys 1 and 69: the bitmap, and three words of values.
std::vector<std::uint64_t> answer() {
  return {2,
          std::uint64_t{1} << 1,
          std::uint64_t{1} << 5,
          0x0101010101010101,
          0x0202020201010101,
          0x0202020202020202};
}

bool is_whole(const std::vector<std::uint64_t>& words, bool has_rows = false) {
  return GatheredRows(words, kKeys, kRowBytes, has_rows).is_whole();
}

TEST(GatheredRowsTest, AreReadInTheOrderOfTheKeys) {
  const std::vector<std::uint64_t> words = answer();
  GatheredRows rows(words, kKeys, kRowBytes, false);
  ASSERT_TRUE(rows.is_whole());
  for (std::size_t key = 0; key < kKeys; ++key) {
    const auto found = rows.next();
    ASSERT_EQ(found.has_value(), key == 1 || key == 69) << key;
    if (!found) continue;
    EXPECT_FALSE(found->row);
    for (std::size_t i = 0; i < kRowBytes; ++i) EXPECT_EQ(found->values[i], std::byte(key == 1 ? 1 : 2)) << i;
  }
}

TEST(GatheredRowsTest, MayHaveTheRowsNumbers) {
  std::vector<std::uint64_t> words = answer();
  words.insert(words.begin() + 3, {77, 78});
  GatheredRows rows(words, kKeys, kRowBytes, true);
  ASSERT_TRUE(rows.is_whole());
  std::vector<std::uint64_t> numbers;
  for (std::size_t key = 0; key < kKeys; ++key) {
    if (const auto found = rows.next()) numbers.push_back(index_of(found->row.value()));
  }
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{77, 78}));
}

TEST(GatheredRowsTest, MayBeNone) {
  const std::vector<std::uint64_t> words = {0};
  GatheredRows rows(words, kKeys, kRowBytes, true);
  ASSERT_TRUE(rows.is_whole());
  for (std::size_t key = 0; key < kKeys; ++key) EXPECT_FALSE(rows.next());
}

TEST(GatheredRowsTest, WhatNoLaneSaysIsNotWhole) {
  EXPECT_TRUE(is_whole(answer()));
  EXPECT_FALSE(is_whole({}));
  EXPECT_FALSE(is_whole(answer(), true)) << "without the rows' numbers";
  for (std::size_t words = 1; words < answer().size(); ++words) {
    std::vector<std::uint64_t> cut = answer();
    cut.resize(words);
    EXPECT_FALSE(is_whole(cut)) << words;
  }
  std::vector<std::uint64_t> longer = answer();
  longer.push_back(0);
  EXPECT_FALSE(is_whole(longer));
  for (const std::uint64_t bitmap_words : {0ULL, 1ULL, 3ULL, 6ULL, ~0ULL}) {
    std::vector<std::uint64_t> wrong = answer();
    wrong[0] = bitmap_words;
    EXPECT_FALSE(is_whole(wrong)) << bitmap_words;
  }
  std::vector<std::uint64_t> beyond = answer();
  beyond[2] = std::uint64_t{1} << 6;  // key 70
  EXPECT_FALSE(is_whole(beyond));
  std::vector<std::uint64_t> more = answer();
  more[1] |= 1;
  EXPECT_FALSE(is_whole(more)) << "a row without values";
}

}  // namespace
}  // namespace verbena::worker
