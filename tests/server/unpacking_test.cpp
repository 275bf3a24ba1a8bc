#include "server/unpacking.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

namespace verbena::server {
namespace {

using protocol::PackedHeader;
using Names = PackedHeader::Names;

/// Packed updates of rows of two floats, of a dense part with the keys 100 … 109.
class UnpackingTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kWidth = 2;
  using Values = std::vector<float>;

  protocol::BulkMessage pack(const std::map<std::uint64_t, Values>& rows, const std::map<Key, Values>& keys,
                             const PackedHeader& packed = {}, bool compressed = false) {
    protocol::UpdatePacker packer(ValueType::kFloat, kWidth);
    for (const auto& [row, values] : rows)
      packer.add_row(row, reinterpret_cast<const std::byte*>(values.data()));
    for (const auto& [key, values] : keys)
      packer.add_key(key, reinterpret_cast<const std::byte*>(values.data()));
    memory_.assign(20'000, 0);
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(memory_));
    auto length = packer.pack({.table = 3, .clock = 5}, packed, bytes);
    base::Compressor compressor(1);
    if (compressed) length = protocol::compress_packed(bytes.first(*length), compressor);
    return *protocol::decode_bulk(bytes.first(*length));
  }
  bool begin(const protocol::BulkMessage& message, const std::vector<Key>* keys = nullptr) {
    const LanePart part{.keys = {100, 110}, .range = protocol::RowRange({100, 110})};
    return unpacking_.begin(part, ValueType::kFloat, kWidth, message, keys);
  }
  /// All records, by key.
  std::map<Key, Values> records() {
    std::map<Key, Values> all;
    for (Unpacking::Piece piece = unpacking_.next(); piece.records > 0; piece = unpacking_.next()) {
      EXPECT_FALSE(piece.is_by_row);
      for (std::size_t i = 0; i < piece.records; ++i) {
        Values values(kWidth);
        const std::byte* const record = piece.bytes.data() + i * 16;
        std::memcpy(values.data(), record + sizeof(Key), kWidth * sizeof(float));
        Key key = 0;
        std::memcpy(&key, record, sizeof key);
        EXPECT_TRUE(all.emplace(key, values).second);
      }
    }
    return all;
  }

  std::vector<std::uint64_t> memory_;
  Unpacking unpacking_;
};

using Records = std::map<Key, std::vector<float>>;

TEST_F(UnpackingTest, RowsAndKeysBecomeRecords) {
  ASSERT_TRUE(begin(pack({{3, {1, 2}}, {5, {0, 3}}}, {{107, {4, 0.1F}}}, {.is_ahead = 1})));
  EXPECT_EQ(unpacking_.header().kind, protocol::BulkKind::kUpdatesAhead);
  EXPECT_EQ(unpacking_.header().clock, 5);
  EXPECT_EQ(records(), (Records{{103, {1, 2}}, {105, {0, 3}}, {107, {4, 0.1F}}}));
  ASSERT_TRUE(begin(pack({{0, {1, 1}}}, {})));
  EXPECT_EQ(unpacking_.header().kind, protocol::BulkKind::kUpdates);
}

TEST_F(UnpackingTest, ListsGiveTheKeys) {
  const std::vector<Key> list = {109, 101};
  ASSERT_TRUE(begin(pack({}, {{1, {1, 2}}, {2, {3, 4}}}, {.names = Names::kList}), &list));
  EXPECT_EQ(records(), (Records{{109, {1, 2}}, {101, {3, 4}}}));
}

TEST_F(UnpackingTest, ManyComeInPieces) {
  std::map<Key, Values> keys;
  for (Key key = 0; key < 5000; ++key) keys[key] = {static_cast<float>(key), 1};
  ASSERT_TRUE(begin(pack({}, keys)));
  EXPECT_EQ(records(), keys) << "whether they are the lane's is for the lane to say";
}

TEST_F(UnpackingTest, CompressedOnesAreTheSame) {
  std::map<Key, Values> keys;
  for (Key key = 0; key < 5000; ++key) keys[key] = {static_cast<float>(key), 1};
  const protocol::BulkMessage message = pack({}, keys, {}, true);
  ASSERT_LT(message.payload.size(), 5000 * 12U);
  ASSERT_TRUE(begin(message));
  EXPECT_EQ(records(), keys);
  // The message may change after it was checked.
  protocol::BulkMessage cut = message;
  cut.payload = message.payload.first(message.payload.size() - 1);
  EXPECT_FALSE(begin(cut));
  ASSERT_TRUE(begin(message));
  EXPECT_EQ(records(), keys);
}

/// The message may change after it was checked.
TEST_F(UnpackingTest, WhatHasChangedIsPassedOver) {
  ASSERT_TRUE(begin(pack({{3, {1, 2}}, {10, {7, 7}}, {1000, {7, 7}}}, {{107, {4, 5}}})));
  EXPECT_EQ(records(), (Records{{103, {1, 2}}, {107, {4, 5}}})) << "there are ten rows";
  EXPECT_FALSE(begin(pack({}, {{1, {1, 2}}}, {.names = Names::kList}))) << "of no list";
  const std::vector<Key> list = {101, 102, 103};
  EXPECT_FALSE(begin(pack({}, {{1, {1, 2}}}, {.names = Names::kList}), &list)) << "of another length";
  protocol::BulkMessage message = pack({{3, {1, 2}}}, {});
  message.payload = message.payload.first(message.payload.size() - 1);
  EXPECT_FALSE(begin(message));
}

}  // namespace
}  // namespace verbena::server
