// A worker dies, and another process takes its place. The tests send the dying worker's messages one by one,
// so that it dies exactly where they want.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/cluster.hpp"
#include "tests/cluster/peer.hpp"

namespace verbena::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint32_t kServersOfSums = 2;
constexpr std::uint64_t kSums = 2;  // one on each server
constexpr auto kPatienceAtTheEnd = std::chrono::seconds(20);

TableOptions sums(const ConsistencyModel& consistency) {
  return {.name = "sums", .rows = kSums, .width = 1, .consistency = consistency};
}

ClusterOptions with_replacements() {
  ClusterOptions options{.servers = kServersOfSums, .workers = 2};
  options.push_ring_bytes = Peer::kRingBytes;  // as the dying worker's
  options.replaces_workers = true;
  return options;
}

/// Worker 1, which will die.
class DyingWorker {
 public:
  DyingWorker(const ServerThreads& servers, const std::string& consistency)
      : options_(servers.session_options(1)) {
    for (std::uint32_t server = 0; server < kServersOfSums; ++server) {
      auto peer = std::make_unique<Peer>(
          *options_.transport, *options_.transport->connect(options_.servers[server],
                                                            options_.transport->now() + Peer::kPatience));
      peer->connection().user_data = server;
      peers_.push_back(std::move(peer));
      at(server).say_hello(
          {.worker = 1, .workers = options_.workers, .server = server, .servers = kServersOfSums, .node = 1});
      at(server).set_ring(at(server).hear<protocol::Welcome>().inbox);
      at(server).say(protocol::OpenTable{.table = 0,
                                         .value_type = ValueType::kFloat,
                                         .rows = kSums,
                                         .width = 1,
                                         .name = "sums",
                                         .consistency = consistency});
      at(server).hear<protocol::TableOpened>();
    }
  }
  Peer& at(std::uint32_t server) { return *peers_[server]; }
  /// Pushes to the server's row in clock 0.
  void push(std::uint32_t server, float update) {
    std::string record(sizeof(Key) + sizeof(double), '\0');
    const Key key = server;
    std::memcpy(record.data(), &key, sizeof key);
    std::memcpy(record.data() + sizeof key, &update, sizeof update);
    at(server).send({.kind = protocol::BulkKind::kUpdates, .table = 0, .count = 1}, record);
  }
  void finish_clock(std::uint32_t server) {
    at(server).send({.kind = protocol::BulkKind::kClock, .clock = 1});
  }
  void die() { peers_.clear(); }

