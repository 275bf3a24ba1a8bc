#include "protocol/messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace verbena::protocol {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

OpenTable open_table() {
  return {.table = 3,
          .value_type = ValueType::kInt32,
          .rows = 1000,
          .width = 50,
          .name = "topic words",
          .allocation = Allocation::kDynamic,
          .consistency = "essp:4"};
}

KeyRequests requests() {
  return {.kind = KeyRequests::Kind::kHandOver, .table = 3, .rows = {{7, 1}, {9, SlotHeader::kMaxEpoch}}};
}
KeyAnswers answers() {
  return {.table = 3, .answers = {{.key = 7, .kind = KeyAnswers::Kind::kTaken, .node = 1, .epoch = 5}}};
}

Inspect inspect() {
  return {.table = 3, .lane = 1, .first_row = 258, .most_rows = 7, .text = "top", .keys = {5, 6}};
}

std::vector<ControlMessage> one_of_each() {
  return {Hello{.worker = 1,
                .workers = 4,
                .pid = 99,
                .server = 0,
                .servers = 2,
                .node = 1,
                .configuration = 6,
                .is_back = true,
                .incarnation = 3,
                .inbox_bytes = 4096,
                .push_ring = {1, 2, 3},
                .inbox_credit = {4, 5, 6},
                .heartbeat = {17, 18, 19}},
          Welcome{.pid = 7,
                  .lanes = 3,
                  .inbox = {8, 9, 10},
                  .push_credit = {11, 12, 13},
                  .heartbeat = {20, 21, 22},
                  .clock_board = {23, 24, 25},
                  .reads_in_place = true,
                  .restores_rows = true,
                  .messages = 27,
                  .clock = 28},
          open_table(),
          TableOpened{.table = 3, .shard = {14, 15, 16}},
          Goodbye{},
          Failed{.code = 14, .reason = "worker 2 is gone"},
          EndIteration{.clock = 77},
          requests(),
          answers(),
          PushAnswer{.table = 3, .tag = 8, .records = 70, .moved = {1, 69}},
          InstallAnswer{.table = 3, .tag = 8},
          RegionAdded{.table = 3,
                      .lane = 1,
                      .kind = RegionKind::kSegments,
                      .number = 5,
                      .items = 64,
                      .memory = {14, 15, 16}},
          Observe{},
          Observed{.server = 1, .servers = 2, .workers = 4, .left = 1, .lanes = 3, .tables = 5, .clock = 77},
          Describe{.table = 3},
          inspect(),
          Inspected{.rows = 258, .words_left = 9, .words = {1, 2, 3}},
          SaveRows{.clock = 77, .since = 70, .is_base = true, .folder = "/saved/ckpt-77.tmp"},
          PartSaved{.clock = 77,
                    .stage = PartSaved::Stage::kWritten,
                    .is_worker = true,
                    .rank = 3,
                    .code = 8,
                    .reason = "no room"},
          Follow{.pid = 7,
                 .server = 1,
                 .servers = 2,
                 .workers = 4,
                 .lanes = 3,
                 .configuration = 6,
                 .records = 27,
                 .has_image = false,
                 .log_ring = {8, 9, 10},
                 .heartbeat = {20, 21, 22}},
          Followed{.pid = 7, .log_credit = {8, 9, 10}},
          Adopted{.configuration = 6},
          ServerGone{.server = 1},
          MovesEnded{.gone = 2},
          Census{.table = 3, .server = 1, .gone = 2},
          ServerAt{.server = 1, .address = "shm:job/server-1"},
          BackUp{.pid = 7, .server = 1, .servers = 3, .of = 0, .ring = {8, 9, 10}},
          BackedUp{.credit = {8, 9, 10}}};
}

