// A process that is stopped keeps its connections and says nothing. The error must name it, not those whom it
// keeps waiting. With processes that are really stopped: tests/process/silence_test.cpp.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <future>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"
#include "tests/cluster/impostor.hpp"
#include "tests/cluster/peer.hpp"

namespace verbena::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kSilenceMs = transport::kMinSilenceTimeoutMs;
const TableOptions kStaticTable = {.name = "rows", .rows = 10, .width = 2, .consistency = Bsp{}};
const TableOptions kMovingTable = {
    .name = "rows", .rows = 10, .width = 2, .consistency = Sequential{}, .allocation = Allocation::kDynamic};

/// Works as worker 0 of 2 until a call fails.
absl::Status train_until_it_fails(const ServerThreads& servers, const TableOptions& options) {
  auto session = Session::connect(servers.session_options(0));
  if (!session.ok()) return session.status();
  auto table = (*session)->table<float>(options);
  if (!table.ok()) return table.status();
  for (;;) {
    RETURN_IF_ERROR((*session)->barrier());
  }
}

TEST(SilenceTest, ASilentWorkerIsNamedToThoseWhoWaitForIt) {
  for (const bool outlives_workers : {false, true}) {
    ServerThreads servers(
        {.servers = 1, .workers = 2, .silence_timeout_ms = kSilenceMs, .outlives_workers = outlives_workers});
    const TableOptions& options = outlives_workers ? kMovingTable : kStaticTable;
    auto honest = std::async(std::launch::async, [&] { return train_until_it_fails(servers, options); });
    const SessionOptions of_silent = servers.session_options(1);
    Peer silent(
        *of_silent.transport,
        *of_silent.transport->connect(of_silent.servers[0], of_silent.transport->now() + Peer::kPatience));
    silent.be_silent();
    silent.say_hello({.worker = 1, .workers = 2, .server = 0, .servers = 1});
    silent.hear<protocol::Welcome>();
    const absl::Status server = servers.join(Peer::kPatience)[0];
    const std::string named = fmt::format("worker 1 (pid {}) has shown no sign of life for 2.", ::getpid());
    for (const absl::Status& status : {server, honest.get()})
      EXPECT_THAT(message_of(status), HasSubstr(named)) << status;
    EXPECT_EQ(server.code(), absl::StatusCode::kUnavailable) << server;
  }
}

TEST(SilenceTest, AWorkerThatOnlyComputesIsNotSilent) {
  const ClusterResult result =
      run_cluster({.servers = 1, .silence_timeout_ms = kSilenceMs}, [](Session& session) {
        auto table = session.table<float>(kStaticTable);
        if (!table.ok()) return table.status();
        // For twice the bound there is no call of the session.
        if (session.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2 * kSilenceMs));
        return session.barrier();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// A job's only worker waits at a barrier of this server. Returns the status that ends the wait.
absl::Status wait_at_barrier(Impostor& server, std::uint32_t timeout_ms,
                             const std::function<void(Peer&)>& prepare) {
  auto waiting = std::async(std::launch::async, [&]() -> absl::Status {
    auto session = Session::connect({.servers = {server.address()},
                                     .timeout_ms = timeout_ms,
                                     .clock_timeout_ms = 20'000,
                                     .silence_timeout_ms = kSilenceMs});
    if (!session.ok()) return session.status();
    if (auto table = (*session)->table<float>(kStaticTable); !table.ok()) return table.status();
    return (*session)->barrier();
  });
  Peer& peer = server.accept();
  prepare(peer);
  peer.say_welcome(1);
  peer.hear<protocol::OpenTable>();
  peer.say(protocol::TableOpened{.table = 0, .shard = peer.any_memory()});
  return waiting.get();
}

TEST(SilenceTest, ASilentServerIsNamedByWhoWaitsForOthersThere) {
  Impostor server;
  const absl::Status status = wait_at_barrier(server, 20'000, [](Peer& peer) { peer.be_silent(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(message_of(status),
              HasSubstr(fmt::format("server 0 (pid {}) has shown no sign of life for 2.", ::getpid())));
}

TEST(SilenceTest, AServerThatHangsIsNamedByWhoWaitsForOthersThere) {
  Impostor server;
  const absl::Status status = wait_at_barrier(server, 3000, [](Peer&) {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(message_of(status),
              HasSubstr(fmt::format("server 0 (pid {}) runs, but has not looked at its connections for 3.",
                                    ::getpid())));
}

TEST(SilenceTest, ImpossibleBoundsAreRefused) {
  const auto transport = *transport::make_shm_transport();
  const absl::Status server =
      server::Server::create(*transport, {.address = "shm:silence", .silence_timeout_ms = 1}).status();
  const absl::Status session =
      Session::connect({.servers = {"shm:silence"}, .silence_timeout_ms = 1}).status();
  for (const absl::Status& status : {server, session}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(message_of(status), HasSubstr("a silence of 1 ms: expected at least 2000"));
  }
}

}  // namespace
}  // namespace verbena::testing
