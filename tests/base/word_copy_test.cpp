#include "base/word_copy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/row_additions.hpp"

namespace verbena::base {
namespace {

template <class Value>
class AddWordsTest : public ::testing::Test {};

using Values = ::testing::Types<float, double, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(AddWordsTest, Values);

/// Any number of words at any place are added, and the words around them stay.
TYPED_TEST(AddWordsTest, AddsEachOnce) {
  constexpr std::size_t kMost = 300;
  constexpr std::size_t kOffsets = 5;
  std::mt19937_64 random(1);
  const auto draw = [&] {
    std::vector<TypeParam> values(kMost + kOffsets);
    for (TypeParam& value : values) value = static_cast<TypeParam>(random() % 1'000'003) / 3;
    return values;
  };
  for (std::size_t count = 0; count <= kMost; ++count) {
    const std::size_t at = count % kOffsets;
    std::vector<TypeParam> row = draw();
    const std::vector<TypeParam> update = draw();
    std::vector<TypeParam> expected = row;
    for (std::size_t i = 0; i < count; ++i) expected[at + i] = row[at + i] + update[i + 1];
    add_words(row.data() + at, update.data() + 1, count);
    ASSERT_EQ(row, expected) << count << " values";
  }
}

/// Many rows, one of them again and again: in any other order its sum would differ in the last bits.
TYPED_TEST(AddWordsTest, ManyRowsAreAddedInTheirOrder) {
  constexpr std::size_t kRows = 5;
  constexpr std::size_t kAdditions = 40;
  std::mt19937_64 random(2);
  for (std::size_t count = 0; count <= 150; ++count) {
    const auto draw = [&] {
      std::vector<TypeParam> values(count + 1);
      for (TypeParam& value : values) value = static_cast<TypeParam>(random() % 1'000'003) / 3;
      return values;
    };
    std::vector<std::vector<TypeParam>> rows;
    for (std::size_t row = 0; row < kRows; ++row) rows.push_back(draw());
    std::vector<std::vector<TypeParam>> expected = rows;
    std::vector<std::vector<TypeParam>> updates;
    std::vector<RowAddition<TypeParam>> additions;
    for (std::size_t i = 0; i < kAdditions; ++i) {
      const std::size_t row = i % 2 == 0 ? 0 : random() % kRows;
      updates.push_back(draw());
      additions.push_back({.to = rows[row].data(), .update = updates.back().data()});
      for (std::size_t k = 0; k < count; ++k) expected[row][k] = expected[row][k] + updates.back()[k];
    }
    add_rows(additions, count);
    ASSERT_EQ(rows, expected) << count << " values";
  }
}

TEST(WordCopyTest, WholeNumbersWrapAround) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::size_t count : {1U, 100U, 101U}) {
    std::vector<std::int64_t> row(count, kMost);
    add_words(row.data(), std::vector<std::int64_t>(count, 1).data(), count);
    EXPECT_THAT(row, ::testing::Each(std::numeric_limits<std::int64_t>::min()));
  }
}

}  // namespace
}  // namespace verbena::base
