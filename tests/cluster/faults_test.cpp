// Whole jobs over a transport that delays requests and events, splits transfers and breaks connections.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "tests/cluster/cluster.hpp"
#include "tests/cluster/peer.hpp"
#include "tests/cluster/promises.hpp"

namespace verbena::testing {
namespace {

ClusterOptions over(transport::FaultOptions faults, std::uint64_t seed) {
  ClusterOptions options{.servers = 2, .workers = 2, .read_path = ReadPath::kCached};
  options.inbox_bytes = options.push_ring_bytes = 16384;
  options.make_transport = faulty_shared_memory([faults, seed](std::uint32_t number) {
    transport::FaultOptions own = faults;
    own.seed = seed * 1000 + number;
    return own;
  });
  return options;
}

class LegalFaultsTest : public ::testing::TestWithParam<ConsistencyModel> {};

TEST_P(LegalFaultsTest, PromisesHoldWhateverIsLate) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    const ClusterResult result =
        run_cluster(over({.request_delay_probability = 0.2,
                          .event_delay_probability = 0.2,
                          .split_probability = 0.5,
                          .partial_post_probability = 0.2,
                          .mapped = seed % 2 == 0},
                         seed),
                    [&](Session& session) { return check_reads(session, GetParam(), 15); });
    EXPECT_TRUE(result.first_error().ok()) << "seed " << seed << ": " << result.first_error();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LegalFaultsTest,
                         ::testing::Values(ConsistencyModel(Bsp{}), ConsistencyModel(Ssp{1}),
                                           ConsistencyModel(Essp{0}), ConsistencyModel(Essp{2})),
                         [](const auto& test) {
                           std::string name = to_string(test.param);
                           std::erase(name, ':');
                           return name;
                         });

class MendingTest : public ::testing::TestWithParam<ConsistencyModel> {};

/// Of servers and of workers, again and again, where connections may break while both sides live. Not at the
/// end, when nobody can know whether a server that is gone has heard a goodbye.
TEST_P(MendingTest, ABrokenConnectionIsMadeAgain) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const ClusterResult result =
        run_cluster(over({.event_delay_probability = 0.1,
                          .mapped = seed % 2 == 0,
                          .failure_probability = 0.01,
                          .most_failures = 4,
                          .connections_may_break = true},
                         seed),
                    [&](Session& session) { return check_reads(session, GetParam(), 40); });
    EXPECT_TRUE(result.first_error().ok()) << "seed " << seed << ": " << result.first_error();
  }
}

/// Before anybody has said hello over them, and while that is heard.
TEST_P(MendingTest, ConnectionsThatBreakAtOnceAreMadeAgain) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const ClusterResult result =
        run_cluster(over({.event_delay_probability = 0.1,
                          .mapped = false,
                          .failure_probability = seed % 2 == 0 ? 1 : 0.3,
                          .most_failures = 4,
                          .connections_may_break = true},
                         seed),
                    [&](Session& session) { return check_reads(session, GetParam(), 3); });
    EXPECT_TRUE(result.first_error().ok()) << "seed " << seed << ": " << result.first_error();
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MendingTest,
                         ::testing::Values(ConsistencyModel(Bsp{}), ConsistencyModel(Ssp{1}),
                                           ConsistencyModel(Essp{2}), ConsistencyModel(Sequential{})),
                         [](const auto& test) {
                           std::string name = to_string(test.param);
                           std::erase(name, ':');
                           return name;
                         });

TEST(MendingStatisticsTest, WhatWasPostedCountsOn) {
  const ClusterResult result = run_cluster(
      over({.mapped = false, .failure_probability = 0.05, .most_failures = 4, .connections_may_break = true},
           1),
      [](Session& session) -> absl::Status {
        auto table = session.table<float>({.name = "rows", .rows = 8, .width = 1, .consistency = Bsp{}});
        RETURN_IF_ERROR(table.status());
        const std::vector<float> ones(8, 1);
        std::uint64_t posted = 0;
        for (int clock = 0; clock < 100; ++clock) {
          RETURN_IF_ERROR(table->push(KeyRange{0, 8}, ones));
          RETURN_IF_ERROR(session.clock());
          const std::uint64_t before = std::exchange(posted, session.statistics().requests_posted);
          if (posted < before) return wrong(fmt::format("{} requests after {}", posted, before));
        }
        return absl::OkStatus();
      });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// A server and two workers whose connections may break, but do not by themselves.
class AbsenceTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kSilenceMs = transport::kMinSilenceTimeoutMs;
  static ClusterOptions options() {
    ClusterOptions options = over({.connections_may_break = true}, 1);
    options.servers = 1;
    options.silence_timeout_ms = kSilenceMs;
    return options;
  }
  /// Worker 1, which does nothing.
  std::unique_ptr<Peer> connect() {
    const SessionOptions of_it = servers_.session_options(1);
    transports_.push_back(of_it.transport);
    return std::make_unique<Peer>(
        *of_it.transport,
        *of_it.transport->connect(of_it.servers[0], of_it.transport->now() + Peer::kPatience));
  }
  static protocol::Hello hello(bool is_back, std::uint32_t pid = 0) {
    return {.worker = 1, .workers = 2, .pid = pid, .server = 0, .servers = 1, .is_back = is_back};
  }

  ServerThreads servers_{options()};
  std::vector<std::shared_ptr<transport::Transport>> transports_;
};

