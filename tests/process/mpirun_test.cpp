// `mpirun verbena run`: the launcher's promises also hold if mpirun has started the processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kMpirun = "/usr/bin/mpirun";
/// mpirun itself takes two seconds to end a job. The rest is an allowance for a loaded machine.
constexpr double kMpirunEndSeconds = 6.0;

class MpirunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kMpirun)) GTEST_SKIP() << "skipped: no mpirun (scripts/setup installs it)";
  }
  void TearDown() override {
    for (const auto& [rank, pid] : last_ranks_) {
      if (alive(pid)) ::kill(pid, SIGKILL);
    }
  }

  static std::vector<std::string> mpirun(int processes, const std::string& program,
                                         const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& of_mpirun = {}) {
    std::vector<std::string> all = {"--allow-run-as-root", "--oversubscribe"};
    all.insert(all.end(), of_mpirun.begin(), of_mpirun.end());
    all.insert(all.end(), {"-n", std::to_string(processes), program});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
  [[nodiscard]] Ended run_counter(int processes, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"run", "counter"};
    all.insert(all.end(), more.begin(), more.end());
    return run(kMpirun, mpirun(processes, COUNTER_PROGRAM, all), scratch_);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return (scratch_ / name).string(); }
  [[nodiscard]] std::string contents(const std::string& name) const {
    return verbena::testing::contents(path(name));
  }

  /// The processes that mpirun has started, by rank.
  static std::map<int, pid_t> find_ranks(pid_t mpirun) {
    std::map<int, pid_t> found;
    for (const auto& task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(mpirun) + "/task")) {
      std::ifstream pids(task.path() / "children");
      for (pid_t pid = 0; pids >> pid;) {
        std::ifstream variables("/proc/" + std::to_string(pid) + "/environ");
        for (std::string variable; std::getline(variables, variable, '\0');) {
          if (variable.starts_with("PMIX_RANK=")) found[std::stoi(variable.substr(10))] = pid;
        }
      }
    }
    return found;
  }
  /// Two servers and two workers that train without end.
  void start_long_run(std::unique_ptr<Program>& program, const std::vector<std::string>& more = {},
                      const std::vector<std::string>& of_mpirun = {}) {
    std::vector<std::string> all = {"run", "counter", "--iterations", "1000000", "--milliseconds", "20"};
    all.insert(all.end(), more.begin(), more.end());
    program = std::make_unique<Program>(kMpirun, mpirun(4, COUNTER_PROGRAM, all, of_mpirun), scratch_);
    ASSERT_TRUE(program->wait_for_output(
        std::find(more.begin(), more.end(), "hang") == more.end() ? "  counted " : "hanging"));
    last_ranks_ = find_ranks(program->pid());
    ASSERT_EQ(last_ranks_.size(), 4U);
  }
  [[nodiscard]] bool all_gone() const {
    std::vector<pid_t> pids;
    for (const auto& [rank, pid] : last_ranks_) pids.push_back(pid);
    return gone(pids, kMpirunEndSeconds);
  }
  static std::size_t errors(const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find("verbena: error: "); at != std::string::npos;
         at = text.find("verbena: error: ", at + 1)) {
      ++count;
    }
    return count;
  }
  /// mpirun prints messages of its own. From us there must be exactly one error.
  static void expect_one_error(const Ended& ended, const std::string& text) {
    EXPECT_NE(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(text));
    EXPECT_EQ(errors(ended.err), 1U) << ended.err;
  }

  verbena::testing::TemporaryFolder folder_;
  const std::filesystem::path scratch_ = folder_.path();
  std::map<int, pid_t> last_ranks_;
};

TEST_F(MpirunTest, OnlyTheBatchSystemCanStartItAgain) {
  const Ended ended = run_counter(2, {"--restarts", "1", "--checkpoint", path("saved")});
  EXPECT_EQ(ended.status, 2) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("--restarts: only what has started the processes can start them again"));
  EXPECT_EQ(errors(ended.err), 1U) << ended.err;
}

TEST_F(MpirunTest, TrainsWithHalfOfThemServers) {
  const Ended ended = run_counter(4, {"--output", path("count"), "--metrics", path("metrics"), "--report",
                                      path("report"), "--words", "some words"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(contents("count"), "10\n");
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("counter, bsp, 2 servers × 2 workers, shm"), HasSubstr("some words\n")));
  EXPECT_EQ(errors(ended.err), 0U) << ended.err;
  std::istringstream lines(contents("metrics"));
  std::string line;
  std::string last;
  while (std::getline(lines, line)) last = line;
  EXPECT_EQ(nlohmann::json::parse(last).at("model_summary").at("final_count"), 10);
  EXPECT_THAT(contents("report"), HasSubstr("counted per iteration"));
}

