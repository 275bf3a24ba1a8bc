// Workers that die, and are replaced by other processes: the run goes on, and ends well. What is chosen by
// chance is printed as a seed; VERBENA_TEST_DEATHS: how many workers of each training die.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "tests/process/chance.hpp"
#include "tests/process/program.hpp"
#include "tests/process/small_training.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kWorkers = 2;

class ReplacementTest : public ::testing::TestWithParam<SmallTraining> {
 protected:
  ReplacementTest() { write_data(GetParam(), folder_.path("data")); }

  [[nodiscard]] std::unique_ptr<Program> start(const std::vector<std::string>& more,
                                               const std::string& output = "model") const {
    const SmallTraining& training = GetParam();
    std::vector<std::string> all = {
        "run",       training.application,     "--data",    folder_.path("data"),
        "--workers", std::to_string(kWorkers), "--slow",    "worker=all,pause=10ms,every=1",
        "--output",  folder_.path(output),     "--metrics", folder_.path("metrics")};
    all.insert(all.end(), training.options.begin(), training.options.end());
    all.insert(all.end(), more.begin(), more.end());
    return std::make_unique<Program>(VERBENA_PROGRAM, all, folder_.path());
  }
  /// That all workers have finished, as `verbena cluster status` says.
  [[nodiscard]] std::int64_t iterations(const Program& program) const {
    const Ended looked =
        run(VERBENA_PROGRAM, {"cluster", "status", "--json", "--job", fmt::format("run-{}", program.pid())},
            looks_.path());
    if (looked.status != 0) return 0;
    const nlohmann::json seen = nlohmann::json::parse(looked.out);
    std::int64_t fewest = INT64_MAX;
    for (const nlohmann::json& worker : seen.at("workers"))
      fewest =
          std::min(fewest, worker.at("iteration").is_null() ? 0 : worker.at("iteration").get<std::int64_t>());
    return fewest == INT64_MAX ? 0 : fewest;
  }
  /// So many iterations more have been trained, and the run is not over.
  [[nodiscard]] bool trains(const Program& program, std::int64_t more = 1) const {
    const std::int64_t wanted = iterations(program) + more;
    return wait_until([&] { return iterations(program) >= wanted || !alive(program.pid()); }) &&
           alive(program.pid());
  }
  /// Kills one of the workers, or sends it another signal. 0: there is none.
  pid_t strike(const Program& program, int signal = SIGKILL) {
    const std::vector<pid_t> workers = program.children("worker");
    if (workers.empty()) return 0;
    const pid_t victim = workers[chance_.below(workers.size())];
    if (victim > 1) ::kill(victim, signal);
    return victim;
  }
  [[nodiscard]] std::vector<std::string> model(const std::string& output = "model") const {
    std::vector<std::string> files;
    for (const std::string& end : GetParam().models)
      files.push_back(verbena::testing::contents(folder_.path(output + end)));
    return files;
  }

  [[nodiscard]] std::string saved() const { return folder_.path("saved"); }
  /// Until some moment; half of the time one in which a checkpoint is written.
  void wait_some_time(const Program& program) {
    const auto is_writing = [&] {
      std::error_code error;
      for (const auto& entry : std::filesystem::directory_iterator(saved(), error)) {
        if (entry.path().extension() == ".tmp") return true;
      }
      return false;
    };
    const bool waits_for_one = chance_.below(2) == 0;
    while (waits_for_one && alive(program.pid()) && !is_writing())
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(waits_for_one ? 0.003 : 0.1)));
  }

  Chance chance_;
  verbena::testing::TemporaryFolder folder_;
  verbena::testing::TemporaryFolder looks_;
};

