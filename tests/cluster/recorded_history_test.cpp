// What the simulation checks in virtual time holds in real time: the same workloads in real threads, their
// histories written down and checked by the same ledger.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/cluster/cluster.hpp"
#include "tests/simulation/scenario.hpp"
#include "tests/simulation/workload.hpp"

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

/// Writes down what each worker does, in one order. That order agrees with time: whoever takes a number after
/// another has taken his takes a larger one. The counter is relaxed, so that it does not order what the thread
/// sanitizer is to see unordered.
class Recorder {
 public:
  using Wrong = simulation::World::Wrong;
  using Event = simulation::World::Event;

  explicit Recorder(std::uint32_t workers) : events_(workers) {}

  /// The world as one worker sees it.
  class Worker final : public simulation::World {
   public:
    Worker(Recorder& recorder, std::uint32_t rank) : recorder_(recorder), rank_(rank) {}
    absl::Status note(Event event) override {
      recorder_.write(rank_, std::move(event));
      return absl::OkStatus();
    }
    void compute(transport::Duration time) override { std::this_thread::sleep_for(time); }

   private:
    Recorder& recorder_;
    const std::uint32_t rank_;
  };

  void write(std::uint32_t rank, Event event) {
    events_[rank].push_back({next_.fetch_add(1, std::memory_order_relaxed), std::move(event)});
  }

  /// After all threads have ended. What was wrong first.
  Wrong check(History& history) {
    std::vector<Numbered> all;
    for (std::vector<Numbered>& events : events_)
      std::move(events.begin(), events.end(), std::back_inserter(all));
    std::sort(all.begin(), all.end(),
              [](const Numbered& a, const Numbered& b) { return a.number < b.number; });
    for (const Numbered& event : all) {
      const transport::TimePoint when{std::chrono::nanoseconds(event.number)};
      if (Wrong wrong = event.event(history, when)) return wrong;
    }
    return {};
  }

 private:
  struct Numbered {
    std::uint64_t number = 0;
    Event event;
  };
  std::vector<std::vector<Numbered>> events_;  ///< by worker, each written by its thread
  std::atomic<std::uint64_t> next_ = 0;
};

/// What a seed stands for, in real threads: its tables, workers and whims; not its network and its disasters.
Scenario scenario_of(Model model, std::uint64_t seed) {
  Scenario scenario = simulation::make_scenario(model, seed);
  scenario.disaster = simulation::Disaster::kNone;
  scenario.scheduler.pause_probability = 1;  // nobody knows how long a thread waits for a processor
  return scenario;
}

class RecordedHistoryTest : public ::testing::TestWithParam<Model> {};

TEST_P(RecordedHistoryTest, KeepsTheSimulatorsPromises) {
  std::uint64_t numbers = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Scenario scenario = scenario_of(GetParam(), seed);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, simulation::to_string(scenario)));
    Recorder recorder(scenario.workers);
    const ClusterResult result = run_cluster({.servers = scenario.servers,
                                              .workers = scenario.workers,
                                              .lanes = scenario.lanes,
                                              .server_threads = scenario.lane_tasks ? scenario.lanes + 1 : 1,
                                              .read_path = scenario.read_path,
                                              .inbox_bytes = scenario.inbox_bytes,
                                              .push_ring_bytes = scenario.push_ring_bytes},
                                             [&](Session& session) {
                                               Recorder::Worker world(recorder, session.rank());
                                               const absl::Status status =
                                                   simulation::run_workload(world, scenario, session);
                                               const std::uint32_t rank = session.rank();
                                               recorder.write(rank, [rank](History& history, auto) {
                                                 history.ledger.leave(rank);
                                                 return simulation::World::Wrong();
                                               });
                                               return status;
                                             });
    EXPECT_TRUE(result.first_error().ok()) << result.first_error();
    History history(scenario);
    const simulation::World::Wrong wrong = recorder.check(history);
    ASSERT_FALSE(wrong.has_value()) << *wrong;
    numbers += history.ledger.numbers_checked();
  }
  EXPECT_GT(numbers, kSeeds * 100);
}

INSTANTIATE_TEST_SUITE_P(Models, RecordedHistoryTest, ::testing::ValuesIn(simulation::kModels),
                         [](const auto& test) {
                           std::string name(simulation::to_string(test.param));
                           std::erase(name, '-');
                           return name;
                         });

/// The test of the test: a history in which something is amiss is not believed.
TEST(RecorderTest, ALostUpdateIsFound) {
  const Scenario scenario = scenario_of(Model::kBsp, 1);
  Recorder recorder(scenario.workers);
  recorder.write(0, [](History& history, auto) -> simulation::World::Wrong {
    history.ledger.push(0, 0, 0, 5, 0);
    return {};
  });
  recorder.write(0, [&](History& history, auto) {
    const std::vector<double> row(scenario.tables[0].width(scenario.workers), 0);
    return history.ledger.check_final(0, 0, row);
  });
  History history(scenario);
  EXPECT_TRUE(recorder.check(history).has_value());
}

}  // namespace
}  // namespace verbena::testing
