// Session::limit_lead(): how far workers get ahead of one another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>
#include <random>
#include <thread>
#include <vector>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"

namespace verbena::testing {
namespace {

using ::testing::HasSubstr;

class LeadTest : public ::testing::TestWithParam<Maps> {};
INSTANTIATE_TEST_SUITE_P(, LeadTest, ::testing::Values(Maps::kAll, Maps::kOwnNode, Maps::kNone),
                         [](const auto& maps) { return to_string(maps.param); });

TEST_P(LeadTest, NoWorkerIsFartherAheadThanItMay) {
  constexpr std::uint32_t kLeadWorkers = 3;
  constexpr std::int64_t kLeadClocks = 200;
  for (const std::uint32_t most : {0U, 2U}) {
    std::vector<std::atomic<std::int64_t>> begun(kLeadWorkers);
    const ClusterResult result = run_cluster(over(GetParam(), 2, kLeadWorkers), [&](Session& session) {
      std::mt19937 random(session.rank());
      RETURN_IF_ERROR(session.limit_lead(most));
      const std::int64_t first = session.current_clock();
      for (std::int64_t clock = 0; clock < kLeadClocks; ++clock) {
        RETURN_IF_ERROR(session.clock());
        begun[session.rank()] = session.current_clock() - first;
        // The others have finished the clocks before, even if they have not noted it down yet.
        for (const std::atomic<std::int64_t>& other : begun) {
          EXPECT_GE(other + 1, session.current_clock() - first - most);
        }
        if (random() % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
  }
}

TEST_P(LeadTest, AWorkerMayBeSoFarAhead) {
  std::latch is_ahead(1);
  const ClusterResult result = run_cluster(over(GetParam(), 1, 2), [&](Session& session) {
    RETURN_IF_ERROR(session.limit_lead(5));
    RETURN_IF_ERROR(session.limit_lead(2));
    RETURN_IF_ERROR(session.limit_lead(9));
    if (session.rank() == 1) is_ahead.wait();
    for (int clock = 0; clock < 2; ++clock) RETURN_IF_ERROR(session.clock());
    if (session.rank() == 0) is_ahead.count_down();
    return session.clock();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

/// What a Sequential table's rows are given in a clock, the workers whose turn comes later see.
TEST_P(LeadTest, UpdatesAreThereWhenTheTurnComes) {
  constexpr std::int64_t kLeadClocks = 100;
  const ClusterResult result = run_cluster(over(GetParam(), 2, 2), [&](Session& session) -> absl::Status {
    const auto table = session.table<std::int64_t>({.name = "rows",
                                                    .rows = 2,
                                                    .width = 1,
                                                    .consistency = Sequential{},
                                                    .allocation = Allocation::kDynamic});
    RETURN_IF_ERROR(table.status());
    RETURN_IF_ERROR(session.limit_lead(0));
    for (std::int64_t clock = 0; clock < kLeadClocks; ++clock) {
      const Key mine = (session.rank() + static_cast<std::uint64_t>(clock)) % 2;
      std::int64_t value = 0;
      RETURN_IF_ERROR(table->pull(std::span(&mine, 1), {&value, 1}));
      EXPECT_EQ(value, clock);
      const std::int64_t one = 1;
      RETURN_IF_ERROR(table->push_async(std::span(&mine, 1), {&one, 1}).wait());
      RETURN_IF_ERROR(session.clock());
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST_P(LeadTest, AWorkerThatHasLeftHoldsNobodyBack) {
  const ClusterResult result = run_cluster(over(GetParam(), 2, 3), [&](Session& session) {
    RETURN_IF_ERROR(session.limit_lead(1));
    for (std::uint32_t clock = 0; clock < 20 * session.rank(); ++clock) RETURN_IF_ERROR(session.clock());
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST_P(LeadTest, AWorkerThatGivesUpEndsTheWait) {
  const ClusterResult result = run_cluster(over(GetParam(), 1, 2), [&](Session& session) -> absl::Status {
    RETURN_IF_ERROR(session.limit_lead(0));
    if (session.rank() == 1) return absl::CancelledError("worker 1 is tired");
    return session.clock();
  });
  EXPECT_EQ(result.workers[0].code(), absl::StatusCode::kAborted);
  EXPECT_THAT(message_of(result.workers[0]), HasSubstr("worker 1 is tired"));
}

TEST(LeadOnTheBoardTest, NoServerIsAsked) {
  const ClusterResult result = run_cluster(over(Maps::kAll, 2, 2), [&](Session& session) -> absl::Status {
    RETURN_IF_ERROR(session.limit_lead(1));
    // Without a board, there would be a table of this name, and another width would be refused.
    return session.table<float>({.name = "verbena.lead:1", .rows = 1, .width = 2}).status();
  });
  EXPECT_TRUE(result.first_error().ok()) << result.first_error();
}

TEST(LeadOnTheBoardTest, AWorkerThatIsLostHoldsNobodyBack) {
  ClusterOptions options{.servers = 1, .workers = 2};
  options.outlives_workers = true;
  options.make_transport = faulty_shared_memory([&](std::uint32_t number) {
    const bool is_worker_1 = number == options.servers + 1;
    return is_worker_1 ? std::optional(transport::FaultOptions{.fail_at_request = 40}) : std::nullopt;
  });
  const ClusterResult result = run_cluster(options, [&](Session& session) -> absl::Status {
    RETURN_IF_ERROR(session.limit_lead(0));
    for (int clock = 0; clock < 100; ++clock) {
      // Each is a request, of which one breaks the connection of worker 1.
      const TableOptions one_more{.name = std::to_string(clock),
                                  .rows = 1,
                                  .width = 1,
                                  .consistency = Asp{},
                                  .allocation = Allocation::kDynamic};
      if (session.rank() == 1) RETURN_IF_ERROR(session.table<float>(one_more).status());
      RETURN_IF_ERROR(session.clock());
    }
    return absl::OkStatus();
  });
  EXPECT_TRUE(result.workers[0].ok()) << result.workers[0];
  EXPECT_FALSE(result.workers[1].ok());
}

/// Without server 0 nobody would say that a worker is gone.
TEST(LeadOnTheBoardTest, TheEndOfServer0EndsTheSession) {
  ClusterOptions options{.servers = 2, .workers = 2};
  options.outlives_workers = true;
  ServerThreads servers(options);
  std::latch limited(2);
  std::latch stopped(1);
  // Both workers belong to node 1.
  const auto work = [&](std::uint32_t rank) -> absl::Status {
    SessionOptions own = servers.session_options(rank);
    own.node = 1;
    own.outlives_servers = true;
    auto session = Session::connect(own);
    RETURN_IF_ERROR(session.status());
    RETURN_IF_ERROR((*session)->limit_lead(0));
    limited.arrive_and_wait();
    if (rank == 1) {
      stopped.wait();
      return absl::OkStatus();
    }
    servers.stop(0);
    const absl::Status status = (*session)->clock();
    stopped.count_down();
    return status;
  };
  auto other = std::async(std::launch::async, work, 1);
  const absl::Status status = work(0);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(message_of(status), HasSubstr("server 0"));
  static_cast<void>(other.get());
}

TEST(LeadOnTheBoardTest, ATimeoutNamesTheSlowest) {
  ServerThreads servers({.servers = 1, .workers = 2});
  std::promise<void> has_waited;
  const auto work = [&](std::uint32_t rank) -> absl::Status {
    SessionOptions options = servers.session_options(rank);
    options.clock_timeout_ms = 50;
    auto session = Session::connect(options);
    RETURN_IF_ERROR(session.status());
    RETURN_IF_ERROR((*session)->limit_lead(0));
    if (rank == 1) has_waited.get_future().wait();
    const absl::Status status = (*session)->clock();
    if (rank == 0) has_waited.set_value();
    return status;
  };
  auto other = std::async(std::launch::async, work, 1);
  const absl::Status status = work(0);
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(message_of(status), HasSubstr("worker 1 is at clock 1"));
  static_cast<void>(other.get());
}

}  // namespace
}  // namespace verbena::testing
