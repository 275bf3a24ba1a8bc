// What the simulation checks in virtual time also holds in real time. The same workloads run in real threads;
// their histories are recorded, and checked by the same ledger. The same in processes:
// tests/process/recorded_history_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <string>
#include <vector>

#include "tests/cluster/cluster.hpp"
#include "tests/cluster/recording.hpp"

namespace verbena::testing {
namespace {

using simulation::History;
using simulation::Model;
using simulation::Scenario;

#ifdef VERBENA_SANITIZED
constexpr std::uint64_t kSeeds = 6;
#else
constexpr std::uint64_t kSeeds = 30;
#endif

class RecordedHistoryTest : public ::testing::TestWithParam<Model> {};

TEST_P(RecordedHistoryTest, KeepsTheSimulatorsPromises) {
  std::uint64_t numbers = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Scenario scenario = native_scenario(GetParam(), seed);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, simulation::to_string(scenario)));
    std::atomic<std::uint64_t> next = 0;
    std::vector<Recording> recordings(scenario.workers);
    const ClusterResult result =
        run_cluster({.servers = scenario.servers,
                     .workers = scenario.workers,
                     .lanes = scenario.lanes,
                     .server_threads = scenario.lane_tasks ? scenario.lanes + 1 : 1,
                     .read_path = scenario.read_path,
                     .inbox_bytes = scenario.inbox_bytes,
                     .push_ring_bytes = scenario.push_ring_bytes,
                     .push_budget_mb_per_s = scenario.push_budget_mb_per_s,
                     .update_budget_mb_per_s = scenario.update_budget_mb_per_s},
                    [&](Session& session) {
                      const auto next_number = [&] { return next.fetch_add(1, std::memory_order_relaxed); };
                      return record_workload(scenario, session, next_number, recordings[session.rank()]);
                    });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    History history(scenario);
    const std::optional<std::string> wrong = check(recordings, history);
    ASSERT_FALSE(wrong.has_value()) << *wrong;
    numbers += history.numbers_checked();
  }
  EXPECT_GT(numbers, kSeeds * 100);
}

INSTANTIATE_TEST_SUITE_P(Models, RecordedHistoryTest, ::testing::ValuesIn(recorded_models()),
                         [](const auto& test) { return simulation::test_name(test.param); });

/// A test of the test: a history in which an update was lost is found wrong.
TEST(RecordingTest, ALostUpdateIsFound) {
  const Scenario scenario = native_scenario(Model::kBsp, 1);
  const std::vector<double> zeros(scenario.tables[0].rows * scenario.tables[0].width(scenario.workers), 0);
  std::vector<Key> keys(scenario.tables[0].rows);
  std::iota(keys.begin(), keys.end(), Key{0});
  Recording recording = {{0, simulation::PushBegins{.delta = 5}},
                         {1, simulation::PullBegins{.keys = keys}},
                         {2, simulation::TableAtTheEnd{.rows = zeros}}};
  History history(scenario);
  EXPECT_TRUE(check({recording}, history).has_value());
  recording.erase(recording.begin());
  History of_nothing(scenario);
  EXPECT_EQ(check({recording}, of_nothing), std::nullopt);
}

}  // namespace
}  // namespace verbena::testing