TEST(ControlMessageTest, EachKindSurvivesTheJourney) {
  for (const ControlMessage& message : one_of_each()) {
    const std::string bytes = encode(message);
    const absl::StatusOr<ControlMessage> decoded = decode_control(bytes_of(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->index(), message.index());
    EXPECT_EQ(encode(*decoded), bytes);
  }
  const auto decoded = decode_control(bytes_of(encode(open_table())));
  EXPECT_EQ(std::get<OpenTable>(*decoded), open_table());
}

// Golden bytes: whoever changes the layout must change kVersion.
TEST(ControlMessageTest, LayoutIsFixed) {
  const std::string bytes = encode(Failed{.code = 2, .reason = "ab"});
  const std::string expected("VRBN\33\0\0\0\6\0\0\0\0\0\0\0\2\0\0\0\2\0\0\0ab", 26);
  EXPECT_EQ(bytes, expected);
}

TEST(ControlMessageTest, LayoutOfATablesAttributesIsFixed) {
  using namespace std::string_literals;
  EXPECT_EQ(encode(OpenTable{.table = 3,
                             .value_type = ValueType::kDouble,
                             .key_space = KeySpace::kSparse,
                             .rows = 258,
                             .width = 5,
                             .name = "ab",
                             .allocation = Allocation::kDynamic,
                             .consistency = "asp",
                             .rule = "max",
                             .seed = 5}),
            "VRBN\33\0\0\0\3\0\0\0\0\0\0\0"
            "\3\0\0\0\2\0\0\0ab\2\1\0\0\0\0\0\0\5\0\0\0\2\0\0\0\1\0\0\0\3\0\0\0asp\3\0\0\0max"
            "\1\0\0\0\4\0\0\0zero\5\0\0\0\0\0\0\0\6\0\0\0always\5\0\0\0never\0\0\0\0"s);
}

TEST(ControlMessageTest, LayoutOfWhatObserversSayIsFixed) {
  using namespace std::string_literals;
  EXPECT_EQ(encode(inspect()),
            "VRBN\33\0\0\0\20\0\0\0\0\0\0\0"
            "\3\0\0\0\1\0\0\0\2\1\0\0\0\0\0\0\7\0\0\0\0\0\0\0\3\0\0\0top"
            "\2\0\0\0\5\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"s);
  EXPECT_EQ(encode(Inspected{.rows = 258, .words_left = 9, .words = {3}}),
            "VRBN\33\0\0\0\21\0\0\0\0\0\0\0"
            "\2\1\0\0\0\0\0\0\11\0\0\0\0\0\0\0\1\0\0\0\3\0\0\0\0\0\0\0"s);
}

TEST(ControlMessageTest, LayoutOfWhatIsSaidOfCheckpointsIsFixed) {
  using namespace std::string_literals;
  EXPECT_EQ(encode(SaveRows{.clock = 258, .since = 3, .is_base = true, .folder = "/a"}),
            "VRBN\33\0\0\0\22\0\0\0\0\0\0\0"
            "\2\1\0\0\0\0\0\0\3\0\0\0\0\0\0\0\1\0\0\0\2\0\0\0/a"s);
  EXPECT_EQ(encode(PartSaved{.clock = 258,
                             .stage = PartSaved::Stage::kWritten,
                             .is_worker = true,
                             .rank = 3,
                             .code = 8,
                             .reason = "b"}),
            "VRBN\33\0\0\0\23\0\0\0\0\0\0\0"
            "\2\1\0\0\0\0\0\0\1\0\0\0\1\0\0\0\3\0\0\0\10\0\0\0\1\0\0\0b"s);
}

/// Folders that are none, or too long, and parts of nobody are refused.
TEST(ControlMessageTest, WhatIsSaidOfCheckpointsIsBounded) {
  const auto takes = [](const ControlMessage& message) {
    return decode_control(bytes_of(encode(message))).ok();
  };
  EXPECT_TRUE(takes(SaveRows{.clock = 1, .folder = std::string(kMaxPathBytes, 'f')}));
  EXPECT_FALSE(takes(SaveRows{.clock = 1, .folder = std::string(kMaxPathBytes + 1, 'f')}));
  EXPECT_FALSE(takes(SaveRows{.clock = 0, .folder = "f"}));
  EXPECT_TRUE(takes(SaveRows{.clock = 2, .since = 1, .folder = "f"}));
  EXPECT_FALSE(takes(SaveRows{.clock = 2, .since = 2, .folder = "f"}));
  EXPECT_FALSE(takes(SaveRows{.clock = 2, .since = -1, .folder = "f"}));
  EXPECT_FALSE(takes(SaveRows{.clock = 1, .folder = ""}));
  EXPECT_FALSE(takes(SaveRows{.clock = 1, .folder = std::string("f\0g", 3)}));
  EXPECT_FALSE(takes(PartSaved{.stage = static_cast<PartSaved::Stage>(2)}));
  EXPECT_FALSE(takes(PartSaved{.rank = kMaxWorkers}));
  OpenTable open = open_table();
  open.checkpoint = std::string(kMaxPathBytes, 'f');
  EXPECT_TRUE(takes(open));
  open.checkpoint += 'f';
  EXPECT_FALSE(takes(open));
  open.checkpoint = std::string("f\0g", 3);
  EXPECT_FALSE(takes(open));
}

/// Too many keys or words, and text that is too long, are refused, as is a length that the message has not.
TEST(ControlMessageTest, WhatObserversSayIsBounded) {
  const auto takes = [](const ControlMessage& message) {
    return decode_control(bytes_of(encode(message))).ok();
  };
  EXPECT_TRUE(takes(Inspect{.text = "f", .keys = std::vector<Key>(kMaxInspectedKeys)}));
  EXPECT_FALSE(takes(Inspect{.text = "f", .keys = std::vector<Key>(kMaxInspectedKeys + 1)}));
  EXPECT_FALSE(takes(Inspect{.text = std::string(kMaxNameBytes + 1, 'f')}));
  EXPECT_TRUE(takes(Inspected{.words = std::vector<std::uint64_t>(kMaxInspectedWords)}));
  EXPECT_FALSE(takes(Inspected{.words = std::vector<std::uint64_t>(kMaxInspectedWords + 1)}));
  EXPECT_FALSE(takes(Observed{.server = 2, .servers = 2, .lanes = 1}));
  EXPECT_FALSE(takes(Observed{.server = 1, .servers = 2, .lanes = 0}));
  std::string cut = encode(Inspected{.words = {1, 2}});
  cut.resize(cut.size() - sizeof(std::uint64_t));
  EXPECT_FALSE(decode_control(bytes_of(cut)).ok());
}

TEST(ControlMessageTest, LayoutOfRequestsAndAnswersIsFixed) {
  using namespace std::string_literals;
  EXPECT_EQ(encode(KeyRequests{.kind = KeyRequests::Kind::kArrived, .table = 3, .rows = {{7, 258}}}),
            "VRBN\33\0\0\0\10\0\0\0\0\0\0\0"
            "\4\0\0\0\3\0\0\0\1\0\0\0\7\0\0\0\0\0\0\0\2\1\0\0\0\0\0\0\1\0\0\0\0\0\0\0"s);
  EXPECT_EQ(encode(answers()),
            "VRBN\33\0\0\0\11\0\0\0\0\0\0\0"
            "\3\0\0\0\1\0\0\0\7\0\0\0\0\0\0\0\4\0\0\0\1\0\0\0\5\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"s);
  EXPECT_EQ(encode(PushAnswer{.table = 3, .tag = 258, .records = 9, .moved = {0, 8}}),
            "VRBN\33\0\0\0\12\0\0\0\0\0\0\0"
            "\3\0\0\0\11\0\0\0\2\1\0\0\0\0\0\0\1\0\0\0\1\1\0\0\0\0\0\0"s);
}

/// `count` items, whose keys are `step` apart.
template <class Item>
std::vector<Item> spread(std::size_t count, Key step, Item item) {
  std::vector<Item> items;
  for (std::size_t i = 0; i < count; ++i, item.key += step) items.push_back(item);
  return items;
}

template <class Item>
std::size_t room_for(const std::vector<Item>& items) {
  MessageRoom<Item> room;
  std::size_t count = 0;
  while (count < items.size() && room.take(items[count])) ++count;
  return count;
}

TEST(ControlMessageTest, RowsThatGoOnTravelAsOne) {
  using Row = KeyRequests::Row;
  using Answer = KeyAnswers::Answer;
  const auto size = [](std::vector<Row> rows) { return encode(KeyRequests{.rows = std::move(rows)}).size(); };
  EXPECT_EQ(size(spread<Row>(1024, 1, {7, 1})), size({{7, 1}}));
  EXPECT_EQ(size({{7, 1}, {8, 2}}), size({{7, 1}, {9, 1}}));
  const KeyAnswers mixed{.table = 3,
                         .answers = {{.key = 5, .node = 1, .epoch = 2},
                                     {.key = 6, .node = 1, .epoch = 2},
                                     {.key = 7, .node = 2, .epoch = 2},
                                     {.key = 8, .kind = KeyAnswers::Kind::kTake, .node = 2, .epoch = 2},
                                     {.key = 9, .kind = KeyAnswers::Kind::kTake, .node = 2, .epoch = 3},
                                     {.key = UINT64_MAX, .epoch = 3},
                                     {.key = 0, .epoch = 3}}};
  const auto decoded = decode_control(bytes_of(encode(mixed)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(std::get<KeyAnswers>(*decoded).answers, mixed.answers);

  EXPECT_EQ(room_for(spread<Row>(2000, 1, {7, 1})), MessageRoom<Row>::kMaxItems);
  EXPECT_EQ(room_for(spread<Row>(2000, 2, {7, 1})), MessageRoom<Row>::kMaxRuns);
  EXPECT_EQ(room_for(spread<Answer>(2000, 2, {.key = 7})), MessageRoom<Answer>::kMaxRuns);
  // A full message is not too long for a transport, and can be decoded.
  for (const Key step : {1U, 2U}) {
    auto rows = spread<Row>(2000, step, {7, 1});
    rows.resize(room_for(rows));
    auto answers = spread<Answer>(2000, step, {.key = 7});
    answers.resize(room_for(answers));
    for (const std::string& bytes :
         {encode(KeyRequests{.rows = rows}), encode(KeyAnswers{.answers = answers})}) {
      EXPECT_LE(bytes.size(), 4096U);
      EXPECT_TRUE(decode_control(bytes_of(bytes)).ok());
    }
  }
}

TEST(ControlMessageTest, ImpossibleRunsAreRefused) {
  const std::string bytes = encode(KeyRequests{.rows = {{7, 1}, {9, 1}}});
  const auto with = [&](std::size_t at, std::uint64_t number) {
    std::string changed = bytes;
    std::memcpy(changed.data() + at, &number, sizeof number);
    return decode_control(bytes_of(changed));
  };
  // Header, kind, table, number of runs; key, epoch, length; key, epoch, length.
  const std::size_t first_length = bytes.size() - 32;
  const std::size_t second_length = bytes.size() - 8;
  ASSERT_TRUE(with(first_length, 1).ok());
  EXPECT_FALSE(with(first_length, 0).ok());
  EXPECT_FALSE(with(first_length, 1025).ok());
  EXPECT_FALSE(with(first_length, UINT64_MAX).ok());
  EXPECT_TRUE(with(second_length, 1023).ok());
  EXPECT_FALSE(with(second_length, 1024).ok()) << "together the runs have more items than a message may";
  EXPECT_FALSE(with(first_length, 2).ok()) << "two runs that should be one";
}

TEST(ControlMessageTest, ImpossibleRequestsAndAnswersAreRefused) {
  const auto refused = [](const ControlMessage& message) {
    return !decode_control(bytes_of(encode(message))).ok();
  };
  for (const std::uint32_t kind : {0U, 14U, UINT32_MAX}) {
    KeyRequests strange = requests();
    strange.kind = static_cast<KeyRequests::Kind>(kind);
    EXPECT_TRUE(refused(strange)) << kind;
  }
  for (const std::uint32_t kind : {0U, 14U, UINT32_MAX}) {
    KeyAnswers strange = answers();
    strange.answers[0].kind = static_cast<KeyAnswers::Kind>(kind);
    EXPECT_TRUE(refused(strange)) << kind;
  }
  KeyRequests late = requests();
  late.rows[0].epoch = SlotHeader::kMaxEpoch + 1;
  EXPECT_TRUE(refused(late));
  KeyAnswers later = answers();
  later.answers[0].epoch = SlotHeader::kMaxEpoch + 1;
  EXPECT_TRUE(refused(later));
  KeyRequests none = requests();
  none.rows.clear();
  EXPECT_TRUE(refused(none));
  none.rows.resize(MessageRoom<KeyRequests::Row>::kMaxRuns + 1);
  EXPECT_TRUE(refused(none));
  KeyAnswers nothing = answers();
  nothing.answers.clear();
  EXPECT_TRUE(refused(nothing));
  nothing.answers.resize(MessageRoom<KeyAnswers::Answer>::kMaxRuns + 1, answers().answers[0]);
  EXPECT_TRUE(refused(nothing));
}

TEST(ControlMessageTest, AnAnswerToAPushNamesTheRecordsThatHaveMoved) {
  std::vector<std::uint32_t> all(kMaxPushRecords);
  std::iota(all.begin(), all.end(), 0U);
  const PushAnswer largest{.table = 3, .tag = UINT64_MAX, .records = kMaxPushRecords, .moved = all};
  for (const PushAnswer& answer :
       {largest, PushAnswer{.tag = 7, .records = 1, .moved = {0}}, PushAnswer{.tag = 7, .records = 65},
        PushAnswer{.tag = 7, .records = 65, .moved = {0, 63, 64}}}) {
    const std::string bytes = encode(answer);
    EXPECT_LE(bytes.size(), 4096U) << "no longer than a transport takes";
    const auto decoded = decode_control(bytes_of(bytes));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(std::get<PushAnswer>(*decoded), answer);
  }
}

TEST(ControlMessageTest, ImpossibleAnswersToPushesAreRefused) {
  const auto refused = [](std::string bytes, std::uint64_t word) {
    std::memcpy(bytes.data() + bytes.size() - sizeof word, &word, sizeof word);
    return !decode_control(bytes_of(bytes)).ok();
  };
  const std::string bytes = encode(PushAnswer{.records = 5, .moved = {4}});
  EXPECT_FALSE(refused(bytes, 1U << 4U));
  EXPECT_TRUE(refused(bytes, 1U << 5U)) << "there are five records, and the sixth has moved";
  EXPECT_TRUE(refused(bytes, 0)) << "no record has moved, but there is a word for it";
  EXPECT_FALSE(decode_control(bytes_of(encode(PushAnswer{.records = 0}))).ok());
  EXPECT_FALSE(decode_control(bytes_of(encode(PushAnswer{.records = kMaxPushRecords + 1}))).ok());
}

TEST(ControlMessageTest, EveryTruncationAndExtensionIsRefused) {
  for (const ControlMessage& message : one_of_each()) {
    const std::string bytes = encode(message);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(decode_control(bytes_of(bytes.substr(0, length))).ok());
    }
    EXPECT_FALSE(decode_control(bytes_of(bytes + std::string(8, '\0'))).ok());
  }
}

TEST(ControlMessageTest, AnotherVersionIsNamed) {
  std::string bytes = encode(Goodbye{});
  bytes[4] = static_cast<char>(kVersion + 1);
  EXPECT_EQ(std::string(decode_control(bytes_of(bytes)).status().message()),
            "the peer speaks protocol version " + std::to_string(kVersion + 1) + ", this is version " +
                std::to_string(kVersion) +
                ": its Verbena is newer than this one; all processes of a job need the same version, on all "
                "hosts");
  bytes[4] = static_cast<char>(kVersion - 1);
  EXPECT_THAT(std::string(decode_control(bytes_of(bytes)).status().message()),
              HasSubstr("its Verbena is older than this one"));
}

TEST(ControlMessageTest, ImpossibleFieldsAreRefused) {
  const auto refused = [](const ControlMessage& message) {
    return !decode_control(bytes_of(encode(message))).ok();
  };
  EXPECT_TRUE(refused(Hello{.worker = 4, .workers = 4, .servers = 1}));
  EXPECT_TRUE(refused(Hello{.worker = 0, .workers = 0, .servers = 1}));
  EXPECT_TRUE(refused(Hello{.worker = 0, .workers = kMaxWorkers + 1, .servers = 1}));
  EXPECT_TRUE(refused(Hello{.worker = 0, .workers = 1, .server = 1, .servers = 1}));
  EXPECT_TRUE(refused(Hello{.worker = 0, .workers = 1, .servers = 1, .node = 1}));
  EXPECT_TRUE(refused(Follow{.server = 1, .servers = 1}));
  EXPECT_TRUE(refused(Welcome{.lanes = 0}));
  std::string neither_yes_nor_no = encode(Welcome{.lanes = 1});
  neither_yes_nor_no[neither_yes_nor_no.size() - 2 * sizeof(std::uint64_t) - sizeof(std::uint32_t)] = 2;
  EXPECT_FALSE(decode_control(bytes_of(neither_yes_nor_no)).ok());
  EXPECT_TRUE(refused(Welcome{.lanes = 1, .clock = -1}));
  EXPECT_TRUE(refused(EndIteration{.clock = -1}));
  EXPECT_TRUE(refused(Welcome{.lanes = kMaxLanes + 1}));
  for (OpenTable open : std::vector<OpenTable>(8, open_table())) {
    static int field = 0;
    switch (field++) {
      case 0:
        open.rows = 0;
        break;
      case 1:
        open.rows = kMaxRows + 1;
        break;
      case 2:
        open.width = 0;
        break;
      case 3:
        open.allocation = static_cast<Allocation>(2);
        break;
      case 4:
        open.rule = "";
        break;
      case 5:
        open.consistency = "";
        break;
      case 6:
        open.name = "";
        break;
      default:
        open.value_type = static_cast<ValueType>(77);
    }
    EXPECT_TRUE(refused(open)) << "attribute " << field;
  }
}

TEST(OpenTableTest, DifferencesAreNamed) {
  const OpenTable first{.value_type = ValueType::kFloat,
                        .rows = 10,
                        .width = 4,
                        .name = "rows",
                        .allocation = Allocation::kStatic,
                        .consistency = "asp"};
  EXPECT_EQ(differences(first, first), "");
  OpenTable other = first;
  other.table = 7;
  EXPECT_EQ(differences(first, other), "") << "the number of a table is no difference";
  other.value_type = ValueType::kDouble;
  other.rows = 11;
  EXPECT_EQ(differences(first, other), "10 rows, then 11 rows; float, then double");
  other = {.value_type = ValueType::kInt64,
           .rows = 10,
           .width = 5,
           .name = "columns",
           .allocation = Allocation::kDynamic,
           .consistency = "bsp",
           .rule = "adagrad"};
  EXPECT_EQ(differences(first, other),
            "\"rows\", then \"columns\"; width 4, then width 5; float, then int64_t; static, then dynamic; "
            "asp, then "
            "bsp; rule add, then rule adagrad");
}

TEST(BulkMessageTest, RecordsAreCheckedAgainstTheTable) {
  constexpr std::size_t kStride = 16;
  std::vector<std::byte> bytes(sizeof(BulkHeader) + 2 * record_bytes(kStride));
  const auto fill = [&](Key first, Key second, std::uint32_t count) {
    const BulkHeader header{.kind = BulkKind::kUpdates, .count = count};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &first, sizeof first);
    std::memcpy(bytes.data() + sizeof header + record_bytes(kStride), &second, sizeof second);
    return *decode_bulk(bytes);
  };
  EXPECT_TRUE(check_records(fill(10, 19, 2), kStride, {10, 20}).ok());
  EXPECT_FALSE(check_records(fill(10, 20, 2), kStride, {10, 20}).ok());
  EXPECT_FALSE(check_records(fill(9, 10, 2), kStride, {10, 20}).ok());
  EXPECT_FALSE(check_records(fill(10, 11, 1), kStride, {10, 20}).ok());
  EXPECT_FALSE(check_records(fill(10, 11, 3), kStride, {10, 20}).ok());
  EXPECT_FALSE(check_records(fill(10, 11, UINT32_MAX), kStride, {10, 20}).ok());
  EXPECT_FALSE(check_records(fill(10, 11, 2), kStride, {0, 0}).ok());
  const BulkMessage message = fill(11, 12, 2);
  EXPECT_EQ(record_key(message.payload, kStride, 1), 12U);
  EXPECT_EQ(record_values(message.payload, kStride, 1), message.payload.data() + 24 + 8);
}

TEST(BulkMessageTest, KeysAreChecked) {
  std::vector<std::byte> bytes(sizeof(BulkHeader) + 2 * sizeof(Key));
  const auto fill = [&](Key first, Key second, std::uint32_t count) {
    const BulkHeader header{.kind = BulkKind::kSubscribe, .count = count};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &first, sizeof first);
    std::memcpy(bytes.data() + sizeof header + sizeof first, &second, sizeof second);
    return *decode_bulk(bytes);
  };
  EXPECT_TRUE(check_keys(fill(0, 4, 2), {0, 5}).ok());
  EXPECT_FALSE(check_keys(fill(0, 5, 2), {0, 5}).ok());
  EXPECT_FALSE(check_keys(fill(0, 1, 1), {0, 5}).ok());
}

