#include "protocol/packed_updates.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/compression.hpp"
#include "protocol/push_encoding.hpp"

namespace verbena::protocol {
namespace {

using Names = PackedHeader::Names;

/// Updates by row and by key, as they are given to the packer, or come out of a message.
template <class Value>
struct Updates {
  std::vector<std::pair<std::uint64_t, std::vector<Value>>> rows;
  std::vector<std::pair<Key, std::vector<Value>>> keys;
};

template <class Value>
std::string bits_of(const Updates<Value>& updates) {
  std::string bits;
  for (const auto* const those : {&updates.rows, &updates.keys}) {
    for (const auto& [name, values] : *those) {
      bits += std::to_string(name) + ": ";
      bits.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
    }
    bits += "; ";
  }
  return bits;
}

class PackedUpdatesTest : public ::testing::Test {
 protected:
  template <class Value>
  std::span<std::byte> pack(const Updates<Value>& updates, PackedHeader packed = {},
                            std::size_t room = 1 << 20) {
    width_ =
        static_cast<std::uint32_t>((updates.rows.empty() ? updates.keys : updates.rows)[0].second.size());
    UpdatePacker packer(value_type_of<Value>(), width_);
    for (const auto& [row, values] : updates.rows)
      packer.add_row(row, reinterpret_cast<const std::byte*>(values.data()));
    for (const auto& [key, values] : updates.keys)
      packer.add_key(key, reinterpret_cast<const std::byte*>(values.data()));
    memory_.resize(room / sizeof(std::uint64_t));
    const std::span<std::byte> to = std::as_writable_bytes(std::span(memory_));
    const auto length = packer.pack({.table = 3, .lane = 2, .clock = 7}, packed, to);
    return length ? to.first(*length) : std::span<std::byte>();
  }

  /// The same message, compressed if that pays.
  std::span<std::byte> compress(std::span<std::byte> bytes) {
    return bytes.first(compress_packed(bytes, compressor_));
  }

  /// REQUIRES: the message is right.
  template <class Value>
  Updates<Value> unpack(std::span<const std::byte> bytes) {
    Updates<Value> result;
    const auto message = decode_bulk(bytes);
    EXPECT_TRUE(message.ok());
    auto updates = PackedUpdates::read(*message, value_type_of<Value>(), width_, decompressor_);
    EXPECT_TRUE(updates.ok()) << updates.status();
    const std::uint32_t by_row = updates->header().by_row;
    for (std::uint32_t i = 0; i < by_row; ++i)
      result.rows.emplace_back(updates->next_row().value(), std::vector<Value>(width_));
    EXPECT_TRUE(updates->rows_are_complete());
    for (std::uint32_t i = 0; i < updates->keys(); ++i)
      result.keys.emplace_back(updates->key(i), std::vector<Value>(width_));
    // Some at a time, with room between them.
    std::vector<Value> values(std::size_t{updates->count()} * (width_ + 1));
    for (std::uint32_t done = 0; done < updates->count();) {
      const std::uint32_t some = std::min(updates->count() - done, 1 + done % 3);
      updates->next_values(some, reinterpret_cast<std::byte*>(&values[done * (width_ + 1)]),
                           (width_ + 1) * sizeof(Value));
      done += some;
    }
    for (std::uint32_t i = 0; i < by_row + result.keys.size(); ++i) {
      auto& to = i < by_row ? result.rows[i].second : result.keys[i - by_row].second;
      std::copy_n(&values[i * (width_ + 1)], width_, to.begin());
    }
    return result;
  }

  static PackedHeader header_of(std::span<const std::byte> bytes) {
    PackedHeader header;
    std::memcpy(&header, bytes.data() + sizeof(BulkHeader), sizeof header);
    return header;
  }

  /// The error for a message; empty: none.
  std::string error_of(std::span<const std::byte> bytes, ValueType type) {
    const auto message = decode_bulk(bytes);
    const auto updates = PackedUpdates::read(*message, type, width_, decompressor_);
    return std::string(updates.status().message());
  }

