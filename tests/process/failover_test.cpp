// Runs whose servers have copies (--replicas), and die: under BSP they train the same model, byte for byte,
// whichever process dies, and whenever. What is chosen by chance is printed as a seed; VERBENA_TEST_KILLS:
// how many runs of each training.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
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

constexpr std::size_t kServers = kServersOfSmallTraining;

/// Sends a signal to a process of the run. `number` counts first those that serve at the beginning, then the
/// copies. Returns which it was; 0: there is no such process (any more).
pid_t signal_server(const Program& program, std::size_t number, int signal) {
  const std::string wanted = fmt::format("--server-rank={}", number);
  for (const pid_t pid : program.children("server")) {
    std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
    for (std::string argument; std::getline(file, argument, '\0');) {
      if (argument != wanted || pid <= 1) continue;
      ::kill(pid, signal);
      return pid;
    }
  }
  return 0;
}

class FailoverTest : public SmallTrainingTest {
 protected:
  void SetUp() override {
    const Ended ended = start({}, "undisturbed")->wait();
    ASSERT_EQ(ended.status, 0) << ended.err;
    model_ = model("undisturbed");
    for (const std::string& file : model_) ASSERT_NE(file, "");
    forget();
  }

  void forget() const {
    for (const std::string& end : GetParam().models) std::filesystem::remove(folder_.path("model" + end));
    std::filesystem::remove_all(saved());
  }
  /// There is a checkpoint, or one is being made: so all processes have met.
  [[nodiscard]] bool has_trained() const {
    std::error_code error;
    return std::filesystem::directory_iterator(saved(), error) != std::filesystem::directory_iterator();
  }
  [[nodiscard]] bool wait_until_it_trains(const Program& program) const {
    return wait_until([&] { return has_trained() || !alive(program.pid()); }) && has_trained() &&
           alive(program.pid());
  }

  std::vector<std::string> model_;
  int killed_ = 0;
};

TEST_P(FailoverTest, TrainsTheSameModelWhicheverServerDies) {
  fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
  const std::uint64_t runs = number_from("VERBENA_TEST_KILLS", 2);
  for (std::uint64_t run = 0; run < runs; ++run) {
    forget();
    const auto program = start({"--replicas", "1"});
    ASSERT_TRUE(wait_until_it_trains(*program));
    // One copy of each server, or of one.
    std::string killed;
    for (std::size_t server = 0; server < kServers; ++server) {
      if (!killed.empty() && chance_.below(2) == 0) continue;
      std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(0.1)));
      const std::size_t number = server + kServers * chance_.below(2);
      if (signal_server(*program, number, SIGKILL) > 0) ++killed_;
      killed += fmt::format(" {}", number);
    }
    SCOPED_TRACE(fmt::format("run {}: killed{}", run, killed));
    const Ended ended = program->wait();
    ASSERT_EQ(ended.status, 0) << ended.err;
    ASSERT_EQ(model(), model_);
  }
  EXPECT_GT(killed_, 0) << "all runs were over too soon";
}

TEST_P(FailoverTest, OtherCopiesJoinAgainAndAgain) {
  fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
  const std::uint64_t deaths = number_from("VERBENA_TEST_DEATHS", 4);
  const auto program = start({"--replicas", "1"});
  ASSERT_TRUE(wait_until_it_trains(*program));
  std::uint64_t killed = 0;
  // As soon as all copies are there again.
  while (killed < deaths && wait_until([&] {
           return program->times_said("can take its place") >= killed || !alive(program->pid());
         })) {
    const std::vector<pid_t> servers = program->children("server");
    if (!alive(program->pid()) || servers.empty()) break;
    if (const pid_t victim = servers[chance_.below(servers.size())]; victim > 1) ::kill(victim, SIGKILL);
    ++killed;
  }
  const Ended ended = program->wait();
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_GT(killed, 1U) << "the run was over too soon";
  EXPECT_THAT(verbena::testing::contents(folder_.path("metrics")),
              AllOf(HasSubstr("\"kind\":\"join\""), HasSubstr("copy 2 of server")));
  EXPECT_EQ(model(), model_);
}

/// Again and again, as soon as all copies are there: of the same server each time, and the one that serves.
TEST_P(FailoverTest, ThoseThatAreAskedToStepAsideAreNotMissed) {
  const auto program = start({"--replicas", "1", "--slow", "worker=all,pause=400ms,every=1"});
  ASSERT_TRUE(wait_until_it_trains(*program));
  const std::string job = fmt::format("run-{}", program->pid());
  for (std::size_t drained = 0; drained < 2; ++drained) {
    ASSERT_TRUE(wait_until(
        [&] { return program->times_said("can take its place") >= drained || !alive(program->pid()); }));
    const Ended asked = run(VERBENA_PROGRAM, {"cluster", "drain", "--job", job, "--server", "1"},
                            verbena::testing::TemporaryFolder().path());
    EXPECT_EQ(asked.status, 0) << asked.err;
    EXPECT_THAT(asked.out, AllOf(HasSubstr("has stepped aside, as it was asked to: the run goes on with"),
                                 HasSubstr(drained == 0 ? "server 1 (pid " : "copy 1 of server 1 (pid ")));
  }
  const Ended ended = program->wait();
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(model(), model_);
}

INSTANTIATE_TEST_SUITE_P(Each, FailoverTest, ::testing::ValuesIn(small_trainings()),
                         [](const auto& training) { return training.param.application; });

/// What is the same for all applications.
class OneFailoverTest : public FailoverTest {};