TEST(BulkMessageTest, ExampleCountsAreChecked) {
  std::vector<std::byte> bytes(sizeof(BulkHeader) + sizeof(ExampleCounts));
  const auto decoded = [&](std::uint32_t count, std::size_t payload, const ExampleCounts& counts = {}) {
    const BulkHeader header{.kind = BulkKind::kClock, .count = count, .clock = 1};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &counts, sizeof counts);
    return decode_example_counts(*decode_bulk(std::span(bytes).first(sizeof header + payload)));
  };
  EXPECT_EQ(decoded(0, 0)->planned, 0U);
  const auto counts = decoded(1, sizeof(ExampleCounts), {.processed = 3, .planned = kMaxExamples});
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->processed, 3U);
  EXPECT_EQ(counts->planned, kMaxExamples);
  EXPECT_FALSE(decoded(0, sizeof(ExampleCounts)).ok());
  EXPECT_FALSE(decoded(1, 0).ok());
  EXPECT_FALSE(decoded(2, sizeof(ExampleCounts)).ok());
  EXPECT_FALSE(decoded(1, sizeof(ExampleCounts), {.processed = 3, .planned = 2}).ok());
  EXPECT_FALSE(decoded(1, sizeof(ExampleCounts), {.processed = 3, .planned = kMaxExamples + 1}).ok());
}

TEST(BulkMessageTest, HeaderIsChecked) {
  std::vector<std::byte> bytes(sizeof(BulkHeader) - 1);
  EXPECT_FALSE(decode_bulk(bytes).ok());
  bytes.resize(sizeof(BulkHeader));
  EXPECT_FALSE(decode_bulk(bytes).ok());  // kind 0
}

}  // namespace
}  // namespace verbena::protocol
