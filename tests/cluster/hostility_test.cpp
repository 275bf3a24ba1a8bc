// Peers that break the protocol's rules. A stranger is refused, and the job goes on. A worker or server of
// the job ends it, and all others are told its name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "base/compression.hpp"
#include "protocol/messages.hpp"
#include "protocol/packed_updates.hpp"
#include "protocol/row_stride.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/impostor.hpp"
#include "tests/cluster/peer.hpp"
#include "transport/shm/shm_transport.hpp"

namespace verbena::testing {
namespace {

using protocol::BulkHeader;
using protocol::BulkKind;
using ::testing::HasSubstr;

const protocol::OpenTable kTable = {.table = 0,
                                    .value_type = ValueType::kFloat,
                                    .rows = 10,
                                    .width = 2,
                                    .name = "rows",
                                    .consistency = "bsp"};
const protocol::OpenTable kDynamicTable = {.table = 1,
                                           .value_type = ValueType::kFloat,
                                           .rows = 10,
                                           .width = 2,
                                           .name = "moving",
                                           .allocation = Allocation::kDynamic,
                                           .consistency = "sequential"};
const protocol::OpenTable kSparseTable = {.table = 1,
                                          .value_type = ValueType::kFloat,
                                          .key_space = KeySpace::kSparse,
                                          .rows = 10,
                                          .width = 2,
                                          .name = "sparse",
                                          .consistency = "asp"};
const TableOptions kSameTable = {.name = "rows", .rows = 10, .width = 2, .consistency = Bsp{}};

std::string record(Key key) {
  std::string bytes(protocol::record_bytes(protocol::row_stride_bytes(kTable.value_type, kTable.width)),
                    '\0');
  std::memcpy(bytes.data(), &key, sizeof key);
  return bytes;
}
std::string key_bytes(Key key) {
  return std::string(reinterpret_cast<const char*>(&key), sizeof key);
}
using Names = protocol::PackedHeader::Names;
/// The payload of packed updates: one, of the key, or, without one, of the row.
std::string packed(std::optional<Key> key, Names names, std::uint64_t row = 0) {
  const std::array<float, 2> values = {};
  const auto* const bytes = reinterpret_cast<const std::byte*>(values.data());
  protocol::UpdatePacker packer(kTable.value_type, kTable.width);
  if (key) packer.add_key(*key, bytes);
  if (!key) packer.add_row(row, bytes);
  std::array<std::uint64_t, 16> memory = {};
  const auto length = packer.pack({}, {.names = names, .list = 5}, std::as_writable_bytes(std::span(memory)));
  return std::string(reinterpret_cast<const char*>(memory.data()), *length).substr(sizeof(BulkHeader));
}
/// The payload of packed updates of a row, with a frame in the place of their body.
std::string compressed(std::uint32_t body_bytes, const std::string& frame) {
  std::string payload = packed({}, Names::kRowsAndKeys).substr(0, sizeof(protocol::PackedHeader));
  std::memcpy(payload.data() + offsetof(protocol::PackedHeader, body_bytes), &body_bytes, sizeof body_bytes);
  return payload + frame;
}
std::string frame_of(const std::string& bytes) {
  base::Compressor compressor(1);
  const auto frame = compressor.compress(std::as_bytes(std::span(bytes)), 1000);
  return {reinterpret_cast<const char*>(frame.data()), frame.size()};
}
/// The tag of a push or an install.
const std::string kTag = key_bytes(77);

/// Says hello as one of two workers, in a job of one server.
void say_hello(Peer& peer, std::uint32_t worker) {
  peer.say_hello({.worker = worker, .workers = 2, .server = 0, .servers = 1});
}

/// A connection to the job's only server, which does not say hello by itself.
struct Visitor {
  explicit Visitor(const ServerThreads& servers)
      : options(servers.session_options(1)),
        peer(*options.transport,
             *options.transport->connect(options.servers[0], options.transport->now() + Peer::kPatience)) {}
  /// Joins as worker 1 of 2, and opens a table.
  void join() {
    say_hello(peer, 1);
    peer.set_ring(peer.hear<protocol::Welcome>().inbox);
    peer.say(kTable);
    EXPECT_EQ(peer.hear<protocol::TableOpened>().table, 0U);
  }
  SessionOptions options;
  Peer peer;
};

/// Connects as worker 0 and waits for worker 1 at a barrier, which only the end of the job ends.
std::future<absl::Status> wait_for_the_other(const ServerThreads& servers) {
  std::promise<void> connected;
  std::future<void> is_connected = connected.get_future();
  auto ended =
      std::async(std::launch::async, [&servers, connected = std::move(connected)]() mutable -> absl::Status {
        auto session = Session::connect(servers.session_options(0));
        connected.set_value();
        if (!session.ok()) return session.status();
        auto table = (*session)->table<float>(kSameTable);
        return table.ok() ? (*session)->barrier() : table.status();
      });
  is_connected.wait();
  return ended;
}

TEST(HostilityTest, StrangersAreRefusedAndTheJobGoesOn) {
  ServerThreads servers({.servers = 1, .workers = 2});
  auto job = std::async(std::launch::async, [&] {
    auto session = Session::connect(servers.session_options(0));
    return session.ok() ? (*session)->table<float>(kSameTable).status() : session.status();
  });
  std::string other_version = protocol::encode(protocol::Goodbye{});
  other_version[4] = protocol::kVersion + 1;
  const std::vector<std::pair<std::string, std::string>> all = {
      {"what?", "not Verbena"},
      {other_version, fmt::format("protocol version {}", protocol::kVersion + 1)},
      {protocol::encode(kTable), "before its hello"},
      {protocol::encode(protocol::Goodbye{}), "before its hello"},
      {protocol::encode(protocol::Welcome{.lanes = 1}), "before its hello"},
      {protocol::encode(protocol::Hello{.worker = 1, .workers = 3, .servers = 1}), "a job of 2 workers"},
      {protocol::encode(protocol::Hello{.worker = 1, .workers = 2, .servers = 1, .inbox_bytes = 7}), "rings"},
      {protocol::encode(protocol::Hello{.worker = 1, .workers = 2, .servers = 1, .configuration = 2}),
       "does not serve in configuration 1"},
      {protocol::encode(protocol::Follow{.servers = 1, .workers = 2, .lanes = 1}), "no place for a copy"},
      {protocol::encode(protocol::Follow{.servers = 1, .workers = 3, .lanes = 1}),
       "wants to follow server 0"},
      {protocol::encode(protocol::Followed{}), "is not followed"},
      {protocol::encode(protocol::Adopted{}), "before its hello"},
  };
  for (const auto& [said, answer] : all) {
    Visitor visitor(servers);
    visitor.peer.say(said);
    EXPECT_THAT(visitor.peer.hear<protocol::Failed>().reason, HasSubstr(answer));
  }
  {
    Visitor visitor(servers);
    visitor.peer.notify(8);
    EXPECT_THAT(visitor.peer.hear<protocol::Failed>().reason, HasSubstr("before its hello"));
  }
  EXPECT_TRUE(job.get().ok());
  auto second = Session::connect(servers.session_options(1));
  EXPECT_TRUE(second.ok()) << second.status();
}

/// Shared memory with a limit of regions, with a clock that can be put forward, and whose owner can run out
/// of memory.
class TestedTransport final : public transport::Transport {
 public:
  absl::StatusOr<std::unique_ptr<transport::MemoryRegion>> allocate_region(
      std::size_t bytes, transport::Access access) override {
    if (left == 0) return absl::ResourceExhaustedError("no memory, says the test");
    if (left > 0) --left;
    return inner_->allocate_region(bytes, access);
  }
  absl::Status listen(const std::string& address) override { return inner_->listen(address); }
  [[nodiscard]] std::string listening_address() const override { return inner_->listening_address(); }
  absl::StatusOr<std::unique_ptr<transport::Connection>> connect(const std::string& address,
                                                                 transport::TimePoint deadline) override {
    return inner_->connect(address, deadline);
  }
  std::unique_ptr<transport::Connection> take_accepted() override { return inner_->take_accepted(); }
  [[nodiscard]] std::size_t poll(std::span<transport::Event> events) override {
    if (has_run_out) throw std::bad_alloc();
    return inner_->poll(events);
  }
  void wait(transport::TimePoint deadline) override { inner_->wait(deadline - ahead.load()); }
  void interrupt() override { inner_->interrupt(); }
  [[nodiscard]] transport::TimePoint now() const override { return inner_->now() + ahead.load(); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return inner_->max_message_bytes(); }
  [[nodiscard]] std::string_view name() const override { return inner_->name(); }