TEST_F(AbsenceTest, AServerThatStaysAwayIsNamed) {
  const auto worker = connect();
  worker->say_hello(hello(false));
  auto session = Session::connect(servers_.session_options(0));
  ASSERT_TRUE(session.ok()) << session.status();
  servers_.stop(0);
  const auto table = (*session)->table<float>({.name = "rows", .rows = 1, .width = 1});
  EXPECT_EQ(table.status().code(), absl::StatusCode::kUnavailable) << table.status();
  EXPECT_THAT(message_of(table.status()),
              ::testing::HasSubstr(fmt::format("it could not be reached again for {} ms", kSilenceMs)));
}

TEST_F(AbsenceTest, AWorkerThatStaysAwayEndsTheJobLater) {
  auto worker = connect();
  worker->say_hello(hello(false));
  worker->hear<protocol::Welcome>();
  const auto begin = std::chrono::steady_clock::now();
  worker.reset();
  const absl::Status server = servers_.join(Peer::kPatience)[0];
  EXPECT_EQ(server.code(), absl::StatusCode::kUnavailable) << server;
  EXPECT_THAT(message_of(server), ::testing::HasSubstr(fmt::format("worker 1 (pid {})", ::getpid())));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(kSilenceMs));
}

/// Whether or not the server has noticed that the connection before has ended.
TEST_F(AbsenceTest, OnlyTheSameProcessIsBack) {
  const auto worker = connect();
  worker->say_hello(hello(false));
  worker->hear<protocol::Welcome>();
  const auto impostor = connect();
  impostor->say_hello(hello(true, static_cast<std::uint32_t>(::getpid()) + 1));
  EXPECT_THAT(impostor->hear<protocol::Failed>().reason, ::testing::HasSubstr("is connected already"));
  EXPECT_TRUE(worker->connection().status().ok());
  const auto back = connect();
  back->say_hello(hello(true));
  EXPECT_EQ(back->hear<protocol::Welcome>().messages, 0U);
}

/// The server has nobody left when the last worker comes.
TEST(FailuresTest, AWorkerThatComesLateLearnsTheReason) {
  ServerThreads servers({.servers = 1, .workers = 3});
  for (std::uint32_t rank = 0; rank < 2; ++rank) {
    const auto session = Session::connect(servers.session_options(rank));
    if (rank == 1 && session.ok()) static_cast<void>((*session)->give_up(absl::InternalError("no disk")));
  }
  const absl::Status late = Session::connect(servers.session_options(2)).status();
  EXPECT_THAT(message_of(late), HasSubstr("gave up: no disk"));
  for (const absl::Status& status : servers.join(std::chrono::hours(1)))
    EXPECT_THAT(message_of(status), HasSubstr("gave up: no disk"));
}

TEST(FailuresTest, ABrokenConnectionEndsTheJobOnAllSides) {
  // While the job begins, and in the middle of training.
  for (const std::uint64_t request : {0U, 1U, 3U, 30U, 80U}) {
    for (const std::uint32_t victim : {0U, 2U}) {  // a server, a worker
      ClusterOptions options = over({}, request);
      const auto whole = options.make_transport;
      const auto broken = over({.fail_at_request = request}, request).make_transport;
      options.make_transport = [&, victim](std::uint32_t number) {
        return number == victim ? broken(number) : whole(number);
      };
      // If one fails before all have met, the others may not know it, and can only wait for it.
      const bool have_met = request >= 30;
      options.timeout_ms = have_met ? 20'000 : 1'000;
      const ClusterResult result =
          run_cluster(options, [](Session& session) { return check_reads(session, Essp{1}, 100); });
      for (const absl::Status& worker : result.workers) {
        EXPECT_TRUE(worker.code() == absl::StatusCode::kUnavailable ||
                    worker.code() == absl::StatusCode::kAborted ||
                    (!have_met && worker.code() == absl::StatusCode::kDeadlineExceeded))
            << "request " << request << " of " << victim << ": " << worker;
      }
    }
  }
}

}  // namespace
}  // namespace verbena::testing
