// Whole jobs over a transport that delays requests and events, splits transfers and breaks connections.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/cluster/cluster.hpp"
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

/// Of servers and of workers, again and again, where connections may break while both sides live.
TEST_P(MendingTest, ABrokenConnectionIsMadeAgain) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    const ClusterResult result =
        run_cluster(over({.event_delay_probability = 0.1,
                          .mapped = seed % 2 == 0,
                          .failure_probability = 0.002,
                          .connections_may_break = true},
                         seed),
                    [&](Session& session) { return check_reads(session, GetParam(), 40); });
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