  std::atomic<int> left = -1;  ///< regions that can still be allocated; below 0: any number
  std::atomic<std::chrono::seconds> ahead = std::chrono::seconds(0);
  std::atomic<bool> has_run_out = false;  ///< poll() finds no memory

 private:
  const std::unique_ptr<transport::Transport> inner_ = std::move(*transport::make_shm_transport());
};

/// A server for two workers, over the transport `own`.
ServerThreads server_with(const std::shared_ptr<TestedTransport>& own) {
  return ServerThreads(
      {.servers = 1,
       .workers = 2,
       .make_transport = [own](std::uint32_t number) -> std::shared_ptr<transport::Transport> {
         if (number == 0) return own;
         return std::move(*transport::make_shm_transport());
       }});
}

TEST(HostilityTest, AWorkerThatThereIsNoMemoryForIsNoneAndCountsAsNone) {
  const auto memory = std::make_shared<TestedTransport>();
  ServerThreads servers = server_with(memory);
  // The admission of a worker takes several regions. Each of them is once the one that there is no memory
  // for.
  constexpr int kRegions = 4;
  for (int left = 0; left < kRegions; ++left) {
    Visitor visitor(servers);
    memory->left = left;
    say_hello(visitor.peer, 1);
    EXPECT_THAT(visitor.peer.hear<protocol::Failed>().reason, HasSubstr("no memory, says the test")) << left;
    EXPECT_EQ(memory->left, 0) << "an admission takes fewer regions than this test expects";
    memory->left = -1;
  }
  // The refused worker's rank is free, and two workers can train.
  const auto train = [](Session& session) {
    auto table = session.table<float>(kSameTable);
    return table.ok() ? session.barrier() : table.status();
  };
  memory->left = kRegions;
  auto first = Session::connect(servers.session_options(0));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(memory->left, 0) << "an admission takes more regions, or fewer, than were tried above";
  memory->left = -1;
  auto second = std::async(std::launch::async, [&]() -> absl::Status {
    auto session = Session::connect(servers.session_options(1));
    return session.ok() ? train(**session) : session.status();
  });
  EXPECT_EQ(train(**first), absl::OkStatus());
  first->reset();
  EXPECT_EQ(second.get(), absl::OkStatus());
  EXPECT_EQ(servers.join(Peer::kPatience)[0], absl::OkStatus());
}

TEST(HostilityTest, AServerThatRunsOutOfMemorySaysSo) {
  const auto own = std::make_shared<TestedTransport>();
  ServerThreads servers = server_with(own);
  auto first = Session::connect(servers.session_options(0));
  ASSERT_TRUE(first.ok()) << first.status();
  own->has_run_out = true;
  EXPECT_THAT(message_of(servers.join(Peer::kPatience)[0]), HasSubstr("no memory left"));
}

/// Whether the server closes the connection within Peer::kPatience.
bool is_closed(Peer& peer) {
  const auto end = std::chrono::steady_clock::now() + Peer::kPatience;
  while (peer.connection().status().ok() && std::chrono::steady_clock::now() < end) peer.poll();
  return !peer.connection().status().ok();
}

TEST(HostilityTest, WhoDoesNotSayWhichWorkerItIsIsClosedInTime) {
  const auto own = std::make_shared<TestedTransport>();
  ServerThreads servers = server_with(own);
  auto job = wait_for_the_other(servers);
  Visitor silent(servers);
  Visitor refused(servers);  // its answer shows that the server has accepted both
  refused.peer.say("what?");
  refused.peer.hear<protocol::Failed>();
  own->ahead = std::chrono::seconds(40);
  EXPECT_TRUE(is_closed(silent.peer));
  EXPECT_TRUE(is_closed(refused.peer));
  Visitor worker(servers);
  worker.join();
  EXPECT_TRUE(worker.peer.connection().status().ok());
  worker.peer.say(protocol::Failed{.code = 10, .reason = "the test is over"});
  EXPECT_THAT(message_of(job.get()), HasSubstr("the test is over"));
}

TEST(HostilityTest, NothingMoreOfARefusedStrangerIsHeard) {
  ServerThreads servers({.servers = 1, .workers = 2});
  Visitor refused(servers);
  refused.peer.say("what?");
  say_hello(refused.peer, 1);
  EXPECT_TRUE(is_closed(refused.peer));
  Visitor worker(servers);
  worker.join();
}

TEST(HostilityTest, OfManyWhoDoNotSayWhichWorkerTheyAreTheOldestAreClosed) {
  constexpr std::size_t kMost = 64 + 2;  // the server's bound (server/peer.cpp), for a job of two workers
  ServerThreads servers({.servers = 1, .workers = 2});
  std::deque<Visitor> crowd;
  while (crowd.size() < kMost) crowd.emplace_back(servers);
  EXPECT_TRUE(crowd.front().peer.connection().status().ok());
  crowd.emplace_back(servers);
  // If the server finds the proofs of two at the same time, it may accept the second one first.
  const auto closed_of_the_oldest = [&] {
    return std::count_if(crowd.begin(), crowd.begin() + 2, [](Visitor& one) {
      one.peer.poll();
      return !one.peer.connection().status().ok();
    });
  };
  const auto end = std::chrono::steady_clock::now() + Peer::kPatience;
  while (closed_of_the_oldest() == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(closed_of_the_oldest(), 1);
  crowd[2].peer.poll();
  EXPECT_TRUE(crowd[2].peer.connection().status().ok());
  say_hello(crowd.back().peer, 1);
  EXPECT_EQ(crowd.back().peer.hear<protocol::Welcome>().lanes, 1U);
}

TEST(HostilityTest, AStrangerThatDoesNotReadDoesNotKeepAJobFromEnding) {
  ServerThreads servers({.servers = 1, .workers = 1});
  Visitor stranger(servers);
  // It causes more answers than its connection has room for: some wait in the server until it reads.
  for (int said = 0; said < 70;) {
    if (stranger.peer.try_to_say(protocol::Goodbye{})) ++said;
    std::this_thread::yield();
  }
  {
    auto session = Session::connect(servers.session_options(0));
    ASSERT_TRUE(session.ok()) << session.status();
  }
  // The server ends without waiting for the time after which it closes strangers.
  EXPECT_EQ(servers.join(Peer::kPatience)[0], absl::OkStatus());
}

TEST(HostilityTest, AWorkerThatBreaksTheRulesIsNamed) {
  struct Case {
    std::string error;
    std::function<void(Peer&)> act;
  };
  const auto bulk = [](const BulkHeader& header, const std::string& payload = {}) {
    return [header, payload](Peer& peer) { peer.send(header, payload); };
  };
  const auto elsewhere = [](const BulkHeader& header, const std::string& payload, std::size_t offset) {
    return [=](Peer& peer) { peer.send_elsewhere(header, payload, offset); };
  };
  const auto control = [](const protocol::ControlMessage& message) {
    return [message](Peer& peer) { peer.say(message); };
  };
  using protocol::KeyRequests;
  const auto open_dynamic = [](Peer& peer) {
    peer.say(kDynamicTable);
    EXPECT_EQ(peer.hear<protocol::TableOpened>().table, 1U);
  };
  const auto about_dynamic = [&](const protocol::ControlMessage& message) {
    return [=](Peer& peer) {
      open_dynamic(peer);
      peer.say(message);
    };
  };
  const auto dynamic_bulk = [&](const BulkHeader& header, const std::string& payload) {
    return [=](Peer& peer) {
      open_dynamic(peer);
      peer.send(header, payload);
    };
  };
  protocol::OpenTable with_clocks = kDynamicTable;
  with_clocks.consistency = "ssp:1";
  // A call without a name: its answer says that there is no such function.
  const std::string of_range = key_bytes(0) + key_bytes(0) + key_bytes(10) + key_bytes(0);
  const std::string slot = key_bytes(3) + key_bytes(std::uint64_t{1} << 24) + key_bytes(0);
  // A byte for the row, and one that says that its values are zeros.
  const std::string body = packed({}, Names::kRowsAndKeys).substr(sizeof(protocol::PackedHeader));
  ASSERT_EQ(body.size(), 2U);
  const std::string frame = frame_of(body);
  const auto one_packed = [&](const std::string& payload) {
    return bulk({.kind = BulkKind::kPackedUpdates, .count = 1}, payload);
  };
  // Under bsp what is pushed is looked at when all workers have finished the clock.
  const auto at_clock = [](const std::function<void(Peer&)>& push) {
    return [=](Peer& peer) {
      push(peer);
      peer.send({.kind = BulkKind::kClock, .clock = 1});
    };
  };
  protocol::OpenTable other_table = kTable;
  other_table.table = 7;
  protocol::OpenTable second_table = kTable;
  second_table.table = 1;
  const std::vector<Case> cases = {
      {"not Verbena", [](Peer& peer) { peer.say("what?"); }},
      {"hello twice", [](Peer& peer) { say_hello(peer, 1); }},
      {"only a server sends", control(protocol::Welcome{.lanes = 1})},
      {"has adopted nothing", control(protocol::Adopted{})},
      {"opens table 7", control(other_table)},
      {"a checkpoint of clock 5 at clock 0", control(protocol::SaveRows{.clock = 5, .folder = "/tmp"})},
      {"part 1 of a checkpoint of clock 5 at clock 0",
       control(protocol::PartSaved{.clock = 5,
                                   .stage = protocol::PartSaved::Stage::kWritten,
                                   .is_worker = true,
                                   .rank = 1})},
      {"table 1 by the name of table 0, \"rows\"", control(second_table)},
      {"no header", [](Peer& peer) { peer.notify(8); }},
      {"4294967295 bytes", [](Peer& peer) { peer.notify(std::numeric_limits<std::uint32_t>::max()); }},
      {"unknown kind", bulk({.kind = static_cast<BulkKind>(99)})},
      {"only a server sends", bulk({.kind = BulkKind::kRows})},
      {"table 7", bulk({.kind = BulkKind::kUpdates, .table = 7, .count = 1}, record(3))},
      {"lane 9", bulk({.kind = BulkKind::kUpdates, .lane = 9, .count = 1}, record(3))},
      {"key 10", at_clock(bulk({.kind = BulkKind::kUpdates, .count = 1}, record(10)))},
      {"expected 2 records", bulk({.kind = BulkKind::kUpdates, .count = 2}, record(3))},
      {"clock 3", bulk({.kind = BulkKind::kUpdates, .count = 1, .clock = 3}, record(3))},
      {"where a message is, found 8 bytes", bulk({.kind = BulkKind::kElsewhere}, key_bytes(3))},
      {"cannot read",
       [](Peer& peer) {
         protocol::Descriptor unreadable = peer.any_memory();
         unreadable.length_bytes = 64;
         peer.send_place(unreadable);
       }},
      {"cannot read", [](Peer& peer) { peer.send_place({}); }},
      {"cannot read", elsewhere({.kind = BulkKind::kUpdates, .count = 1}, record(3), 4)},
      {"no header",
       [](Peer& peer) {
         protocol::Descriptor where = peer.make_readable_memory();
         where.length_bytes = sizeof(BulkHeader) - 1;
         peer.send_place(where);
       }},
      {"a message of 528 bytes elsewhere, expected at most 512",
       elsewhere({.kind = BulkKind::kUpdates, .count = 30}, std::string(480, '\0'), 0)},
      {"leaves a message of kind 2 elsewhere", elsewhere({.kind = BulkKind::kClock, .clock = 1}, "", 0)},
      {"leaves a message of kind 9 elsewhere", elsewhere({.kind = BulkKind::kElsewhere}, "", 0)},
      {"key 10", at_clock(elsewhere({.kind = BulkKind::kUpdates, .count = 1}, record(10), 0))},
      {"expected 2 records", elsewhere({.kind = BulkKind::kUpdatesAhead, .count = 2}, record(3), 0)},
      {"1 packed updates in 8 bytes", bulk({.kind = BulkKind::kPackedUpdates, .count = 1}, key_bytes(3))},
      {"key 10", bulk({.kind = BulkKind::kPackedUpdates, .count = 1}, packed(10, Names::kRowsAndKeys))},
      {"update of row 10, expected less than 10",
       bulk({.kind = BulkKind::kPackedUpdates, .count = 1}, packed({}, Names::kRowsAndKeys, 10))},
      {"clock 3", bulk({.kind = BulkKind::kPackedUpdates, .count = 1, .clock = 3}, packed(3, Names::kNewList))},
      {"list 5, which was never sent",
       bulk({.kind = BulkKind::kPackedUpdates, .count = 1}, packed(3, Names::kList))},
      {"32 packed updates, as records a message of 560 bytes, expected at most 512",
       bulk({.kind = BulkKind::kPackedUpdates, .count = 32}, packed(3, Names::kRowsAndKeys))},
      {"in 0 bytes, which are no zstd frame that holds 2", one_packed(compressed(2, ""))},
      {"no zstd frame that holds 2", one_packed(compressed(2, frame.substr(0, frame.size() - 1)))},
      {"no zstd frame that holds 2", one_packed(compressed(2, "what?"))},
      {"no zstd frame that holds 3", one_packed(compressed(3, frame))},
      {"in 17 bytes before compression, expected at most 16", one_packed(compressed(17, frame))},
      {"in 4294967295 bytes before compression, expected at most 16",
       one_packed(compressed(std::numeric_limits<std::uint32_t>::max(), frame))},
      {"1 packed updates in", one_packed(compressed(3, frame_of(body + "?")))},
      {"update of row 10, expected less than 10",
       one_packed(compressed(2, frame_of("\x0a" + body.substr(1))))},
      {"no zstd frame that holds 2",
       elsewhere({.kind = BulkKind::kPackedUpdates, .count = 1}, compressed(2, "what?"), 0)},
      {"clock 0 after", bulk({.kind = BulkKind::kClock, .clock = 0})},
      {"after clock 0", bulk({.kind = BulkKind::kClock, .clock = std::numeric_limits<std::int64_t>::max()})},
      {"clock -1 after", bulk({.kind = BulkKind::kClock, .clock = -1})},
      {"example counts in 8 bytes", bulk({.kind = BulkKind::kClock, .count = 1, .clock = 1}, key_bytes(10))},
      {"5 of 4 examples",
       bulk({.kind = BulkKind::kClock, .count = 1, .clock = 1}, key_bytes(5) + key_bytes(4))},
      {"end of clock -1", control(protocol::EndIteration{-1})},
      {"ends the iteration of clock 1 at clock 0", control(protocol::EndIteration{1})},
      {"ends the iteration of clock 0 at clock 0, after that of 0",
       [](Peer& peer) {
         peer.say(protocol::EndIteration{0});
         peer.say(protocol::EndIteration{0});
       }},
      {"key 10", bulk({.kind = BulkKind::kSubscribe, .count = 1}, key_bytes(10))},
      {"expected 2 keys", bulk({.kind = BulkKind::kSubscribe, .count = 2}, key_bytes(3))},
      {"a call of 0 bytes", bulk({.kind = BulkKind::kCall})},
      {"a call of clock 3 at clock 0", bulk({.kind = BulkKind::kCall, .clock = 3}, of_range)},
      {"a call of 32 bytes, expected 40", bulk({.kind = BulkKind::kCall, .count = 1}, of_range)},
      {"sent a message of kind 10 for table 1, which is dynamic",
       dynamic_bulk({.kind = BulkKind::kCall, .table = 1}, of_range)},
      {"only a server sends", bulk({.kind = BulkKind::kResult})},
      {"only a server sends", bulk({.kind = BulkKind::kGone})},
      {"says in 8 bytes what it has heard of lane 0", bulk({.kind = BulkKind::kHeard, .count = 1}, key_bytes(3))},
      {"says in 0 bytes what it has heard of lane 9", bulk({.kind = BulkKind::kHeard, .lane = 9})},
      {"works with sequential and asp", control(with_clocks)},
      {"which is not dynamic", control(KeyRequests{.table = 0, .rows = {{3, 0}}})},
      {"which is not dynamic", control(KeyRequests{.table = 1, .rows = {{3, 0}}})},
      {"about key 10", about_dynamic(KeyRequests{.table = 1, .rows = {{3, 0}, {10, 0}}})},
      {"about key 10",
       about_dynamic(KeyRequests{.kind = KeyRequests::Kind::kHandOver, .table = 1, .rows = {{10, 0}}})},
      {"key 3 has arrived",
       about_dynamic(KeyRequests{.kind = KeyRequests::Kind::kArrived, .table = 1, .rows = {{3, 1}}})},
      {"ends an intent on key 3",
       about_dynamic(KeyRequests{.kind = KeyRequests::Kind::kDone, .table = 1, .rows = {{3, 0}}})},
      {"key 3 has arrived",
       about_dynamic(KeyRequests{.kind = KeyRequests::Kind::kSettled, .table = 1, .rows = {{3, 1}}})},
      {"key 3 has been kept",
       about_dynamic(KeyRequests{.kind = KeyRequests::Kind::kKept, .table = 1, .rows = {{3, 0}}})},
      {"about key 10",
       about_dynamic(KeyRequests{.kind = KeyRequests::Kind::kReleased, .table = 1, .rows = {{10, 0}}})},
      {"that server 0 is gone", control(protocol::ServerGone{.server = 0})},
      {"that server 7 is gone", control(protocol::ServerGone{.server = 7})},
      {"knows of 1 servers that are gone", control(protocol::MovesEnded{.gone = 1})},
      {"found rows of table 0",
       control(protocol::KeyAnswers{.table = 0,
                                    .answers = {{.key = 3, .kind = protocol::KeyAnswers::Kind::kHas}}})},
      {"found key 3, which this server has not inherited",
       about_dynamic(protocol::KeyAnswers{
           .table = 1, .answers = {{.key = 3, .kind = protocol::KeyAnswers::Kind::kHas, .epoch = 1}}})},
      {"found key 3 on server 9", about_dynamic(protocol::KeyAnswers{
                                      .table = 1,
                                      .answers = {{.key = 3,
                                                   .kind = protocol::KeyAnswers::Kind::kHas,
                                                   .node = 9,
                                                   .epoch = 1}}})},
      {"ends a census of table 0", control(protocol::Census{.table = 0})},
      {"ends a census of the keys of server 0", about_dynamic(protocol::Census{.table = 1})},
      {"record of key 18446744073709551615",
       [](Peer& peer) {
         peer.say(kSparseTable);
         EXPECT_EQ(peer.hear<protocol::TableOpened>().table, 1U);
         peer.send({.kind = BulkKind::kUpdates, .table = 1, .count = 1}, record(kNoKey));
       }},
      {"which is static", bulk({.kind = BulkKind::kPush, .count = 1}, record(3))},
      {"which is dynamic", dynamic_bulk({.kind = BulkKind::kUpdates, .table = 1, .count = 1}, record(3))},
      {"key 10", dynamic_bulk({.kind = BulkKind::kPush, .table = 1, .count = 1}, kTag + record(10))},
      {"expected 2 records",
       dynamic_bulk({.kind = BulkKind::kPush, .table = 1, .count = 2}, kTag + record(3))},
      {"expected a tag", dynamic_bulk({.kind = BulkKind::kPush, .table = 1, .count = 1}, "")},
      {"a push of 0 records", dynamic_bulk({.kind = BulkKind::kPush, .table = 1, .count = 0}, kTag)},
      {"expected 1 records",
       dynamic_bulk({.kind = BulkKind::kInstall, .table = 1, .count = 1}, kTag + record(3))},
      {"expected a tag", dynamic_bulk({.kind = BulkKind::kInstall, .table = 1, .count = 1}, "")},
      {"owned here already", dynamic_bulk({.kind = BulkKind::kInstall, .table = 1, .count = 1}, kTag + slot)},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.error);
    ServerThreads servers({.servers = 1, .workers = 2});
    auto honest = wait_for_the_other(servers);
    {
      Visitor visitor(servers);
      visitor.join();
      one.act(visitor.peer);
      EXPECT_THAT(visitor.peer.hear<protocol::Failed>().reason, HasSubstr(one.error));
    }
    const absl::Status server = servers.join(Peer::kPatience)[0];
    for (const absl::Status& status : {server, honest.get()}) {
      EXPECT_THAT(message_of(status), HasSubstr(fmt::format("worker 1 (pid {})", ::getpid()))) << status;
      EXPECT_THAT(message_of(status), HasSubstr(one.error)) << status;
    }
  }
}

TEST(HostilityTest, AWorkerThatDoesNotListenIsNamed) {
  ServerThreads servers({.servers = 1, .workers = 2});
  auto honest = wait_for_the_other(servers);
  Visitor visitor(servers);
  visitor.join();
  // Each table is answered, and nobody reads the answers.
  protocol::OpenTable next = kTable;
  next.table = 0;
  while (honest.wait_for(std::chrono::seconds(0)) != std::future_status::ready && next.table < 100'000) {
    next.name = fmt::format("rows {}", next.table + 1);
    ++next.table;
    if (!visitor.peer.try_to_say(next)) --next.table;
    std::this_thread::yield();
  }
  const absl::Status server = servers.join(Peer::kPatience)[0];
  for (const absl::Status& status : {server, honest.get()}) {
    EXPECT_THAT(message_of(status), HasSubstr(fmt::format("worker 1 (pid {}) takes no messages", ::getpid())))
        << status;
  }
}

TEST(HostilityTest, AWorkerThatIsGoneWithoutAWordIsNamed) {
  ServerThreads servers({.servers = 1, .workers = 2});
  auto honest = wait_for_the_other(servers);
  Visitor(servers).join();
  const absl::Status server = servers.join(Peer::kPatience)[0];
  for (const absl::Status& status : {server, honest.get()}) {
    EXPECT_THAT(message_of(status), HasSubstr(fmt::format("worker 1 (pid {}) closed or died", ::getpid())))
        << status;
  }
  EXPECT_EQ(server.code(), absl::StatusCode::kUnavailable) << server;
}

/// On a terminal it would change the colour, and show a line that the job has not written.
constexpr const char* kPaint = "\x1b[31m\nverbena: error: done";
constexpr const char* kPaintShown = "\\u001b[31m\\nverbena: error: done";

TEST(HostilityTest, WhatAWorkerSaysComesEscaped) {
  ServerThreads servers({.servers = 1, .workers = 2});
  auto honest = wait_for_the_other(servers);
  Visitor visitor(servers);
  visitor.join();
  visitor.peer.say(protocol::Failed{.code = 10, .reason = kPaint});
  const absl::Status server = servers.join(Peer::kPatience)[0];
  for (const absl::Status& status : {server, honest.get()}) {
    EXPECT_THAT(message_of(status), HasSubstr(std::string("gave up: ") + kPaintShown)) << status;
  }
}

TEST(HostilityTest, TheNameOfATableComesEscaped) {
  ServerThreads servers({.servers = 1, .workers = 2});
  auto honest = wait_for_the_other(servers);
  Visitor visitor(servers);
  say_hello(visitor.peer, 1);
  visitor.peer.set_ring(visitor.peer.hear<protocol::Welcome>().inbox);
  protocol::OpenTable other = kTable;
  other.name = kPaint;
  visitor.peer.say(other);
  const absl::Status server = servers.join(Peer::kPatience)[0];
  for (const absl::Status& status : {server, honest.get()}) {
    EXPECT_THAT(message_of(status), HasSubstr(kPaintShown)) << status;
  }
}

TEST(HostilityTest, WhatAServerSaysComesEscaped) {
  Impostor server;
  auto connecting = std::async(std::launch::async, [&] {
    return Session::connect({.servers = {server.address()}, .timeout_ms = 20'000}).status();
  });
  server.accept().say(protocol::Failed{.code = 9, .reason = kPaint});
  EXPECT_THAT(message_of(connecting.get()), HasSubstr(kPaintShown));
}

TEST(HostilityTest, AServerThatBreaksTheRulesIsNamed) {
  struct Case {
    std::string error;
    std::function<void(Peer&)> at_hello;
    std::function<void(Peer&)> at_table;
  };
  const auto welcome = [](Peer& peer) { peer.say_welcome(1); };
  const auto with_board = [](const protocol::Descriptor& board) {
    return [board](Peer& peer) {
      protocol::Welcome wrong = peer.welcome(1);
      wrong.clock_board = board;
      peer.say(wrong);
    };
  };
  const auto bulk = [](const BulkHeader& header, const std::string& payload = {}) {
    return [header, payload](Peer& peer) { peer.send(header, payload); };
  };
  const std::vector<Case> cases = {
      {"not Verbena", [](Peer& peer) { peer.say("what?"); }, {}},
      {"0 lanes", [](Peer& peer) { peer.say_welcome(0); }, {}},
      {"only a worker sends", [](Peer& peer) { peer.say(protocol::Hello{.workers = 1, .servers = 1}); }, {}},
      {"code of OK", [](Peer& peer) { peer.say(protocol::Failed{.code = 0, .reason = "x"}); }, {}},
      {"two welcomes", welcome, welcome},
      {"an inbox of 64 bytes",
       [](Peer& peer) {
         protocol::Welcome small = peer.welcome(1);
         small.inbox.length_bytes = 64;
         peer.say(small);
       },
       {}},
      {"a clock board of 8 bytes", with_board({0, 8, 1}), {}},
      {"a clock board of 64 bytes at 0x4, expected 64 at a multiple of 8", with_board({4, 64, 1}), {}},
      {"ended the iteration of clock 2", welcome, [](Peer& peer) { peer.say(protocol::EndIteration{2}); }},
      {"nobody asked for", welcome, [](Peer& peer) { peer.say(protocol::TableOpened{.table = 5}); }},
      {"part 0 of a checkpoint", welcome, [](Peer& peer) { peer.say(protocol::PartSaved{.clock = 2}); }},
      {"part 1 of a checkpoint", welcome,
       [](Peer& peer) { peer.say(protocol::PartSaved{.clock = 0, .rank = 1}); }},
      {"8 bytes for 10 rows", welcome,
       [](Peer& peer) {
         peer.say(protocol::TableOpened{.table = 0, .shard = {0, 8, 1}});
       }},
      {"no header", welcome, [](Peer& peer) { peer.notify(8); }},
      {"kind 1", welcome, bulk({.kind = BulkKind::kUpdates})},
      {"lane 9", welcome, bulk({.kind = BulkKind::kRows, .lane = 9})},
      {"clock -1", welcome, bulk({.kind = BulkKind::kRows, .clock = -1})},
      {"5 updates applied", welcome, bulk({.kind = BulkKind::kRows, .applied = 5})},
      {"heeded 1 messages", welcome, bulk({.kind = BulkKind::kRows, .subscriptions = 1})},
      {"rows of table 0", welcome, bulk({.kind = BulkKind::kRows, .count = 1}, record(3))},
      {"rows of table 0", welcome, bulk({.kind = BulkKind::kResult}, key_bytes(0) + key_bytes(0))},
      {"says that 2 rows are gone in 8 bytes", welcome,
       bulk({.kind = BulkKind::kGone, .count = 2}, key_bytes(3))},
      {"lane 9", welcome, bulk({.kind = BulkKind::kGone, .lane = 9})},
      {"answered about rows of table 7", welcome,
       [](Peer& peer) { peer.say(protocol::PushAnswer{.table = 7, .records = 1}); }},
      {"nobody asked for",
       [](Peer& peer) {
         const protocol::Welcome later = peer.welcome(1);
         peer.say(protocol::TableOpened{.table = 0, .shard = peer.any_memory()});
         static_cast<void>(peer.try_to_say(later));  // the worker may have gone already
       },
       {}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.error);
    Impostor server;
    auto opening = std::async(std::launch::async, [&]() -> absl::Status {
      auto session = Session::connect({.servers = {server.address()}, .timeout_ms = 20'000});
      return session.ok() ? (*session)->table<float>(kSameTable).status() : session.status();
    });
    Peer& peer = server.accept();
    one.at_hello(peer);
    if (one.at_table) {
      EXPECT_EQ(peer.hear<protocol::OpenTable>().name, "rows");
      one.at_table(peer);
    }
    const absl::Status status = opening.get();
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    EXPECT_THAT(message_of(status), HasSubstr("server 0")) << status;
    EXPECT_THAT(message_of(status), HasSubstr(one.error)) << status;
  }
}

const TableOptions kCachedTable = {
    .name = "rows", .rows = 10, .width = 2, .consistency = Essp{.staleness = 1}};

/// A worker whose only server is an impostor: opens the table and does `work` in a thread of its own.
std::future<absl::Status> work_for(const Impostor& server,
                                   std::function<absl::Status(Session&, Table<float>&)> work,
                                   const TableOptions& options = kCachedTable) {
  return std::async(std::launch::async, [&server, work = std::move(work), options]() -> absl::Status {
    auto session = Session::connect(
        {.servers = {server.address()}, .read_path = ReadPath::kCached, .timeout_ms = 20'000});
    if (!session.ok()) return session.status();
    auto table = (*session)->table<float>(options);
    return table.ok() ? work(**session, *table) : table.status();
  });
}
Peer& open_for_worker(Impostor& server) {
  Peer& peer = server.accept();
  peer.say_welcome(1);
  EXPECT_EQ(peer.hear<protocol::OpenTable>().name, kCachedTable.name);
  peer.say(protocol::TableOpened{.table = 0, .shard = peer.make_readable_memory()});
  return peer;
}

TEST(HostilityTest, WrongResultsOfCallsAreRefused) {
  struct Case {
    std::string error;
    std::uint32_t count;
    std::string payload;
  };
  const std::string tag = key_bytes(0);
  const std::vector<Case> cases = {
      {"answered a call that nobody has made", 0, key_bytes(7) + key_bytes(0)},
      {"expected a tag, found 0 bytes", 0, ""},
      {"a result of 3 words in 24 bytes", 3, tag + key_bytes(0) + key_bytes(0)},
      {"a result of 1 words and 1000000 more", 1, tag + key_bytes(1'000'000) + key_bytes(0)},
      {"an answer of 1 words has no beginning", 1, tag + key_bytes(0) + key_bytes(0)},
      {"with a reason of 0 bytes, 5 keys", 2, tag + key_bytes(0) + key_bytes(0) + key_bytes(5)},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.error);
    Impostor server;
    auto worker = work_for(server, [](Session& /*session*/, const Table<float>& table) {
      return table.call("norms", kAllKeys).status();
    });
    Peer& peer = open_for_worker(server);
    while (std::none_of(peer.bulk_headers().begin(), peer.bulk_headers().end(),
                        [](const BulkHeader& header) { return header.kind == BulkKind::kLook; }))
      peer.poll();
    peer.send({.kind = BulkKind::kResult, .count = one.count}, one.payload);
    const absl::Status status = worker.get();
    EXPECT_THAT(message_of(status), HasSubstr("server 0")) << status;
    EXPECT_THAT(message_of(status), HasSubstr(one.error)) << status;
  }
}

TEST(HostilityTest, RowsOfDenseTablesDoNotGo) {
  Impostor server;
  auto worker =
      work_for(server, [](Session& session, const Table<float>& /*table*/) { return session.barrier(); });
  Peer& peer = open_for_worker(server);
  // Of a table that is not open yet it would know nothing.
  while (std::none_of(peer.bulk_headers().begin(), peer.bulk_headers().end(),
                      [](const BulkHeader& header) { return header.kind == BulkKind::kClock; }))
    peer.poll();
  peer.send({.kind = BulkKind::kGone, .count = 1}, key_bytes(3));
  EXPECT_THAT(message_of(worker.get()), HasSubstr("rows of table 0 are gone, which is not sparse"));
}

TEST(HostilityTest, AnswersThatNobodyAskedForAreRefused) {
  const TableOptions moving = {.name = kCachedTable.name,
                               .rows = 10,
                               .width = 2,
                               .consistency = Sequential{},
                               .allocation = Allocation::kDynamic};
  struct Case {
    std::string error;
    TableOptions table;
    protocol::ControlMessage answer;
  };
  const std::vector<Case> cases = {
      {"answered a push to table 0", kCachedTable, protocol::PushAnswer{.tag = 1, .records = 1}},
      {"answered an install into table 0", kCachedTable, protocol::InstallAnswer{.tag = 1}},
      {"answered push 1, which nobody has sent", moving, protocol::PushAnswer{.tag = 1, .records = 1}},
      {"answered install 1, which nobody has sent", moving, protocol::InstallAnswer{.tag = 1}},
      {"has key 3, which nobody asked", moving, protocol::KeyAnswers{.answers = {{.key = 3}}}},
      {"says that server 0 is gone", moving, protocol::ServerGone{.server = 0}},
      {"says that server 1 is gone", moving, protocol::ServerGone{.server = 1}},
      {"who owns rows of server 0 of 1", moving, protocol::Census{.server = 0}},
      {"which do not move", kCachedTable, protocol::Census{.server = 0}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.error);
    Impostor server;
    std::promise<void> opened;
    auto worker = work_for(
        server,
        [&](Session& session, Table<float>& /*table*/) {
          opened.set_value();
          return session.barrier();
        },
        one.table);
    Peer& peer = open_for_worker(server);
    opened.get_future().wait();
    peer.say(one.answer);
    const absl::Status status = worker.get();
    EXPECT_THAT(message_of(status), HasSubstr("server 0")) << status;
    EXPECT_THAT(message_of(status), HasSubstr(one.error)) << status;
  }
}

/// Otherwise a server could answer in the place of the one that was asked, and that one would be blamed.
TEST(HostilityTest, OnlyTheServerThatWasAskedAnswers) {
  const TableOptions moving = {.name = kCachedTable.name,
                               .rows = 10,
                               .width = 2,
                               .consistency = Sequential{},
                               .allocation = Allocation::kDynamic};
  using Kind = protocol::KeyAnswers::Kind;
  for (const Kind kind : {Kind::kOwned, Kind::kHere, Kind::kTake, Kind::kTaken, Kind::kLost}) {
    SCOPED_TRACE(static_cast<int>(kind));
    std::array<Impostor, 2> servers;
    auto worker = std::async(std::launch::async, [&]() -> absl::Status {
      auto session = Session::connect({.servers = {servers[0].address(), servers[1].address()},
                                       .read_path = ReadPath::kCached,
                                       .timeout_ms = 20'000});
      if (!session.ok()) return session.status();
      auto table = (*session)->table<float>(moving);
      if (!table.ok()) return table.status();
      return table->localize(std::vector<Key>{0, 9}).wait();  // the home of each is another server
    });
    std::array<Peer*, 2> peers{};
    for (std::size_t server = 0; server < 2; ++server) {
      peers[server] = &servers[server].accept();
      peers[server]->say_welcome(1);
    }
    for (Peer* const peer : peers) {
      peer->hear<protocol::OpenTable>();
      peer->say(protocol::TableOpened{.table = 0, .shard = peer->make_readable_memory()});
    }
    peers[1]->hear<protocol::KeyRequests>();
    peers[1]->say(protocol::KeyAnswers{.answers = {{.key = 0, .kind = kind, .node = 0, .epoch = 0}}});
    const absl::Status status = worker.get();
    EXPECT_THAT(message_of(status), HasSubstr("server 1")) << status;
    EXPECT_THAT(message_of(status), HasSubstr("key 0")) << status;
  }
}

/// A server overwrites the keys of rows that it has pushed, while the worker reads them. The worker refuses
/// each wrong key, and never checks one key and then uses another.
TEST(HostilityTest, KeysThatChangeWhileTheyAreReadAreRefused) {
  constexpr int kJobs = 20;
  constexpr int kMessages = 500;  // the ring has room for all
  constexpr std::uint32_t kRecords = 200;
  std::string records;
  for (std::uint32_t i = 0; i < kRecords; ++i) records += record(3);
  const std::string right = key_bytes(3);
  const std::string wrong = key_bytes(Key{1} << 42U);
  for (int job = 0; job < kJobs; ++job) {
    Impostor server;
    std::atomic<bool> ended = false;
    std::promise<void> opened;
    std::promise<void> done;
    auto worker = work_for(server, [&](Session& session, Table<float>& /*table*/) {
      opened.set_value();
      absl::Status status = session.barrier();
      ended = true;
      done.get_future().wait();
      return status;
    });
    Peer& peer = open_for_worker(server);
    opened.get_future().wait();
    for (int message = 0; message < kMessages && !ended; ++message) {
      const std::size_t last =
          peer.sender().sent_position() + sizeof(BulkHeader) + records.size() - record(3).size();
      peer.send({.kind = BulkKind::kRows, .count = kRecords}, records);
      for (int i = 0; i < 100 && !ended; ++i) peer.rewrite(last, i % 2 == 0 ? wrong : right);
    }
    if (!ended) peer.send({.kind = BulkKind::kRows, .count = 1}, wrong + std::string(8, '\0'));
    done.set_value();
    const absl::Status status = worker.get();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(message_of(status), HasSubstr("server 0")) << status;
    EXPECT_THAT(message_of(status), HasSubstr(fmt::format("record of key {}", Key{1} << 42U))) << status;
  }
}

TEST(HostilityTest, NothingMoreOfARefusedServerIsTaken) {
  Impostor server;
  std::promise<void> opened;
  std::promise<void> said;
  std::uint64_t received = 0;
  auto worker = work_for(server, [&](Session& session, Table<float>& table) -> absl::Status {
    std::vector<float> values(20);
    EXPECT_TRUE(table.pull(KeyRange{0, 10}, values).ok());
    opened.set_value();
    said.get_future().wait();
    absl::Status status = session.barrier();
    received = session.statistics().rows_eagerly_received;
    return status;
  });
  Peer& peer = open_for_worker(server);
  opened.get_future().wait();
  peer.send({.kind = BulkKind::kRows, .count = 1}, record(3));  // is taken
  peer.send({.kind = BulkKind::kRows, .lane = 9});              // is refused
  peer.send({.kind = BulkKind::kRows, .count = 2}, record(3) + record(4));
  peer.say(protocol::Failed{.code = 3, .reason = "another reason"});
  said.set_value();
  EXPECT_THAT(message_of(worker.get()), HasSubstr("lane 9"));
  EXPECT_EQ(received, 1U);
}

/// A worker's push waits for a row's lock. Meanwhile the worker overwrites one of its keys.
TEST(HostilityTest, APushThatIsRewrittenWhileItWaitsIsHarmless) {
  ServerThreads servers({.servers = 1, .workers = 2});
  auto honest = std::async(std::launch::async, [&servers]() -> absl::Status {
    auto session = Session::connect(servers.session_options(0));
    if (!session.ok()) return session.status();
    auto table = (*session)->table<float>(kSameTable);
    return table.ok() ? (*session)->barrier() : table.status();
  });
  Visitor visitor(servers);
  Peer& peer = visitor.peer;
  say_hello(peer, 1);
  peer.set_ring(peer.hear<protocol::Welcome>().inbox);
  peer.say(kTable);
  EXPECT_EQ(peer.hear<protocol::TableOpened>().table, 0U);
  peer.say(kDynamicTable);
  const auto opened = peer.hear<protocol::TableOpened>();
  std::byte* const slots = peer.connection().mapped_in_place(opened.shard.as<transport::RemoteDescriptor>());
  ASSERT_NE(slots, nullptr);
  const std::size_t slot_bytes = protocol::slot_bytes(8);
  const protocol::Slot slot = protocol::slot_at(slots, slot_bytes, 3, {0, kDynamicTable.rows});
  const protocol::SlotHeader owned = protocol::load_header(slot);
  protocol::store_header(slot, owned.held_by(2));  // as worker 1 does
  const std::string update = key_bytes(3) + std::string("\0\0\x80\x3f\0\0\x80\x3f", 8);
  peer.send({.kind = BulkKind::kPush, .table = 1, .count = 3}, kTag + update + update + update);
  // The answer comes after the server has begun with the push.
  peer.say(protocol::KeyRequests{.kind = protocol::KeyRequests::Kind::kLocate, .table = 1, .rows = {{5, 0}}});
  EXPECT_EQ(peer.hear<protocol::KeyAnswers>().answers.front().key, 5U);
  peer.rewrite(sizeof(BulkHeader) + kTag.size() + update.size(), key_bytes(Key{1} << 42U));
  protocol::store_header(slot, owned);
  EXPECT_EQ(peer.hear<protocol::PushAnswer>(), (protocol::PushAnswer{.table = 1, .tag = 77, .records = 3}));
  float value = 0;
  std::memcpy(&value, protocol::slot_values(slot), sizeof value);
  EXPECT_EQ(value, 2.0F) << "the two records with the right key must be applied";
  peer.say(protocol::Goodbye{});
  EXPECT_TRUE(honest.get().ok());
}

}  // namespace
}  // namespace verbena::testing