TEST_P(ReplacementTest, TrainsToTheEndWhicheverWorkerDies) {
  fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
  const std::uint64_t deaths = number_from("VERBENA_TEST_DEATHS", 2);
  for (const std::string consistency : {"bsp", "ssp:1", "asp", "sequential"}) {
    SCOPED_TRACE(consistency);
    const auto program = start({"--servers", "2", "--consistency", consistency});
    std::uint64_t killed = 0;
    while (killed < deaths && trains(*program)) {
      std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(0.1)));
      if (strike(*program) == 0) break;
      ++killed;
      if (!wait_until(
              [&] { return program->times_said("takes its place") >= killed || !alive(program->pid()); }))
        break;
    }
    const Ended ended = program->wait();
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_GT(killed, 0U) << "the run was over too soon";
    for (const std::string& file : model()) EXPECT_NE(file, "");
    EXPECT_THAT(
        verbena::testing::contents(folder_.path("metrics")),
        AllOf(HasSubstr("\"kind\":\"replacement\""), HasSubstr(fmt::format("\"replacements\":{}", killed))));
  }
}

/// The first run is stopped, and the second one goes on from its checkpoint, which must stay for those who
/// come in the places of the dead.
TEST_P(ReplacementTest, WorkersThatSaveAreReplaced) {
  fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
  const std::uint64_t deaths = number_from("VERBENA_TEST_DEATHS", 2);
  for (const std::string consistency : {"bsp", "asp"}) {
    SCOPED_TRACE(consistency);
    std::filesystem::remove_all(saved());
    for (const std::string from : {"its beginning", "a checkpoint"}) {
      SCOPED_TRACE(from);
      const auto program = start({"--servers", "2", "--consistency", consistency, "--checkpoint", saved(),
                                  "--checkpoint-every", "1", "--checkpoint-keep", "1",
                                  "--checkpoint-increments", "2", "--resume"});
      const std::uint64_t most = from == "its beginning" ? 1 : deaths;
      std::uint64_t killed = 0;
      while (killed < most && trains(*program)) {
        wait_some_time(*program);
        if (strike(*program) == 0) break;
        ++killed;
        if (!wait_until(
                [&] { return program->times_said("takes its place") >= killed || !alive(program->pid()); }))
          break;
      }
      EXPECT_GT(killed, 0U) << "the run was over too soon";
      if (from == "its beginning") {
        ASSERT_TRUE(trains(*program));
        ::kill(program->pid(), SIGTERM);
      }
      const Ended ended = program->wait();
      ASSERT_EQ(ended.status, from == "a checkpoint" ? 0 : 128 + SIGTERM) << ended.err;
      EXPECT_THAT(ended.out + ended.err, HasSubstr(from == "a checkpoint" ? "goes on from " : ", saved as "));
      EXPECT_EQ(run(VERBENA_PROGRAM, {"checkpoint", "verify", saved()}, folder_.path()).status, 0);
    }
    for (const std::string& file : model()) EXPECT_NE(file, "");
  }
}

TEST_P(ReplacementTest, WorkersAndServersMayDie) {
  const auto program = start({"--servers", "2", "--replicas", "1", "--consistency", "ssp:1"});
  for (int death = 0; death < 2 && trains(*program); ++death) {
    const std::vector<pid_t> servers = program->children("server");
    if (servers.empty() || strike(*program) == 0) break;
    if (const pid_t victim = servers[chance_.below(servers.size())]; victim > 1) ::kill(victim, SIGKILL);
    // Both are replaced.
    if (!wait_until([&] {
          return program->times_said("can take its place") > static_cast<std::size_t>(death) ||
                 !alive(program->pid());
        }))
      break;
  }
  const Ended ended = program->wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out + ended.err, AllOf(HasSubstr("takes its place"), HasSubstr("the run goes on with")));
}

TEST_P(ReplacementTest, OneThatIsStoppedIsEndedAndReplaced) {
  const auto program = start({"--consistency", "bsp", "--silence-timeout", "2000"});
  ASSERT_TRUE(trains(*program));
  ASSERT_GT(strike(*program, SIGSTOP), 0);
  const Ended ended = program->wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out + ended.err,
              AllOf(HasSubstr("shows no sign of life, and is ended"), HasSubstr("takes its place")));
}

