// Protocol messages that anyone may have written.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <span>

#include "base/compression.hpp"
#include "protocol/messages.hpp"
#include "protocol/packed_updates.hpp"
#include "protocol/server_function.hpp"
#include "tests/fuzz/mutator.hpp"

namespace verbena::protocol {
namespace {

using verbena::testing::GuardedMemory;
using verbena::testing::Mutator;

constexpr int kMessageRounds = verbena::testing::rounds(200'000);

std::vector<std::string> extreme_numbers() {
  std::vector<std::string> all = verbena::testing::bytes_of_each<std::uint32_t>(
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, kVersion + 1, kMaxLanes + 1, kMaxWorkers + 1, kMaxWidth + 1,
       1U << 31U, std::numeric_limits<std::uint32_t>::max()});
  for (std::string& large :
       verbena::testing::bytes_of_each<std::uint64_t>({0, 1, kMaxRows, kMaxRows + 1, std::uint64_t{1} << 63U,
                                                       std::numeric_limits<std::uint64_t>::max()})) {
    all.push_back(std::move(large));
  }
  return all;
}

/// What protocol/messages.hpp promises of a message that was accepted.
struct PossibleFields {
  void operator()(const Hello& hello) const {
    EXPECT_LT(hello.worker, hello.workers);
    EXPECT_LE(hello.workers, kMaxWorkers);
    EXPECT_LT(hello.server, hello.servers);
    EXPECT_LT(hello.node, hello.servers);
  }
  void operator()(const Welcome& welcome) const {
    EXPECT_GE(welcome.lanes, 1U);
    EXPECT_LE(welcome.lanes, kMaxLanes);
  }
  void operator()(const OpenTable& open) const {
    EXPECT_NE(value_bytes(open.value_type), 0U);
    EXPECT_TRUE(open.rows >= 1 && open.rows <= kMaxRows) << open.rows;
    EXPECT_TRUE(open.width >= 1 && open.width <= kMaxWidth) << open.width;
    EXPECT_LE(open.name.size(), kMaxNameBytes);
    EXPECT_LE(open.allocation, Allocation::kDynamic);
  }
  void operator()(const Failed& failed) const {
    EXPECT_NE(failed.code, 0U) << "a failure has no code of OK";
    EXPECT_LE(failed.reason.size(), kMaxReasonBytes);
  }
  void operator()(const TableOpened& /*opened*/) const {}
  void operator()(const Goodbye& /*goodbye*/) const {}
  void operator()(const EndIteration& end) const { EXPECT_GE(end.clock, 0); }
  void operator()(const KeyRequests& requests) const {
    EXPECT_TRUE(requests.kind >= KeyRequests::Kind::kLocate && requests.kind <= KeyRequests::Kind::kRestore);
    EXPECT_TRUE(!requests.rows.empty() && requests.rows.size() <= MessageRoom<KeyRequests::Row>::kMaxItems);
    for (const KeyRequests::Row& row : requests.rows) EXPECT_LE(row.epoch, SlotHeader::kMaxEpoch);
  }
  void operator()(const KeyAnswers& answers) const {
    EXPECT_TRUE(!answers.answers.empty() &&
                answers.answers.size() <= MessageRoom<KeyAnswers::Answer>::kMaxItems);
    for (const KeyAnswers::Answer& answer : answers.answers) {
      EXPECT_TRUE(answer.kind >= KeyAnswers::Kind::kOwned && answer.kind <= KeyAnswers::Kind::kHasImage);
      EXPECT_LE(answer.epoch, SlotHeader::kMaxEpoch);
    }
  }
  void operator()(const PushAnswer& answer) const {
    EXPECT_TRUE(answer.records >= 1 && answer.records <= kMaxPushRecords) << answer.records;
    EXPECT_TRUE(std::is_sorted(answer.moved.begin(), answer.moved.end()));
    EXPECT_TRUE(answer.moved.empty() || answer.moved.back() < answer.records);
  }
  void operator()(const InstallAnswer& /*answer*/) const {}
  void operator()(const RegionAdded& added) const {
    EXPECT_TRUE(std::has_single_bit(added.items));
    EXPECT_LT(static_cast<std::uint32_t>(added.kind), kRegionKinds);
  }
  void operator()(const Follow& follow) const { EXPECT_LT(follow.server, follow.servers); }
  void operator()(const Followed& /*followed*/) const {}
  void operator()(const Adopted& /*adopted*/) const {}
  void operator()(const ServerGone& /*gone*/) const {}
  void operator()(const MovesEnded& /*ended*/) const {}
  void operator()(const Census& /*census*/) const {}
  void operator()(const ServerAt& at) const {
    EXPECT_TRUE(!at.address.empty() && at.address.size() <= kMaxPathBytes);
  }
  void operator()(const BackUp& up) const {
    EXPECT_TRUE(up.server < up.servers && up.of < up.servers && up.server != up.of);
  }
  void operator()(const BackedUp& /*up*/) const {}
  void operator()(const Observe& /*observe*/) const {}
  void operator()(const Observed& observed) const {
    EXPECT_LT(observed.server, observed.servers);
    EXPECT_TRUE(observed.lanes >= 1 && observed.lanes <= kMaxLanes) << observed.lanes;
  }
  void operator()(const Describe& /*describe*/) const {}
  void operator()(const Inspect& inspect) const {
    EXPECT_LE(inspect.text.size(), kMaxNameBytes);
    EXPECT_LE(inspect.keys.size(), kMaxInspectedKeys);
  }
  void operator()(const SaveRows& save) const {
    EXPECT_GE(save.clock, 1);
    EXPECT_TRUE(save.since >= 0 && save.since < save.clock);
    EXPECT_TRUE(!save.folder.empty() && save.folder.size() <= kMaxPathBytes);
  }
  void operator()(const PartSaved& saved) const {
    EXPECT_LE(saved.stage, PartSaved::Stage::kWritten);
    EXPECT_LT(saved.rank, kMaxWorkers);
    EXPECT_LE(saved.reason.size(), kMaxReasonBytes);
  }
  void operator()(const Inspected& inspected) const { EXPECT_LE(inspected.words.size(), kMaxInspectedWords); }
};

TEST(ProtocolFuzz, ControlMessages) {
  Mutator mutator(
      1,
      {encode(Hello{.worker = 1, .workers = 4, .pid = 99, .servers = 2, .inbox_bytes = 4096}),
       encode(Welcome{.pid = 7, .lanes = 3, .inbox = {8, 9, 10}}),
       encode(SaveRows{.clock = 7, .since = 5, .is_base = true, .folder = "/saved/ckpt-7.tmp"}),
       encode(PartSaved{.clock = 7, .is_worker = true, .rank = 1, .code = 8, .reason = "no room"}),
       encode(OpenTable{.table = 3,
                        .value_type = ValueType::kInt32,
                        .rows = 1000,
                        .width = 50,
                        .name = "topic words",
                        .consistency = "essp:4"}),
       encode(TableOpened{.table = 3, .shard = {14, 15, 16}}),
       encode(Goodbye{}),
       encode(Failed{.code = 14, .reason = "worker 2 is gone"}),
       encode(EndIteration{.clock = 9}),
       encode(
           KeyRequests{.kind = KeyRequests::Kind::kHandOver, .table = 3, .rows = {{7, 1}, {8, 1}, {9, 2}}}),
       encode(KeyAnswers{
           .table = 3,
           .answers = {{.key = 7, .kind = KeyAnswers::Kind::kTake, .node = 1, .epoch = 5}, {.key = 8}}}),
       encode(PushAnswer{.table = 3, .tag = 9, .records = 70, .moved = {0, 5, 66}}),
       encode(InstallAnswer{.table = 3, .tag = 9}),
       encode(RegionAdded{.table = 3, .lane = 1, .kind = RegionKind::kRows, .number = 2, .items = 64}),
       encode(Observe{}),
       encode(Observed{.server = 1, .servers = 2, .lanes = 3}),
       encode(Describe{.table = 1}),
       encode(Inspect{.table = 1, .text = "top(count=2)", .keys = {7, 8}}),
       encode(Inspected{.rows = 3, .words_left = 2, .words = {1, 2, 3}}),
       encode(Follow{.server = 1, .servers = 2, .workers = 4, .lanes = 3, .records = 27}),
       encode(Followed{.pid = 7, .log_credit = {8, 9, 10}}),
       encode(Adopted{.configuration = 6}),
       encode(ServerGone{.server = 1}),
       encode(MovesEnded{.gone = 2}),
       encode(Census{.table = 3, .server = 1, .gone = 2}),
       encode(ServerAt{.server = 1, .address = "shm:job/server-1"}),
       encode(BackUp{.pid = 7, .server = 1, .servers = 3, .ring = {8, 9, 10}}),
       encode(BackedUp{.credit = {8, 9, 10}})},
      extreme_numbers());
  GuardedMemory memory;
  std::array<int, std::variant_size_v<ControlMessage>> accepted{};
  for (int round = 0; round < kMessageRounds; ++round) {
    const std::string bytes = mutator.next();
    const absl::StatusOr<ControlMessage> decoded =
        decode_control(std::as_bytes(std::span(memory.put(bytes))));
    if (!decoded.ok()) {
      ASSERT_EQ(decoded.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++accepted[decoded->index()];
    std::visit(PossibleFields(), *decoded);
    const std::string again = encode(*decoded);
    ASSERT_EQ(again.size(), bytes.size());
    const auto back = decode_control(std::as_bytes(std::span(again)));
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(encode(*back), again);
    if (::testing::Test::HasFailure()) return;
  }
  for (const int count : accepted) EXPECT_GT(count, 0) << "some messages of each kind must be accepted";
}

std::string bulk(BulkKind kind, std::uint32_t count, std::size_t stride_bytes, Key first) {
  const BulkHeader header{.kind = kind, .table = 1, .lane = 2, .count = count, .clock = 7, .applied = 3};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  if (kind == BulkKind::kPush || kind == BulkKind::kInstall) bytes.append(sizeof(Tag), '\1');
  for (Key key = first; key < first + count; ++key) {
    bytes.append(reinterpret_cast<const char*>(&key), sizeof key);
    bytes.append(stride_bytes, 'x');
  }
  return bytes;
}

std::string example_counts(std::uint64_t processed, std::uint64_t planned) {
  const BulkHeader header{.kind = BulkKind::kClock, .count = 1, .clock = 7};
  const ExampleCounts counts{.processed = processed, .planned = planned};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes.append(reinterpret_cast<const char*>(&counts), sizeof counts);
}

std::string call(std::string_view text, const std::vector<Key>& keys, std::uint32_t numbers_a_key) {
  const std::vector<double> numbers(keys.size() * numbers_a_key, 0.5);
  const BulkHeader header{.kind = BulkKind::kCall, .count = static_cast<std::uint32_t>(keys.size())};
  std::string bytes(call_bytes(text.size()) + keys.size() * call_bytes_a_key(numbers_a_key), '\0');
  encode_call(header,
              {.tag = 5,
               .range = keys.empty() ? KeyRange{100, 108} : KeyRange{},
               .keys = keys,
               .numbers_a_key = numbers_a_key,
               .numbers = numbers,
               .text = text},
              std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// In one piece.
std::string answer() {
  const std::vector<std::uint64_t> words = encode_answer({.result = {.keys = {100}, .numbers = {1, 2}}});
  const BulkHeader header{.kind = BulkKind::kResult, .count = static_cast<std::uint32_t>(words.size())};
  const ResultPiece piece{.tag = 5};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(&piece), sizeof piece);
  return bytes.append(reinterpret_cast<const char*>(words.data()), words.size() * sizeof words[0]);
}

/// Two updates by row, one by key, mostly zeros.
std::string packed(PackedHeader::Names names) {
  const std::vector<float> values = {0, 0, 0, 1.1F};
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  UpdatePacker packer(ValueType::kFloat, 4);
  for (const std::uint64_t row : {std::uint64_t{3}, std::uint64_t{700}}) {
    if (names == PackedHeader::Names::kRowsAndKeys) packer.add_row(row, bytes);
  }
  packer.add_key(105, bytes);
  std::vector<std::uint64_t> memory(64);
  const auto length = packer.pack({}, {.names = names, .list = 2}, std::as_writable_bytes(std::span(memory)));
  return {reinterpret_cast<const char*>(memory.data()), *length};
}

/// As many as are worth it.
std::string compressed() {
  const std::vector<float> values = {1.1F, 1.1F, 1.1F, 1.1F};
  UpdatePacker packer(ValueType::kFloat, 4);
  for (std::uint64_t row = 0; row < 30; ++row)
    packer.add_row(row, reinterpret_cast<const std::byte*>(values.data()));
  std::vector<std::uint64_t> memory(200);
  const std::span<std::byte> bytes = std::as_writable_bytes(std::span(memory));
  const auto length = packer.pack({}, {}, bytes);
  base::Compressor compressor(1);
  return {reinterpret_cast<const char*>(memory.data()), compress_packed(bytes.first(*length), compressor)};
}

/// Reads all of it, as a server does.
void read_packed(const BulkMessage& message, base::Decompressor& decompressor, int& good,
                 int& compressed_too) {
  auto updates = PackedUpdates::read(message, ValueType::kFloat, 4, decompressor);
  if (!updates.ok()) {
    ASSERT_EQ(updates.status().code(), absl::StatusCode::kInvalidArgument);
    return;
  }
  ASSERT_LE(updates->header().by_row + updates->keys(), updates->count());
  std::uint64_t least = 0;
  for (std::uint32_t i = 0; i < updates->header().by_row; ++i) {
    const std::optional<std::uint64_t> row = updates->next_row();
    if (!row) return;
    ASSERT_GE(*row, least);
    least = *row + 1;
  }
  for (std::uint32_t i = 0; i < updates->keys(); ++i) static_cast<void>(updates->key(i));
  std::vector<float> values(4);
  for (std::uint32_t i = 0; i < std::min(updates->count(), 100U); ++i)
    updates->next_values(1, reinterpret_cast<std::byte*>(values.data()), 16);
  ++good;
  compressed_too += updates->header().body_bytes > 0 ? 1 : 0;
}

TEST(ProtocolFuzz, BulkMessages) {
  constexpr std::size_t kStrideBytes = 16;
  constexpr KeyRange kRange{100, 108};
  Mutator mutator(
      2,
      {bulk(BulkKind::kUpdates, 3, kStrideBytes, 100), bulk(BulkKind::kClock, 0, 0, 0), example_counts(3, 9),
       bulk(BulkKind::kSubscribe, 5, 0, 103), bulk(BulkKind::kUnsubscribe, 1, 0, 100),
       bulk(BulkKind::kRows, 2, kStrideBytes, 106), bulk(BulkKind::kPush, 2, kStrideBytes, 101),
       bulk(BulkKind::kInstall, 2, kStrideBytes, 104), bulk(BulkKind::kElsewhere, 1, kStrideBytes, 107),
       call("set", {100, 107}, 2), call("top(count=2)", {}, 0), answer(),
       packed(PackedHeader::Names::kRowsAndKeys), packed(PackedHeader::Names::kNewList),
       packed(PackedHeader::Names::kList), compressed()},
      extreme_numbers());
  GuardedMemory memory;
  int records = 0;
  int keys = 0;
  int example_counts_seen = 0;
  int tags = 0;
  int places = 0;
  int calls = 0;
  int answers = 0;
  int packed_seen = 0;
  int compressed_seen = 0;
  base::Decompressor decompressor;
  for (int round = 0; round < kMessageRounds; ++round) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(memory.put(mutator.next())));
    absl::StatusOr<BulkMessage> message = decode_bulk(bytes);
    const bool has_tag = message.ok() && (message->header.kind == BulkKind::kPush ||
                                          message->header.kind == BulkKind::kInstall);
    if (has_tag) {
      const absl::StatusOr<Tag> tag = take_tag(*message);
      ASSERT_EQ(tag.ok(), bytes.size() >= sizeof(BulkHeader) + sizeof(Tag));
      tags += tag.ok() ? 1 : 0;
      if (!tag.ok()) continue;
    }
    if (!message.ok()) {
      ASSERT_EQ(message.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ASSERT_TRUE(message->header.kind >= BulkKind::kUpdates && message->header.kind <= BulkKind::kAllSent);
    if (message->header.kind == BulkKind::kPackedUpdates)
      read_packed(*message, decompressor, packed_seen, compressed_seen);
    ASSERT_EQ(message->payload.data() + message->payload.size(), bytes.data() + bytes.size());
    const absl::StatusOr<Descriptor> place = decode_elsewhere(*message);
    ASSERT_EQ(place.ok(), message->payload.size() == sizeof(Descriptor));
    places += place.ok() ? 1 : 0;
    if (check_records(*message, kStrideBytes, kRange).ok()) {
      ++records;
      ASSERT_EQ(message->payload.size(), message->header.count * record_bytes(kStrideBytes));
      for (std::size_t i = 0; i < message->header.count; ++i) {
        const Key key = record_key(message->payload, kStrideBytes, i);
        ASSERT_TRUE(key >= kRange.first && key < kRange.last) << key;
        const std::byte* const values = record_values(message->payload, kStrideBytes, i);
        ASSERT_TRUE(values >= bytes.data() && values + kStrideBytes <= bytes.data() + bytes.size());
      }
    }
    if (message->header.kind == BulkKind::kCall) {
      const absl::StatusOr<CallMessage> call = decode_call(*message);
      calls += call.ok() ? 1 : 0;
      if (call.ok()) {
        ASSERT_EQ(call->keys.size(), message->header.count);
        ASSERT_EQ(call->numbers.size(), call->keys.size() * call->numbers_a_key);
        ASSERT_EQ(message->payload.size() + sizeof(BulkHeader),
                  call_bytes(call->text.size()) + call->keys.size() * call_bytes_a_key(call->numbers_a_key));
        // Whatever the text is.
        static_cast<void>(
            BoundFunction::find(call->text, UpdateRule(ValueType::kFloat, 2), call->numbers_a_key));
      }
    }
    std::vector<std::uint64_t> words;
    if (message->header.kind == BulkKind::kResult && take_piece(*message, words).ok()) {
      ASSERT_EQ(words.size(), message->header.count);
      answers += decode_answer(words).ok() ? 1 : 0;
    }
    if (const auto counts = decode_example_counts(*message); counts.ok() && counts->planned > 0) {
      ++example_counts_seen;
      ASSERT_LE(counts->processed, counts->planned);
      ASSERT_LE(counts->planned, kMaxExamples);
    }
    if (check_keys(*message, kRange).ok()) {
      ++keys;
      ASSERT_EQ(message->payload.size(), message->header.count * sizeof(Key));
      for (std::size_t i = 0; i < message->header.count; ++i) {
        const Key key = record_key(message->payload, 0, i);
        ASSERT_TRUE(key >= kRange.first && key < kRange.last) << key;
      }
    }
  }
  EXPECT_GT(records, kMessageRounds / 100);
  EXPECT_GT(keys, kMessageRounds / 100);
  EXPECT_GT(example_counts_seen, kMessageRounds / 1000);
  EXPECT_GT(tags, kMessageRounds / 100);
  EXPECT_GT(places, kMessageRounds / 100);
  EXPECT_GT(calls, kMessageRounds / 100);
  EXPECT_GT(answers, kMessageRounds / 1000);
  EXPECT_GT(packed_seen, kMessageRounds / 100);
  EXPECT_GT(compressed_seen, kMessageRounds / 1000);
}

}  // namespace
}  // namespace verbena::protocol
