#include "server/fingerprints.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <vector>

#include "server/saved_rows.hpp"

namespace verbena::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Rows of one number of 4 bytes, 16 of which share a checksum, or of so many.
SavedRows in_order(const std::vector<std::uint32_t>& numbers, std::size_t numbers_a_row = 1) {
  SavedRows rows;
  rows.rows = numbers.size() / numbers_a_row;
  rows.numbers = {100, 100 + rows.rows};
  rows.values.begin(numbers_a_row * sizeof(std::uint32_t), rows.rows);
  rows.values.append(numbers.data(), rows.rows);
  return rows;
}

/// By key: a row's value and its state.
SavedRows by_key(const std::map<Key, std::pair<std::uint32_t, std::uint32_t>>& content) {
  SavedRows rows;
  rows.are_scattered = true;
  rows.has_removed = true;
  rows.numbers = {0, 16};
  rows.keys.begin(sizeof(Key), content.size());
  rows.values.begin(sizeof(std::uint32_t), content.size());
  rows.states.begin(sizeof(std::uint32_t), content.size());
  for (const auto& [key, row] : content) {
    rows.keys.append(&key, 1);
    rows.values.append(&row.first, 1);
    rows.states.append(&row.second, 1);
    ++rows.rows;
  }
  return rows;
}

TEST(FingerprintsTest, RowsInOrderThatHaveChanged) {
  Fingerprints fingerprints;
  std::vector<std::uint32_t> numbers(20 * 20, 1);
  EXPECT_THAT(fingerprints.update(in_order(numbers, 20)).rows, SizeIs(20)) << "nothing was known of them";
  EXPECT_THAT(fingerprints.update(in_order(numbers, 20)).rows, IsEmpty());
  numbers[3 * 20 + 19] = 2;
  numbers[17 * 20] = 2;
  EXPECT_THAT(fingerprints.update(in_order(numbers, 20)).rows, ElementsAre(3, 17));
  EXPECT_THAT(fingerprints.update(in_order(numbers, 20)).rows, IsEmpty());
}

TEST(FingerprintsTest, NarrowRowsGoTogether) {
  Fingerprints fingerprints;
  std::vector<std::uint32_t> numbers(34, 1);
  fingerprints.remember(in_order(numbers));
  EXPECT_THAT(fingerprints.update(in_order(numbers)).rows, IsEmpty());
  numbers[33] = 2;
  EXPECT_THAT(fingerprints.update(in_order(numbers)).rows, ElementsAre(32, 33));
}

TEST(FingerprintsTest, RowsByKeyThatHaveChanged) {
  Fingerprints fingerprints;
  std::map<Key, std::pair<std::uint32_t, std::uint32_t>> content = {
      {10, {1, 1}}, {20, {1, 1}}, {30, {1, 1}}, {40, {1, 1}}};
  fingerprints.remember(by_key(content));
  content[20].second = 2;  // its state only
  content.erase(30);
  content[25] = {1, 1};  // others stand elsewhere now
  const Fingerprints::Changes changes = fingerprints.update(by_key(content));
  EXPECT_THAT(changes.rows, ElementsAre(1, 2));  // 20 and 25
  EXPECT_THAT(changes.removed, ElementsAre(30));
  const Fingerprints::Changes none = fingerprints.update(by_key(content));
  EXPECT_THAT(none.rows, IsEmpty());
  EXPECT_THAT(none.removed, IsEmpty());
}

/// A row of a dynamic table may be elsewhere for a while, and another one may have the same bytes.
TEST(FingerprintsTest, AKeyThatWasAwayIsNew) {
  Fingerprints fingerprints;
  const std::map<Key, std::pair<std::uint32_t, std::uint32_t>> content = {{10, {1, 1}}, {20, {1, 1}}};
  fingerprints.remember(by_key(content));
  EXPECT_THAT(fingerprints.update(by_key({{20, {1, 1}}})).removed, ElementsAre(10));
  EXPECT_THAT(fingerprints.update(by_key(content)).rows, ElementsAre(0));
}

TEST(FingerprintsTest, NothingIsRememberedAfterClear) {
  Fingerprints fingerprints;
  const SavedRows rows = by_key({{10, {1, 1}}, {20, {1, 1}}});
  fingerprints.remember(rows);
  fingerprints.clear();
  EXPECT_THAT(fingerprints.update(rows).rows, SizeIs(2));
}

TEST(FingerprintsTest, RememberForgetsWhatWasBefore) {
  Fingerprints fingerprints;
  fingerprints.remember(by_key({{10, {1, 1}}}));
  fingerprints.remember(by_key({{20, {1, 1}}}));
  EXPECT_THAT(fingerprints.update(by_key({{20, {1, 1}}})).removed, IsEmpty());
}

}  // namespace
}  // namespace verbena::server