 private:
  SessionOptions options_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

std::unique_ptr<Session> session_of(const ServerThreads& servers, std::uint32_t rank,
                                    std::uint32_t incarnation = 0) {
  SessionOptions options = servers.session_options(rank);
  options.incarnation = incarnation;
  auto session = Session::connect(options);
  EXPECT_TRUE(session.ok()) << session.status();
  return session.ok() ? std::move(*session) : nullptr;
}

/// What a worker does: it pushes 1 to each row in each of two clocks, unless that was done, and reads them.
absl::StatusOr<std::vector<float>> push_and_read(Session& session, const ConsistencyModel& consistency,
                                                 float update, std::vector<bool>* was_catching_up = nullptr) {
  auto table = session.table<float>(sums(consistency));
  if (!table.ok()) return table.status();
  for (int clock = 0; clock < 2; ++clock) {
    if (was_catching_up != nullptr) was_catching_up->push_back(session.is_catching_up());
    const std::vector<float> updates(kSums, update);
    if (absl::Status status = table->push(KeyRange{0, kSums}, updates); !status.ok()) return status;
    if (absl::Status status = session.clock(); !status.ok()) return status;
  }
  if (absl::Status status = session.barrier(); !status.ok()) return status;
  std::vector<float> rows(kSums);
  if (absl::Status status = table->pull(KeyRange{0, kSums}, rows); !status.ok()) return status;
  return rows;
}

/// Worker 0 pushes 1 in each of two clocks, the process in worker 1's place 10; the dead one has pushed what
/// it has. Returns the rows that both see.
std::vector<float> rows_after(const ServerThreads& servers, const ConsistencyModel& consistency,
                              std::vector<bool>* was_catching_up = nullptr) {
  auto other = std::async(std::launch::async, [&] {
    const auto session = session_of(servers, 0);
    return push_and_read(*session, consistency, 1);
  });
  const auto session = session_of(servers, 1, 1);
  const auto rows = push_and_read(*session, consistency, 10, was_catching_up);
  EXPECT_TRUE(rows.ok()) << rows.status();
  const auto rows_of_other = other.get();
  EXPECT_TRUE(rows_of_other.ok()) << rows_of_other.status();
  if (rows.ok() && rows_of_other.ok()) {
    EXPECT_EQ(*rows, *rows_of_other);
  }
  return rows.ok() ? *rows : std::vector<float>();
}

void expect_good_end(ServerThreads& servers) {
  for (const absl::Status& status : servers.join(kPatienceAtTheEnd)) EXPECT_TRUE(status.ok()) << status;
}

TEST(ReplacementTest, OfAnUnfinishedClockNothingCountsUnderBsp) {
  ServerThreads servers(with_replacements());
  DyingWorker victim(servers, "bsp");
  victim.push(0, 100);
  victim.push(1, 100);
  victim.die();
  std::vector<bool> was_catching_up;
  EXPECT_THAT(rows_after(servers, Bsp{}, &was_catching_up), ElementsAre(22, 22));
  EXPECT_THAT(was_catching_up, ElementsAre(false, false));
  expect_good_end(servers);
}

TEST(ReplacementTest, AFinishedClockCountsAndIsNotDoneAgain) {
  ServerThreads servers(with_replacements());
  DyingWorker victim(servers, "bsp");
  for (const std::uint32_t server : {0U, 1U}) {
    victim.push(server, 100);
    victim.finish_clock(server);
  }
  victim.die();
  std::vector<bool> was_catching_up;
  EXPECT_THAT(rows_after(servers, Bsp{}, &was_catching_up), ElementsAre(112, 112));
  EXPECT_THAT(was_catching_up, ElementsAre(true, false));
  expect_good_end(servers);
}

TEST(ReplacementTest, AClockThatOneServerHasIsDoneAgainForTheOther) {
  for (const ConsistencyModel& consistency :
       {ConsistencyModel(Bsp{}), ConsistencyModel(Ssp{.staleness = 1})}) {
    SCOPED_TRACE(to_string(consistency));
    ServerThreads servers(with_replacements());
    DyingWorker victim(servers, to_string(consistency));
    victim.push(0, 100);
    victim.finish_clock(0);
    victim.die();
    std::vector<bool> was_catching_up;
    EXPECT_THAT(rows_after(servers, consistency, &was_catching_up), ElementsAre(112, 22));
    EXPECT_THAT(was_catching_up, ElementsAre(false, false));
    expect_good_end(servers);
  }
}

TEST(ReplacementTest, WhatHasComeCountsUnderSsp) {
  ServerThreads servers(with_replacements());
  DyingWorker victim(servers, "ssp:1");
  victim.push(0, 100);
  victim.die();
  EXPECT_THAT(rows_after(servers, Ssp{.staleness = 1}), ElementsAre(122, 22));
  expect_good_end(servers);
}

TEST(ReplacementTest, AProcessMayDieInAWorkersPlace) {
  ServerThreads servers(with_replacements());
  DyingWorker(servers, "bsp").die();
  {
    SessionOptions options = servers.session_options(1);
    Peer peer(*options.transport,
              *options.transport->connect(options.servers[0], options.transport->now() + Peer::kPatience));
    peer.say_hello(
        {.worker = 1, .workers = 2, .server = 0, .servers = kServersOfSums, .node = 1, .incarnation = 1});
    peer.hear<protocol::Welcome>();
  }
  auto other =
      std::async(std::launch::async, [&] { return push_and_read(*session_of(servers, 0), Bsp{}, 1); });
  const auto rows = push_and_read(*session_of(servers, 1, 2), Bsp{}, 10);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(*rows, ElementsAre(22, 22));
  EXPECT_TRUE(other.get().ok());
}

TEST(ReplacementTest, AnIncarnationBeforeIsRefused) {
  ServerThreads servers(with_replacements());
  DyingWorker(servers, "bsp").die();
  const auto session = session_of(servers, 1, 2);
  SessionOptions late = servers.session_options(1);
  late.incarnation = 1;
  const auto refused = Session::connect(late);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(message_of(refused.status()), HasSubstr("another process has taken the place of worker 1"));
}

/// Whoever starts workers hears of it, too, and decides whether that is the end.
TEST(ReplacementTest, OneThatGivesUpIsAsOneThatHasDied) {
  ServerThreads servers(with_replacements());
  const auto gives_up = session_of(servers, 1);
  EXPECT_TRUE(gives_up->give_up(absl::UnavailableError("it cannot go on")).ok());
  EXPECT_THAT(rows_after(servers, Bsp{}), ElementsAre(22, 22));
  expect_good_end(servers);
}

TEST(ReplacementTest, IsRefusedInAJobThatWaitsForNobody) {
  ClusterOptions in_vain = with_replacements();
  in_vain.replaces_workers = false;
  ServerThreads servers(in_vain);
  SessionOptions options = servers.session_options(1);
  options.incarnation = 1;
  options.timeout_ms = 5000;
  const auto refused = Session::connect(options);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(message_of(refused.status()), HasSubstr("a job that waits for nobody"));
  const DyingWorker lives(servers, "bsp");
  options.transport = servers.session_options(1).transport;
  const auto also_refused = Session::connect(options);
  ASSERT_FALSE(also_refused.ok());
  EXPECT_THAT(message_of(also_refused.status()), HasSubstr("a job that waits for nobody"));
}

TEST(ReplacementTest, FunctionsThatChangeRowsAreNotCalledAgain) {
  ServerThreads servers(with_replacements());
  DyingWorker victim(servers, "ssp:1");
  victim.finish_clock(0);
  victim.die();
  auto session = session_of(servers, 1, 1);
  auto table = session->table<float>(sums(Ssp{.staleness = 1}));
  ASSERT_TRUE(table.ok()) << table.status();
  const auto called = table->call("set", std::vector<Key>{0}, std::vector<double>{7});
  EXPECT_EQ(called.status().code(), absl::StatusCode::kFailedPrecondition) << called.status();
  EXPECT_THAT(message_of(called.status()), HasSubstr("cannot be called again"));
  static_cast<void>(session->give_up(absl::AbortedError("the test is over")));
}

}  // namespace
}  // namespace verbena::testing