  std::uint32_t width_ = 1;
  std::vector<std::uint64_t> memory_;
  base::Compressor compressor_{1};
  base::Decompressor decompressor_;
};

template <class Value>
std::vector<Value> some_values(std::mt19937& random, std::uint32_t width, int kind) {
  std::vector<Value> values(width);
  for (Value& value : values) {
    if (kind % 2 == 1 && random() % 4 != 0) continue;
    const auto number = static_cast<double>(static_cast<int>(random() % 200) - 100);
    switch (kind / 2) {
      case 0:
        value = static_cast<Value>(number);
        break;
      case 1:
        value = static_cast<Value>(number * 300);
        break;
      case 2:
        value = static_cast<Value>(number * 1e8 + 0.1);
        break;
      default:
        value = static_cast<Value>(std::numeric_limits<Value>::max() / static_cast<Value>(3));
        if (!std::is_integral_v<Value> && random() % 2 == 0)
          value = static_cast<Value>(random() % 2 == 0 ? -0.0 : std::nan(""));
    }
  }
  return values;
}

template <class Value>
void check_round_trips(const std::function<std::string(const Updates<Value>&)>& there_and_back) {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    Updates<Value> updates;
    const auto width = static_cast<std::uint32_t>(1 + random() % 9);
    std::set<std::uint64_t> rows;
    for (std::size_t more = random() % 40; more > 0; --more)
      rows.insert(random() % (random() % 2 == 0 ? 100 : kMaxRows));
    std::vector<std::uint64_t> shuffled(rows.begin(), rows.end());
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    const int kind = round % 8;
    for (const std::uint64_t row : shuffled)
      updates.rows.emplace_back(row, some_values<Value>(random, width, kind));
    for (std::size_t more = 1 + random() % 20; more > 0; --more)
      updates.keys.emplace_back(random() | std::uint64_t{random()} << 32,
                                some_values<Value>(random, width, kind));
    const std::string found = there_and_back(updates);
    std::sort(updates.rows.begin(), updates.rows.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    ASSERT_EQ(found, bits_of(updates)) << "round " << round;
  }
}

TEST_F(PackedUpdatesTest, NoBitIsLost) {
  check_round_trips<float>([&](const auto& all) { return bits_of(unpack<float>(pack(all))); });
  check_round_trips<double>([&](const auto& all) { return bits_of(unpack<double>(pack(all))); });
  check_round_trips<std::int32_t>([&](const auto& all) { return bits_of(unpack<std::int32_t>(pack(all))); });
  check_round_trips<std::int64_t>([&](const auto& all) { return bits_of(unpack<std::int64_t>(pack(all))); });
  check_round_trips<float>([&](const auto& all) { return bits_of(unpack<float>(pack(all, {.scale = 1}))); });
}

TEST_F(PackedUpdatesTest, NoBitIsLostByCompression) {
  int compressed = 0;
  const auto there_and_back = [&]<class Value>(const Updates<Value>& all) {
    const std::span<std::byte> bytes = compress(pack(all));
    compressed += header_of(bytes).body_bytes > 0 ? 1 : 0;
    return bits_of(unpack<Value>(bytes));
  };
  check_round_trips<float>(there_and_back);
  check_round_trips<double>(there_and_back);
  check_round_trips<std::int32_t>(there_and_back);
  check_round_trips<std::int64_t>(there_and_back);
  EXPECT_GT(compressed, 100) << "of 1600";
}

TEST_F(PackedUpdatesTest, HeaderSaysWhatItIs) {
  const auto bytes = pack<float>({{{5, {1}}}, {{70, {2}}}}, {.is_ahead = 1});
  const auto message = decode_bulk(bytes);
  EXPECT_EQ(message->header.kind, BulkKind::kPackedUpdates);
  EXPECT_EQ(message->header.count, 2U);
  EXPECT_EQ(message->header.table, 3U);
  EXPECT_EQ(message->header.lane, 2U);
  EXPECT_EQ(message->header.clock, 7);
  EXPECT_EQ(header_of(bytes).is_ahead, 1);
}

constexpr std::size_t kHeaders = sizeof(BulkHeader) + sizeof(PackedHeader);

TEST_F(PackedUpdatesTest, TheShortestFormIsTaken) {
  const auto bytes_of = [&]<class Value>(std::vector<Value> values, float scale = 0) {
    Updates<Value> updates;
    for (std::size_t i = 0; i < values.size(); ++i) updates.rows.push_back({i, {values[i]}});
    return (pack(updates, {.scale = scale}).size() - kHeaders) / values.size();  // one is the row's number
  };
  const auto many = [](auto value) { return std::vector(100, value); };
  EXPECT_EQ(bytes_of(many(1.1F)), 1 + 4U);
  EXPECT_EQ(bytes_of(many(1.5F)), 1 + 2U);
  EXPECT_EQ(bytes_of(many(1.5F), 0.5F), 1 + 1U);
  EXPECT_EQ(bytes_of(many(63.5F), 0.5F), 1 + 1U);
  EXPECT_EQ(bytes_of(many(64.0F), 0.5F), 1 + 2U) << "128 times the scale";
  EXPECT_EQ(bytes_of(many(1.1)), 1 + 8U);
  EXPECT_EQ(bytes_of(many(static_cast<double>(1.1F))), 1 + 4U);
  EXPECT_EQ(bytes_of(many(-1.5)), 1 + 2U);
  EXPECT_EQ(bytes_of(many(-127)), 1 + 1U);
  EXPECT_EQ(bytes_of(many(-129)), 1 + 2U);
  EXPECT_EQ(bytes_of(many(40'000)), 1 + 4U);
  EXPECT_EQ(bytes_of(many(std::int64_t{40'000})), 1 + 8U);
  std::vector<float> zeros(96);
  zeros[50] = 1.1F;
  zeros[51] = -0.0F;
  Updates<float> sparse{{{9, zeros}}, {}};
  EXPECT_EQ(pack(sparse).size(), kHeaders + 1 + 96 / 8 + 2 * 4);
}

TEST_F(PackedUpdatesTest, RowsTakeTheirDistances) {
  const auto bytes_of = [&](std::vector<std::uint64_t> rows) {
    Updates<float> updates;
    for (const std::uint64_t row : rows) updates.rows.push_back({row, {1.5F}});
    return pack(updates).size() - kHeaders - 2 * rows.size();
  };
  EXPECT_EQ(bytes_of({0, 1, 2}), 3U);
  EXPECT_EQ(bytes_of({128, 256, 0}), 3U);
  EXPECT_EQ(bytes_of({0, 129}), 3U);
  EXPECT_EQ(bytes_of({kMaxRows - 1}), 6U);
}

TEST_F(PackedUpdatesTest, AListIsSentOnce) {
  const Updates<float> updates{{}, {{8, {1.5F}}, {3, {2.5F}}}};
  const auto first = pack(updates, {.names = Names::kNewList, .list = 9});
  EXPECT_EQ(first.size(), kHeaders + 2 * 8 + 2 * 2);
  EXPECT_EQ(bits_of(unpack<float>(first)), bits_of(updates));
  const auto second = pack(updates, {.names = Names::kList, .list = 9});
  EXPECT_EQ(second.size(), kHeaders + 2 * 2);
  const auto read = PackedUpdates::read(*decode_bulk(second), ValueType::kFloat, 1, decompressor_);
  EXPECT_EQ(read->keys(), 0U);
  EXPECT_EQ(read->count(), 2U);
  EXPECT_EQ(read->header().list, 9U);
}

/// 500 of one value, rows and all of 1,500 bytes.
Updates<float> easy_updates() {
  Updates<float> updates;
  for (std::uint64_t row = 0; row < 500; ++row) updates.rows.push_back({row, {1.5F}});
  return updates;
}

TEST_F(PackedUpdatesTest, TheBodyIsCompressed) {
  const std::span<std::byte> bytes = pack(easy_updates(), {.is_ahead = 1});
  const PackedHeader before = header_of(bytes);
  ASSERT_EQ(bytes.size(), kHeaders + 500 * (1 + 2));
  EXPECT_EQ(before.body_bytes, 0U);
  const std::span<std::byte> shorter = compress(bytes);
  EXPECT_LT(shorter.size(), kHeaders + 100);
  EXPECT_EQ(header_of(shorter).body_bytes, 1500U);
  EXPECT_EQ(header_of(shorter).is_ahead, 1);
  EXPECT_EQ(header_of(shorter).by_row, 500U);
  EXPECT_EQ(decode_bulk(shorter)->header.count, 500U);
  EXPECT_EQ(bits_of(unpack<float>(shorter)), bits_of(easy_updates()));
}

TEST_F(PackedUpdatesTest, WhatDoesNotBecomeShorterStaysAsItIs) {
  std::mt19937_64 random(1);
  Updates<std::int64_t> updates;
  for (int i = 0; i < 100; ++i) updates.keys.push_back({random(), {static_cast<std::int64_t>(random())}});
  const std::span<std::byte> bytes = pack(updates);
  const std::vector<std::byte> before(bytes.begin(), bytes.end());
  const std::span<std::byte> after = compress(bytes);
  EXPECT_TRUE(std::ranges::equal(after, before));
  EXPECT_EQ(header_of(after).body_bytes, 0U);
  const std::span<std::byte> shortest = pack<float>({{{0, {1}}}, {}});
  EXPECT_EQ(compress(shortest).size(), shortest.size());
}

TEST_F(PackedUpdatesTest, RoomIsNotExceeded) {
  const Updates<float> updates{{{1, {1.1F}}, {2, {1.1F}}}, {}};
  const std::size_t length = kHeaders + 2 * (1 + 4);
  EXPECT_EQ(pack(updates, {}, (length + 7) / 8 * 8).size(), length);
  EXPECT_TRUE(pack(updates, {}, length / 8 * 8).empty());
}

TEST_F(PackedUpdatesTest, WrongLengthsAreRefused) {
  std::vector<float> values(40);
  values[1] = 1.1F;
  const Updates<float> updates{{{1, values}, {700, values}}, {{5, values}}};
  const auto bytes = pack(updates);
  ASSERT_EQ(header_of(bytes).has_zeros, 1);
  EXPECT_EQ(error_of(bytes, ValueType::kFloat), "");
  for (std::size_t length = sizeof(BulkHeader); length < bytes.size(); ++length)
    EXPECT_THAT(error_of(bytes.first(length), ValueType::kFloat), ::testing::HasSubstr("3 packed updates"));
  const auto with = [&](const std::function<void(BulkHeader&, PackedHeader&)>& change) {
    std::vector<std::uint64_t> copy = memory_;
    const std::span<std::byte> to = std::as_writable_bytes(std::span(copy));
    auto header = base::load_once<BulkHeader>(to.data());
    PackedHeader packed = header_of(bytes);
    change(header, packed);
    std::memcpy(to.data(), &header, sizeof header);
    std::memcpy(to.data() + sizeof header, &packed, sizeof packed);
    return error_of(std::as_bytes(std::span(copy)).first(bytes.size()), ValueType::kFloat);
  };
  EXPECT_EQ(with([](BulkHeader&, PackedHeader&) {}), "");
  EXPECT_NE(with([](BulkHeader& header, PackedHeader&) { header.count = 0; }), "");
  EXPECT_NE(with([](BulkHeader& header, PackedHeader&) { header.count = UINT32_MAX; }), "");
  EXPECT_NE(with([](BulkHeader& header, PackedHeader&) { header.count = 1; }), "");
  EXPECT_NE(with([](BulkHeader&, PackedHeader& packed) { packed.by_row = 4; }), "");
  EXPECT_NE(with([](BulkHeader&, PackedHeader& packed) { packed.distance_bytes = UINT32_MAX; }), "");
  EXPECT_NE(with([](BulkHeader&, PackedHeader& packed) { packed.form = PackedHeader::Form::kFloat; }), "");
  EXPECT_NE(with([](BulkHeader&, PackedHeader& packed) { packed.form = PackedHeader::Form{77}; }), "");
  EXPECT_NE(with([](BulkHeader&, PackedHeader& packed) { packed.names = Names{3}; }), "");
  EXPECT_NE(with([](BulkHeader&, PackedHeader& packed) { packed.names = Names::kList; }), "");
  EXPECT_NE(with([](BulkHeader&, PackedHeader& packed) { packed.has_zeros = 0; }), "");
  EXPECT_NE(with([](BulkHeader&, PackedHeader& packed) { packed.list = kMaxKeyLists; }), "");
}

TEST_F(PackedUpdatesTest, WrongFramesAreRefused) {
  using ::testing::HasSubstr;
  const std::span<std::byte> bytes = compress(pack(easy_updates()));
  const auto error = [&](std::span<const std::byte> message) { return error_of(message, ValueType::kFloat); };
  EXPECT_EQ(error(bytes), "");
  for (std::size_t length = kHeaders; length < bytes.size(); ++length)
    EXPECT_THAT(error(bytes.first(length)), HasSubstr("which are no zstd frame that holds 1500"));
  EXPECT_THAT(error(std::as_bytes(std::span(memory_)).first(bytes.size() + 1)), HasSubstr("no zstd frame"));
  const auto with = [&](std::uint32_t count, std::uint32_t body_bytes) {
    std::vector<std::uint64_t> copy = memory_;
    auto header = base::load_once<BulkHeader>(bytes.data());
    PackedHeader packed = header_of(bytes);
    header.count = count;
    packed.by_row = count;
    packed.body_bytes = body_bytes;
    const std::span<std::byte> to = std::as_writable_bytes(std::span(copy));
    std::memcpy(to.data(), &header, sizeof header);
    std::memcpy(to.data() + sizeof header, &packed, sizeof packed);
    return error(to.first(bytes.size()));
  };
  EXPECT_EQ(with(500, 1500), "");
  EXPECT_THAT(with(500, 1499), HasSubstr("no zstd frame that holds 1499"));
  EXPECT_THAT(with(500, 1501), HasSubstr("no zstd frame that holds 1501"));
  EXPECT_THAT(with(500, 8001), HasSubstr("in 8001 bytes before compression, expected at most 8000"));
  EXPECT_THAT(with(500, UINT32_MAX), HasSubstr("expected at most 8000"));
  EXPECT_THAT(with(90, 1500), HasSubstr("expected at most 1440"));
  EXPECT_THAT(with(499, 1500), HasSubstr("499 packed updates in"))
      << "the frame is right, its contents are not";
  EXPECT_THAT(with(500, 0), HasSubstr("500 packed updates in"));
}

/// What was compressed is read from a copy.
TEST_F(PackedUpdatesTest, ACompressedBodyMayChangeMeanwhile) {
  const std::span<std::byte> bytes = compress(pack(easy_updates()));
  ASSERT_GT(header_of(bytes).body_bytes, 0U);
  auto updates = PackedUpdates::read(*decode_bulk(bytes), ValueType::kFloat, 1, decompressor_);
  ASSERT_TRUE(updates.ok());
  std::fill(bytes.begin(), bytes.end(), std::byte{0xff});
  std::vector<float> values(500);
  updates->next_values(500, reinterpret_cast<std::byte*>(values.data()), sizeof(float));
  for (std::uint64_t row = 0; row < 500; ++row) EXPECT_EQ(updates->next_row(), row);
  EXPECT_THAT(values, ::testing::Each(1.5F));
}

/// The sender may change the message while it is read.
TEST_F(PackedUpdatesTest, WhatChangesMeanwhileIsNotReadBeyondItsEnd) {
  std::vector<float> values(40);
  values[1] = 1.1F;
  const auto bytes = pack<float>({{{1, values}, {700, values}}, {}});
  std::vector<std::uint64_t> exact((bytes.size() + 7) / 8);
  std::memcpy(exact.data(), bytes.data(), bytes.size());
  auto updates = PackedUpdates::read(*decode_bulk(std::as_bytes(std::span(exact)).first(bytes.size())),
                                     ValueType::kFloat, 40, decompressor_);
  ASSERT_TRUE(updates.ok());
  std::memset(reinterpret_cast<std::byte*>(exact.data()) + kHeaders, 0xff, bytes.size() - kHeaders);
  EXPECT_FALSE(updates->next_row().has_value()) << "a number without an end";
  std::vector<float> found(80);
  updates->next_values(2, reinterpret_cast<std::byte*>(found.data()), 40 * sizeof(float));
  EXPECT_TRUE(std::isnan(found[1])) << "what is there now";
  EXPECT_EQ(found[79], 0) << "more values than there are";
}

TEST(PushEncodingTest, TextsAreUnderstood) {
  using Kind = PushEncoding::Kind;
  EXPECT_EQ(PushEncoding::find("auto")->kind, Kind::kAuto);
  EXPECT_EQ(PushEncoding::find("records")->kind, Kind::kRecords);
  EXPECT_EQ(PushEncoding::find("packed")->kind, Kind::kPacked);
  EXPECT_EQ(PushEncoding::find("packed")->listed_keys, 0U);
  EXPECT_EQ(PushEncoding::find("packed(lists=500)")->listed_keys, 500U);
  EXPECT_EQ(PushEncoding::find("packed(lists=500)")->zstd_level, 0);
  EXPECT_EQ(PushEncoding::find("packed(zstd=3)")->zstd_level, 3);
  EXPECT_EQ(PushEncoding::find("packed(zstd=3)")->listed_keys, 0U);
  EXPECT_EQ(PushEncoding::find("packed(lists=500,zstd=19)")->zstd_level, 19);
  EXPECT_EQ(PushEncoding::find("packed(zstd=0)")->zstd_level, 0);
  const auto error_of = [](std::string_view text) {
    return std::string(PushEncoding::find(text).status().message());
  };
  using ::testing::HasSubstr;
  EXPECT_THAT(error_of("zip"), HasSubstr("expected auto, records or packed(lists=NUMBER,zstd=NUMBER)"));
  EXPECT_THAT(error_of("packed(zstd=20)"),
              HasSubstr("zstd of the encoding \"packed\": expected 0 to 19, found 20"));
  EXPECT_THAT(error_of("packed(zstd=-1)"), HasSubstr("expected 0 to 19, found -1"));
  EXPECT_THAT(error_of("packed(zstd=0.5)"), HasSubstr("zstd of packed(zstd=0.5) is 0.5, no whole number"));
  EXPECT_THAT(error_of("packed(zip=1)"), HasSubstr("no parameter \"zip\", but lists, zstd"));
  EXPECT_FALSE(PushEncoding::find("records(zstd=1)").ok());
  EXPECT_FALSE(PushEncoding::find("auto(lists=1)").ok());
  EXPECT_FALSE(PushEncoding::find("packed(lists=1e9)").ok());
}

}  // namespace
}  // namespace verbena::protocol
