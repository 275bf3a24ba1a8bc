// The simulation's workloads in real processes over shared memory. Each worker records what it does, and the
// simulator's ledger checks all of it. The same in threads: tests/cluster/recorded_history_test.cpp.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/recording.hpp"
#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using simulation::History;
using simulation::Model;
using simulation::Scenario;
using verbena::testing::Recording;

#ifdef VERBENA_SANITIZED
constexpr std::uint64_t kSeeds = 3;
#else
constexpr std::uint64_t kSeeds = 10;
#endif

class NativeJob {
 public:
  NativeJob(Model model, std::uint64_t seed)
      : model_(model), seed_(seed), scenario_(verbena::testing::native_scenario(model, seed)) {
    verbena::testing::write_file(numbers(), std::string(sizeof(std::uint64_t), '\0'));
  }

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  /// Runs servers and workers to their end.
  void run() {
    std::vector<std::unique_ptr<Program>> servers;
    std::vector<std::unique_ptr<Program>> workers;
    for (std::uint32_t rank = 0; rank < scenario_.servers; ++rank) servers.push_back(start("server", rank));
    for (std::uint32_t rank = 0; rank < scenario_.workers; ++rank) workers.push_back(start("worker", rank));
    for (const auto& worker : workers) expect_success(*worker);
    if (::testing::Test::HasFailure()) return;  // the servers might wait for a worker that never came
    for (const auto& server : servers) expect_success(*server);
  }
  [[nodiscard]] std::vector<Recording> recordings() const {
    std::vector<Recording> all;
    for (std::uint32_t rank = 0; rank < scenario_.workers; ++rank) {
      auto recording = verbena::testing::read_recording(folder_.path(fmt::format("worker-{}", rank)));
      EXPECT_TRUE(recording.ok()) << recording.status();
      all.push_back(recording.value_or(Recording()));
    }
    return all;
  }

 private:
  [[nodiscard]] std::string numbers() const { return folder_.path("numbers"); }
  [[nodiscard]] std::unique_ptr<Program> start(const std::string& role, std::uint32_t rank) const {
    const std::vector<std::string> arguments = {role, std::string(simulation::to_string(model_)),
                                                std::to_string(seed_), std::to_string(rank),
                                                folder_.path().string()};
    const auto end_with_the_test = [] { ::prctl(PR_SET_PDEATHSIG, SIGKILL); };
    return std::make_unique<Program>(HISTORY_NODE, arguments, folder_.path(), end_with_the_test);
  }
  static void expect_success(Program& program) {
    const Ended ended = program.wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
  }

  const Model model_;
  const std::uint64_t seed_;
  const Scenario scenario_;
  verbena::testing::TemporaryFolder folder_;
};

class RecordedProcessesTest : public ::testing::TestWithParam<Model> {};

TEST_P(RecordedProcessesTest, KeepTheSimulatorsPromises) {
  std::uint64_t numbers = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    NativeJob job(GetParam(), seed);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, simulation::to_string(job.scenario())));
    ASSERT_NO_FATAL_FAILURE(job.run());
    ASSERT_FALSE(HasFailure());
    History history(job.scenario());
    const std::optional<std::string> wrong = verbena::testing::check(job.recordings(), history);
    ASSERT_FALSE(wrong.has_value()) << *wrong;
    numbers += history.numbers_checked();
  }
  EXPECT_GT(numbers, kSeeds * 100);
}

INSTANTIATE_TEST_SUITE_P(Models, RecordedProcessesTest,
                         ::testing::ValuesIn(verbena::testing::recorded_models()),
                         [](const auto& test) { return simulation::test_name(test.param); });

/// The first seed whose job has several workers.
std::uint64_t seed_of_several(Model model) {
  std::uint64_t seed = 1;
  while (verbena::testing::native_scenario(model, seed).workers == 1) ++seed;
  return seed;
}

/// Tests the check itself: it must reject what the processes have recorded if a part is missing or comes in
/// another order.
TEST(RecordedProcessTest, AlteredHistoriesAreFound) {
  NativeJob job(Model::kBsp, seed_of_several(Model::kBsp));
  job.run();
  ASSERT_FALSE(HasFailure());
  const std::vector<Recording> recordings = job.recordings();
  const auto is_wrong = [&](const std::vector<Recording>& altered) {
    History history(job.scenario());
    return verbena::testing::check(altered, history).has_value();
  };
  EXPECT_FALSE(is_wrong(recordings));

  std::vector<Recording> update_lost = recordings;
  Recording& of_one = update_lost[0];
  const auto pushed = std::find_if(of_one.begin(), of_one.end(), [](const auto& event) {
    return std::holds_alternative<simulation::PushBegins>(event.event);
  });
  ASSERT_NE(pushed, of_one.end());
  of_one.erase(pushed);
  EXPECT_TRUE(is_wrong(update_lost));

  // Worker 0 would have done everything after the others had ended.
  std::vector<Recording> nobody_waited = recordings;
  for (auto& event : nobody_waited[0]) event.number += std::uint64_t{1} << 32;
  EXPECT_TRUE(is_wrong(nobody_waited));
}

}  // namespace
}  // namespace verbena::process_test