TEST_P(OneFailoverTest, SaysWhoDied) {
  const auto program = start({"--replicas", "1"});
  ASSERT_TRUE(wait_until_it_trains(*program));
  const pid_t pid = signal_server(*program, 1, SIGKILL);
  ASSERT_GT(pid, 0);
  const Ended ended = program->wait();
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(model(), model_);
  EXPECT_THAT(ended.out + ended.err,
              HasSubstr(fmt::format("server 1 (pid {}) was killed by SIGKILL: the run goes on with the last "
                                    "copy of server 1 (configuration 2)",
                                    pid)));
  EXPECT_THAT(ended.out, HasSubstr("failovers"));
  EXPECT_THAT(verbena::testing::contents(folder_.path("metrics")),
              AllOf(HasSubstr("\"kind\":\"failover\""), HasSubstr("\"failovers\":1")));
}

TEST_P(OneFailoverTest, WhoCannotStepAsideIsLeftAlone) {
  for (const bool has_copies : {true, false}) {
    forget();
    std::vector<std::string> more = {"--slow", "worker=all,pause=100ms,every=1"};
    if (has_copies) more.insert(more.end(), {"--replicas", "1"});
    const auto program = start(more);
    ASSERT_TRUE(wait_until_it_trains(*program));
    const auto expect_refusal = [&](const std::vector<std::string>& whom, const std::string& why) {
      std::vector<std::string> words = {"cluster", "drain", "--job", fmt::format("run-{}", program->pid())};
      words.insert(words.end(), whom.begin(), whom.end());
      const Ended asked = run(VERBENA_PROGRAM, words, verbena::testing::TemporaryFolder().path());
      EXPECT_NE(asked.status, 0);
      EXPECT_THAT(asked.err, HasSubstr(why));
    };
    if (has_copies) {
      expect_refusal({"--server", "2"}, "there is no server 2: expected 0 to 1");
      expect_refusal({"--server", "1", "--copy", "7"}, "server 1 has no copy 7");
    } else {
      expect_refusal({"--server", "1"}, "expected a run with --replicas");
    }
    const Ended ended = program->wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out + ended.err, Not(HasSubstr("stepped aside")));
  }
}

TEST_P(OneFailoverTest, EndsWhenAllCopiesOfAServerAreDead) {
  const auto program = start({"--replicas", "1"});
  ASSERT_TRUE(wait_until_it_trains(*program));
  for (const std::size_t number : {std::size_t{0}, kServers})
    ASSERT_GT(signal_server(*program, number, SIGKILL), 0);
  const Ended ended = program->wait();
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("was killed by SIGKILL"), HasSubstr("server 0")));
}

TEST_P(OneFailoverTest, OneThatIsStoppedIsEndedAndReplaced) {
  for (const std::size_t number : {std::size_t{0}, kServers + 1}) {
    forget();
    const auto program = start({"--replicas", "1", "--silence-timeout", "2000"});
    ASSERT_TRUE(wait_until_it_trains(*program));
    ASSERT_GT(signal_server(*program, number, SIGSTOP), 0);
    const Ended ended = program->wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out + ended.err, HasSubstr("shows no sign of life, and is ended"));
    EXPECT_EQ(model(), model_);
  }
}

TEST_P(OneFailoverTest, TrainsUnderModelsWithoutClocks) {
  for (const std::string consistency : {"sequential", "vap:2"}) {
    SCOPED_TRACE(consistency);
    forget();
    const auto program = start({"--replicas", "1", "--allocation", "static"}, "model", consistency);
    ASSERT_TRUE(wait_until_it_trains(*program));
    for (const std::size_t number : {std::size_t{0}, std::size_t{1}})
      ASSERT_GT(signal_server(*program, number, SIGKILL), 0);
    const Ended ended = program->wait();
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.out + ended.err, HasSubstr("the run goes on with the last copy of server 1"));
    EXPECT_EQ(tokens(), kTokens);
  }
}

INSTANTIATE_TEST_SUITE_P(Lda, OneFailoverTest, ::testing::Values(small_trainings().front()),
                         [](const auto& training) { return training.param.application; });

TEST(ReplicasTest, AreRefusedWhereThereAreNone) {
  verbena::testing::TemporaryFolder folder;
  write_data(small_trainings()[1], folder.path("data"));
  const auto error_of = [&](const std::vector<std::string>& arguments) {
    const Ended ended = run(VERBENA_PROGRAM, arguments, folder.path());
    EXPECT_EQ(ended.status, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(error_of({"run", "lda", "--data", folder.path("data"), "--replicas", "9"}),
              HasSubstr("--replicas"));
  EXPECT_THAT(error_of({"server", "--job", "x", "--replicas", "1"}), HasSubstr("--replicas: expected with"));
  // Rows that move have no copies.
  const Ended moving = run(VERBENA_PROGRAM,
                           {"run", "mf", "--data", folder.path("data"), "--rank", "4", "--iterations", "2",
                            "--consistency", "asp", "--replicas", "1"},
                           folder.path());
  EXPECT_EQ(moving.status, 1);
  EXPECT_THAT(moving.err, AllOf(HasSubstr("dynamic"), HasSubstr("without --replicas and --elastic")));
  // By default they stay.
  const Ended staying =
      run(VERBENA_PROGRAM,
          {"run", "mf", "--data", folder.path("data"), "--rank", "4", "--iterations", "2", "--replicas", "1"},
          folder.path());
  EXPECT_EQ(staying.status, 0) << staying.err;
}

}  // namespace
}  // namespace verbena::process_test