TEST_P(ReplacementTest, EndsIfAWorkerIsKilledAgainAndAgain) {
  const auto program = start({"--consistency", "bsp"});
  ASSERT_TRUE(trains(*program));
  while (alive(program->pid()) && !program->has_said("is not replaced again")) {
    // Always the first one: the others wait for it.
    const std::vector<pid_t> workers = program->children("worker");
    if (!workers.empty() && workers.back() > 1) ::kill(workers.back(), SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const Ended ended = program->wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out + ended.err, HasSubstr("is not replaced again: 3 processes in its place have died"));
  EXPECT_THAT(ended.err, HasSubstr("was killed by SIGKILL"));
}

INSTANTIATE_TEST_SUITE_P(Each, ReplacementTest, ::testing::ValuesIn(stateless_trainings()),
                         [](const auto& training) { return training.param.application; });

/// Without random numbers in workers.
class ExactReplacementTest : public ReplacementTest {};

TEST_P(ExactReplacementTest, TrainsTheSameModel) {
  const Ended undisturbed = start({"--consistency", "bsp"}, "undisturbed")->wait();
  ASSERT_EQ(undisturbed.status, 0) << undisturbed.err;
  for (int run = 0; run < 3; ++run) {
    const auto program = start({"--consistency", "bsp"});
    ASSERT_TRUE(trains(*program));
    std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(0.2)));
    ASSERT_GT(strike(*program), 0);
    const Ended ended = program->wait();
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out, HasSubstr("takes its place"));
    EXPECT_EQ(model(), model("undisturbed"));
  }
}

/// In a run that goes on from another one's checkpoint.
TEST_P(ExactReplacementTest, TrainsTheSameModelFromACheckpoint) {
  const Ended undisturbed = start({"--consistency", "bsp"}, "undisturbed")->wait();
  ASSERT_EQ(undisturbed.status, 0) << undisturbed.err;
  const std::vector<std::string> saves = {
      "--consistency",     "bsp", "--checkpoint", saved(), "--checkpoint-every", "2",
      "--checkpoint-keep", "1",   "--resume"};
  for (int run = 0; run < 3; ++run) {
    const auto program = start(saves);
    ASSERT_TRUE(trains(*program, 4));
    wait_some_time(*program);
    ASSERT_GT(strike(*program), 0);
    ASSERT_TRUE(program->wait_for_output("takes its place"));
    if (run < 2) {
      ASSERT_TRUE(trains(*program, 4));
      ::kill(program->pid(), SIGTERM);
    }
    const Ended ended = program->wait();
    ASSERT_EQ(ended.status, run < 2 ? 128 + SIGTERM : 0) << ended.err;
  }
  EXPECT_EQ(model(), model("undisturbed"));
}

INSTANTIATE_TEST_SUITE_P(Ctr, ExactReplacementTest, ::testing::Values(stateless_trainings().back()),
                         [](const auto& training) { return training.param.application; });

TEST(ReplacementOfStateTest, IsNotTried) {
  verbena::testing::TemporaryFolder folder;
  const SmallTraining lda = small_trainings().front();
  write_data(lda, folder.path("data"));
  Program program(VERBENA_PROGRAM,
                  {"run", "lda", "--data", folder.path("data"), "--topics", "3", "--iterations", "1000",
                   "--workers", "2", "--slow", "worker=all,pause=10ms,every=1"},
                  folder.path());
  ASSERT_TRUE(program.wait_for_children("worker", 2));
  const std::vector<pid_t> workers = program.children("worker");
  ASSERT_EQ(workers.size(), 2U);
  ::kill(workers.front(), SIGKILL);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.out + ended.err,
              AllOf(HasSubstr("was killed by SIGKILL"), HasSubstr("--checkpoint FOLDER --restarts N"),
                    Not(HasSubstr("takes its place"))));
}

}  // namespace
}  // namespace verbena::process_test