TEST_F(MpirunTest, NumbersOfServersAndWorkersCanBeGiven) {
  EXPECT_THAT(run_counter(4, {"--servers", "1"}).out, HasSubstr("1 server × 3 workers"));
  EXPECT_THAT(run_counter(4, {"--workers", "1"}).out, HasSubstr("3 servers × 1 worker"));
  EXPECT_THAT(run_counter(3).out, HasSubstr("1 server × 2 workers"));
  EXPECT_THAT(run_counter(2, {"--threads", "2"}).out, HasSubstr("1 server × 1 worker of 2 threads"));
}

TEST_F(MpirunTest, OneProcessStartsTheOthersItself) {
  const Ended ended = run_counter(1, {"--servers", "2", "--workers", "2", "--output", path("count")});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("2 servers × 2 workers"));
  EXPECT_EQ(contents("count"), "10\n");
}

TEST_F(MpirunTest, BspEqualsThePlainRunBitForBit) {
  ASSERT_EQ(run(VERBENA_PROGRAM,
                {"generate", "mf", "--users", "300", "--items", "200", "--ratings", "5000", "--output",
                 path("ratings.tsv")},
                scratch_)
                .status,
            0);
  const auto train = [&](const std::string& output) {
    return std::vector<std::string>{"run",       "mf",        "--data",  path("ratings.tsv"), "--rank",
                                    "8",         "--seed",    "7",       "--servers",         "2",
                                    "--workers", "2",         "--quiet", "--iterations",      "4",
                                    "--output",  path(output)};
  };
  const Ended plain = run(VERBENA_PROGRAM, train("plain"), scratch_);
  ASSERT_EQ(plain.status, 0) << plain.err;
  const Ended started = run(kMpirun, mpirun(4, VERBENA_PROGRAM, train("started")), scratch_);
  ASSERT_EQ(started.status, 0) << started.err;
  for (const std::string part : {".users.tsv", ".items.tsv"}) {
    ASSERT_THAT(contents("plain" + part), Not(IsEmpty()));
    EXPECT_EQ(contents("plain" + part), contents("started" + part)) << part;
  }
}

TEST_F(MpirunTest, TheLogSaysWhatFollowsFromTheProcesses) {
  std::ofstream(path("ratings.tsv")) << "1\t2\t3\n2\t1\t4\n1\t1\t5\n2\t2\t1\n";
  const Ended ended = run(kMpirun,
                          mpirun(4, VERBENA_PROGRAM,
                                 {"run", "mf", "-v", "--data", path("ratings.tsv"), "--rank", "2",
                                  "--iterations", "1", "--test-fraction", "0"}),
                          scratch_);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("--servers=2 --workers=2 "), HasSubstr("--clocks-per-iteration=2 ")));
}

TEST_F(MpirunTest, WrongUseIsSaidOnce) {
  expect_one_error(run_counter(4, {"--servers", "3", "--workers", "3"}),
                   "4 processes were started, which cannot be 3 servers and 3 workers");
  expect_one_error(run_counter(4, {"--servers", "4"}), "cannot be 4 servers and 0 workers");
  expect_one_error(run_counter(2, {"--baseline"}), "--baseline is one process; 2 were started");
  expect_one_error(run_counter(3, {"--bad-check", "data.txt:3: no number"}),
                   "verbena: error: data.txt:3: no number");
  expect_one_error(run_counter(3, {"--metrics", "/proc/no/metrics"}), "/proc/no/metrics: cannot create");
}

/// Which way the processes reach each other they find out when they have met.
TEST_F(MpirunTest, WhereNothingIsGatheredThatIsSaidOnce) {
  std::ofstream(path("examples")) << "1 1:1\n0 2:1\n1 3:1\n0 2:1\n";
  const Ended ended =
      run(kMpirun,
          mpirun(2, VERBENA_PROGRAM,
                 {"run", "ctr", "--data", path("examples"), "--test-fraction", "0", "--gather", "always"}),
          scratch_);
  expect_one_error(ended, "--gather always: over shm rows are read in place, and none is gathered");
}

TEST_F(MpirunTest, DeviceThatIsNotThereIsSaidOnce) {
  expect_one_error(run_counter(3, {"--transport", "verbs", "--device", "no_such_device"}),
                   "`verbena doctor` says what is missing");
}

TEST_F(MpirunTest, FailuresOfAWorkerAreToldOnce) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"error", "worker 0 (rank 2, pid "},
      {"throw", "): unexpected exception: thrown on purpose"},
      {"abort", ") ended without a word: it crashed"},
      {"input", "verbena: error: data.txt:17: a number was expected, not \"x\""}};
  for (const auto& [fail, error] : cases) {
    SCOPED_TRACE(fail);
    expect_one_error(run_counter(4, {"--fail", fail, "--iterations", "1000", "--metrics", path("metrics")}),
                     error);
    EXPECT_FALSE(std::filesystem::exists(path("metrics")));
  }
}

TEST_F(MpirunTest, KilledRankIsNamedAndAllEnds) {
  const std::map<int, std::string> roles = {
      {0, "server 0 (rank 0, pid "}, {1, "server 1 (rank 1, pid "}, {3, "worker 1 (rank 3, pid "}};
  for (const auto& [rank, name] : roles) {
    SCOPED_TRACE(rank);
    std::unique_ptr<Program> program;
    ASSERT_NO_FATAL_FAILURE(start_long_run(program));
    const pid_t victim = last_ranks_.at(rank);
    const auto start = std::chrono::steady_clock::now();
    ::kill(victim, SIGKILL);
    const Ended ended = program->wait();
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
              kMpirunEndSeconds);
    expect_one_error(ended, name + std::to_string(victim));
    EXPECT_TRUE(all_gone());
  }
}

TEST_F(MpirunTest, StoppedLeaderIsNamedByAnother) {
  std::unique_ptr<Program> program;
  ASSERT_NO_FATAL_FAILURE(start_long_run(program, {"--silence-timeout", "2000"}));
  ::kill(last_ranks_.at(0), SIGSTOP);
  const Ended ended = program->wait();
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("server 0"), HasSubstr("has shown no sign of life"),
                               HasSubstr("(rank 0, pid "), HasSubstr("which led the run, does not answer")));
  EXPECT_TRUE(all_gone());
}

TEST_F(MpirunTest, InterruptEndsAll) {
  std::unique_ptr<Program> program;
  ASSERT_NO_FATAL_FAILURE(start_long_run(program));
  program->signal(SIGINT);
  const Ended ended = program->wait();
  EXPECT_NE(ended.status, 0);
  EXPECT_EQ(errors(ended.err), 0U) << ended.err;
  EXPECT_TRUE(all_gone());
}

/// As docs/checkpoints.md has it, for mpirun gives a second otherwise.
TEST_F(MpirunTest, GivenTheTimeAllSaveBeforeTheyEnd) {
  std::unique_ptr<Program> program;
  ASSERT_NO_FATAL_FAILURE(
      start_long_run(program, {"--checkpoint", path("saved")}, {"--mca", "odls_base_sigkill_timeout", "2"}));
  program->signal(SIGINT);
  const Ended ended = program->wait();
  EXPECT_NE(ended.status, 0);
  EXPECT_THAT(ended.out, HasSubstr(", saved as "));
  EXPECT_EQ(errors(ended.err), 0U) << ended.err;
  EXPECT_TRUE(all_gone());
}

TEST_F(MpirunTest, WorkerThatDoesNotListenIsEnded) {
  std::unique_ptr<Program> program;
  ASSERT_NO_FATAL_FAILURE(start_long_run(program, {"--fail", "hang"}));
  ::kill(last_ranks_.at(1), SIGKILL);
  expect_one_error(program->wait(), "server 1 (rank 1, pid ");
  EXPECT_TRUE(all_gone());
}

TEST_F(MpirunTest, KilledMpirunLeavesNothing) {
  std::unique_ptr<Program> program;
  ASSERT_NO_FATAL_FAILURE(start_long_run(program));
  program->signal(SIGKILL);
  EXPECT_EQ(program->wait().status, 128 + SIGKILL);
  EXPECT_TRUE(all_gone());
}

TEST_F(MpirunTest, WithoutAWayToMeetItIsAnError) {
  const auto lone = [] { ::setenv("PMIX_RANK", "0", 1); };
  const Ended nobody = run(COUNTER_PROGRAM, {"run", "counter"}, scratch_, lone);
  expect_one_error(nobody, "PMIx: cannot join the job");
  const auto srun = [] { ::setenv("SLURM_STEP_NUM_TASKS", "4", 1); };
  expect_one_error(run(COUNTER_PROGRAM, {"run", "counter"}, scratch_, srun), "it needs --mpi=pmix");
}

}  // namespace
}  // namespace verbena::process_test
