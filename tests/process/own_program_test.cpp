// Users' own programs as workers. Whoever starts them, each finds its place by one call, and the launcher
// says what becomes of it, as for our own applications.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kMpi = "/usr/bin/mpirun";
constexpr double kProgramsEndSeconds = 6.0;

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::vector<nlohmann::json> lines_of(const std::string& metrics) {
  std::istringstream lines(verbena::testing::contents(metrics));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(lines, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

/// The process of that server which serves, as soon as a copy follows it; 0: there is none.
pid_t serving(const Program& run_of_program, std::size_t server) {
  const verbena::testing::TemporaryFolder folder;
  pid_t found = 0;
  wait_until([&] {
    const Ended looked = run(
        VERBENA_PROGRAM,
        {"cluster", "status", "--json", "--job", fmt::format("run-{}", run_of_program.pid())}, folder.path());
    if (looked.status != 0) return !alive(run_of_program.pid());
    const nlohmann::json copies = nlohmann::json::parse(looked.out)["servers"][server]["copies"];
    if (copies.size() != 2 || copies[0]["role"] != "serves" || copies[1]["role"] != "follows") return false;
    found = copies[0]["pid"];
    return true;
  });
  return found;
}

class OwnProgramTest : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;
  using Variables = std::vector<std::pair<std::string, std::string>>;

  static Words verbena_run(const Words& options, const Words& words) {
    Words all = {"run"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", OWN_PROGRAM});
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }
  [[nodiscard]] Ended run_workers(int workers, const Words& words, const Words& more = {}) const {
    Words options = {"--servers", "2", "--workers", std::to_string(workers)};
    options.insert(options.end(), more.begin(), more.end());
    return run(VERBENA_PROGRAM, verbena_run(options, words), scratch_.path());
  }
  [[nodiscard]] Ended run_with(const Variables& variables, const Words& words = {"count"}) const {
    return run(OWN_PROGRAM, words, scratch_.path(), [variables] {
      for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    });
  }

  const verbena::testing::TemporaryFolder scratch_;
};

TEST_F(OwnProgramTest, IsTheWorkersOfARun) {
  const Ended ended = run_workers(
      3, {"count"}, {"--metrics", scratch_.path("run.jsonl"), "--report", scratch_.path("run.html")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  for (const char* rank : {"0", "1", "2"})
    EXPECT_THAT(ended.out, HasSubstr(std::string("worker ") + rank + " of 3 sees 9\n"));
  EXPECT_THAT(ended.out, HasSubstr("own_program, own consistency, 2 servers × 3 workers, shm"));
  EXPECT_THAT(ended.err, HasSubstr("own_program iteration 3  number 9"));

  const std::vector<nlohmann::json> all = lines_of(scratch_.path("run.jsonl"));
  ASSERT_EQ(all.size(), 1 + 3 + 3 + 1U) << "start, iterations, workers, summary";
  EXPECT_EQ(all[0]["options"]["command"], std::string(OWN_PROGRAM) + " count");
  EXPECT_EQ(all[2]["objectives"]["number"], 6);
  EXPECT_EQ(all[4]["rows_pulled"], 3);
  EXPECT_EQ(all.back()["objectives"]["number"], 9);
  EXPECT_THAT(verbena::testing::contents(scratch_.path("run.html")), HasSubstr("number"));
}

TEST_F(OwnProgramTest, HasItsArgumentsAndNoInput) {
  const Ended ended = run_workers(1, {"arguments", "--help", "-v", "--data=", "", "--"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("[--help][-v][--data=][][--] input: 0 bytes\n"));
}

TEST_F(OwnProgramTest, JoinsOnce) {
  const Ended ended = run_workers(1, {"twice"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("FAILED_PRECONDITION: this process has asked for its place in a job already"),
                    HasSubstr("worker 0 of 1 sees 3")));
}

TEST_F(OwnProgramTest, FailsByName) {
  const Ended silent = run_workers(3, {"silent"}, {"--metrics", scratch_.path("run.jsonl")});
  EXPECT_EQ(silent.status, 1);
  EXPECT_THAT(silent.err,
              AllOf(HasSubstr("verbena: error: worker 1 (pid "), HasSubstr("ended with status 3")));
  EXPECT_FALSE(std::filesystem::exists(scratch_.path("run.jsonl"))) << "a run that has failed leaves nothing";

  const Ended gave_up = run_workers(3, {"gives-up"});
  EXPECT_EQ(gave_up.status, 1);
  EXPECT_THAT(gave_up.err, HasSubstr("no more coffee"));
  EXPECT_THAT(gave_up.err, HasSubstr("verbena: error: worker 1 (pid "));

  const Ended stayed_out = run_workers(1, {"stays-out"});
  EXPECT_EQ(stayed_out.status, 1);
  EXPECT_THAT(stayed_out.err, HasSubstr("ended before a session of it had: a program calls "));
}

TEST_F(OwnProgramTest, LeavesNothingBehind) {
  for (const int number : {SIGINT, SIGKILL}) {
    Program verbena(VERBENA_PROGRAM, verbena_run({"--workers", "2"}, {"sleeps"}), scratch_.path());
    ASSERT_TRUE(verbena.wait_for_output("worker 1 of 2 sees 2") &&
                verbena.wait_for_output("worker 0 of 2 sees 2"));
    const std::vector<pid_t> workers = verbena.children("sleeps");
    const std::vector<pid_t> servers = verbena.children("server");
    ASSERT_EQ(workers.size(), 2U);
    ASSERT_EQ(servers.size(), 1U);
    if (number == SIGINT) {
      verbena.signal(SIGINT);
      const Ended ended = verbena.wait();
      EXPECT_EQ(ended.status, 128 + SIGINT);
      EXPECT_THAT(ended.err, HasSubstr("verbena: stopped by SIGINT"));
    } else {
      ::kill(workers[0], SIGKILL);
      const Ended ended = verbena.wait();
      EXPECT_EQ(ended.status, 1);
      EXPECT_THAT(ended.err, HasSubstr("was killed by SIGKILL"));
    }
    EXPECT_TRUE(gone(workers, kProgramsEndSeconds));
    EXPECT_TRUE(gone(servers, kProgramsEndSeconds));
  }
}

TEST_F(OwnProgramTest, GoesOnFromItsCheckpointWhenItIsStartedAgain) {
  const Words saves = {"saves", scratch_.path("saved")};
  const Ended ended = run_workers(3, saves, {"--restarts", "2", "--metrics", scratch_.path("run.jsonl")});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("was killed by SIGKILL"),
                               HasSubstr("all processes are started again, restart 1 of 2"),
                               Not(HasSubstr("restart 2 of 2"))));
  EXPECT_THAT(ended.out, HasSubstr("worker 0 of 3 sees 9\n")) << "as if nothing had happened";
  const std::vector<nlohmann::json> all = lines_of(scratch_.path("run.jsonl"));
  EXPECT_EQ(all.back()["iterations"], 3);
  EXPECT_EQ(all.back()["restarts"], 1);

  const Ended failed = run_workers(3, {"silent"}, {"--restarts", "2"});
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, Not(HasSubstr("started again"))) << "it would fail again";
}

/// By a script between, so that the program's parent is not the launcher.
TEST_F(OwnProgramTest, ItsServersMayDie) {
  const std::string enough = scratch_.path("enough");
  const std::string metrics = scratch_.path("run.jsonl");
  Program verbena(
      VERBENA_PROGRAM,
      {"run", "--servers", "2", "--workers", "2", "--replicas", "1", "--silence-timeout", "2000", "--metrics",
       metrics, "--", "sh", "-c", std::string(OWN_PROGRAM) + " trains-until " + enough + "; exit $?"},
      scratch_.path());
  ASSERT_TRUE(verbena.wait_for_output("worker 0 trains") && verbena.wait_for_output("worker 1 trains"));
  const auto hit = [&](std::size_t server, int signal) {
    const pid_t victim = serving(verbena, server);
    ASSERT_GT(victim, 1);
    ::kill(victim, signal);
  };
  const auto are_there_again = [&](std::size_t joins) {
    return wait_until(
        [&] { return verbena.times_said("can take its place") == joins || !alive(verbena.pid()); });
  };
  hit(0, SIGKILL);
  ASSERT_TRUE(are_there_again(1));
  hit(1, SIGSTOP);
  hit(0, SIGKILL);  // it was a copy
  ASSERT_TRUE(are_there_again(3));
  verbena::testing::write_file(enough, "");
  const Ended ended = verbena.wait();
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out,
              AllOf(HasSubstr("was killed by SIGKILL: the run goes on with the last copy of server 0"),
                    HasSubstr("shows no sign of life, and is ended"), HasSubstr("failovers")));
  EXPECT_THAT(verbena::testing::contents(metrics),
              AllOf(HasSubstr("\"kind\":\"failover\""), HasSubstr("\"failovers\":3")));
  const std::string iterations = rest_of_line(ended.out, "iterations: ");
  ASSERT_NE(iterations, "");
  const Ended undisturbed = run_workers(2, {"trains", iterations});
  ASSERT_EQ(undisturbed.status, 0) << undisturbed.err;
  ASSERT_NE(rest_of_line(ended.out, "bits:"), "");
  EXPECT_EQ(rest_of_line(ended.out, "bits:"), rest_of_line(undisturbed.out, "bits:"));
}

TEST_F(OwnProgramTest, RowsThatMoveHaveNoCopies) {
  const Ended ended = run_workers(1, {"moves"}, {"--replicas", "1"});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("there are no copies of them"), HasSubstr("without --replicas")));
}

TEST_F(OwnProgramTest, WrongUseIsExplained) {
  const std::string error = "verbena: error: ";
  const auto says = [&](const Words& words) {
    const Ended ended = run(VERBENA_PROGRAM, words, scratch_.path());
    EXPECT_EQ(ended.status, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(says({"run", "--", "./nothing"}), StartsWith(error + "./nothing: there is no such program"));
  EXPECT_THAT(says({"run", "--", "/etc/passwd"}), HasSubstr("may not be executed"));
  EXPECT_THAT(says({"run", "--threads", "2", "--", OWN_PROGRAM}), HasSubstr("--threads"));
  EXPECT_THAT(says({"run", "--"}), StartsWith(error + "verbena run: the name of what to do is missing"));
  EXPECT_THAT(says({"run", "lda", "--data", "x", "--", OWN_PROGRAM}), HasSubstr(OWN_PROGRAM));
  EXPECT_THAT(says({"run", "--servers", "2", "lda", "--data", "x"}),
              HasSubstr("belongs behind the application"));
  EXPECT_THAT(says({"run", "--metrics", OWN_PROGRAM, "--report", OWN_PROGRAM, "--", OWN_PROGRAM}),
              HasSubstr("--metrics"));
}

TEST_F(OwnProgramTest, IsAloneWithAServerOfItsOwn) {
  const Ended ended = run_with({});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.out, "worker 0 of 1 sees 1\nworker 0 of 1 sees 2\nworker 0 of 1 sees 3\n");
  EXPECT_EQ(run_with({}, {"silent"}).status, 0) << "there is no worker 1";
}

TEST_F(OwnProgramTest, IsAWorkerByVariables) {
  const std::string job = scratch_.path().filename().string();  // no other job has this name
  const verbena::testing::TemporaryFolder servers;
  const verbena::testing::TemporaryFolder firsts;
  Program server(VERBENA_PROGRAM, {"server", "--job", job, "--workers", "2"}, servers.path());
  const Variables all = {{"VERBENA_SERVERS", "shm:" + job + "/server-0"}, {"VERBENA_WORKERS", "2"}};
  Program first(OWN_PROGRAM, {"count"}, firsts.path(), [all] {
    for (const auto& [name, value] : all) ::setenv(name.c_str(), value.c_str(), 1);
  });
  Variables second = all;
  second.emplace_back("VERBENA_RANK", "1");
  const Ended ended = run_with(second);
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("worker 1 of 2 sees 6"));
  EXPECT_THAT(first.wait().out, HasSubstr("worker 0 of 2 sees 6"));
  EXPECT_EQ(server.wait().status, 0);

  EXPECT_THAT(run_with({{"VERBENA_SERVERS", "shm:x"}, {"VERBENA_RANK", "one"}}).err,
              HasSubstr("VERBENA_RANK=one: a number is expected"));
  EXPECT_THAT(run_with({{"VERBENA_WORKERS", "2"}}).err,
              HasSubstr("and VERBENA_SERVERS, where the servers are"));
  EXPECT_THAT(run_with({{"VERBENA_SERVERS", ""}}).err, HasSubstr("an address for each server is expected"));
  EXPECT_THAT(run_with({{"VERBENA_SERVERS", "shm:a,shm:b,shm:a"}}).err,
              HasSubstr("\"shm:a\" is there twice"));
  EXPECT_THAT(run_with({{"VERBENA_SERVERS", "shm:a, shm:b"}}).err, HasSubstr("\" shm:b\" is none"));
  EXPECT_THAT(run_with({{"VERBENA_SERVERS", "shm:a"}, {"VERBENA_NO_SECRET", "yes"}}).err,
              HasSubstr("VERBENA_NO_SECRET=yes: 1 is expected"));
  EXPECT_THAT(run_with({{"VERBENA_TLS", "yes"}}).err, HasSubstr("VERBENA_TLS=yes: 1 is expected"));
  EXPECT_THAT(
      run_with({{"VERBENA_SERVERS", "tcp:127.0.0.1:1"}, {"VERBENA_NO_SECRET", "1"}, {"VERBENA_TLS", "1"}})
          .err,
      HasSubstr("tls needs a secret"));
  EXPECT_THAT(run_with({{"VERBENA_SERVERS", "pigeon:x"}}).err, HasSubstr("there is no transport \"pigeon\""));
  EXPECT_THAT(run_with({{"VERBENA_SERVERS", "verbs:127.0.0.1:1"}}).err, HasSubstr("a job needs a secret"));
}

TEST_F(OwnProgramTest, IsNoJobOfManyByMistake) {
  const Ended ended = run_with({{"SLURM_STEP_NUM_TASKS", "4"}});
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("srun has started 4 processes"), HasSubstr("--mpi=pmix")));
}

/// Otherwise each of many processes would be a job of its own, and all would write the same files.
TEST_F(OwnProgramTest, IsNotAloneWhereItsLetterIsLost) {
  for (const char* descriptor : {"0", "1", "99", "x", "-1"}) {
    const Ended ended = run_with({{"VERBENA_LETTER", descriptor}});
    EXPECT_EQ(ended.status, 1) << descriptor;
    EXPECT_THAT(ended.err, HasSubstr("has closed the descriptor that it needs")) << descriptor;
  }
}

TEST_F(OwnProgramTest, MayStandBehindAScript) {
  const std::string program = OWN_PROGRAM;
  const auto run_script = [&](const std::string& script) {
    return run(VERBENA_PROGRAM, {"run", "--workers", "2", "--", "sh", "-c", script}, scratch_.path());
  };
  const Ended script = run_script("exec " + program + " count");
  EXPECT_EQ(script.status, 0) << script.err;
  EXPECT_THAT(script.out, HasSubstr("worker 1 of 2 sees 6"));
  // A run that a worker starts is another job.
  const Ended nested =
      run_script(std::string(VERBENA_PROGRAM) + " run --workers 3 -- " + program + " count >" +
                 scratch_.path("inner.out") + " 2>&1 && exec " + program + " count");
  EXPECT_EQ(nested.status, 0) << nested.err;
  EXPECT_THAT(nested.out, HasSubstr("worker 1 of 2 sees 6"));
}

/// The first process that gives up is the cause, even if others end at the same time as a consequence.
TEST_F(OwnProgramTest, TheCauseIsNamedAndNotWhatFollowed) {
  for (int i = 0; i < 5; ++i) {
    const Ended ended = run_workers(4, {"only-one-gives-up"});
    EXPECT_EQ(ended.status, 1);
    EXPECT_THAT(ended.err, HasSubstr("verbena: error: worker 1 (pid ")) << i;
    EXPECT_THAT(ended.err, HasSubstr("no more coffee")) << i;
  }
}

TEST_F(OwnProgramTest, ItsChildrenHaveNoSession) {
  const Ended ended = run_workers(2, {"forks"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("a child that it has forked"));
  EXPECT_EQ(count_of(ended.out, "the child ended with 0"), 2);
  EXPECT_THAT(ended.out, HasSubstr("worker 1 of 2 sees 6"));
}

TEST_F(OwnProgramTest, HasItsPlaceAlone) {
  const std::string program = OWN_PROGRAM;
  const Ended ended =
      run(VERBENA_PROGRAM, {"run", "--", "sh", "-c", program + " count; exec " + program + " count"},
          scratch_.path());
  EXPECT_EQ(ended.status, 1);
  EXPECT_THAT(ended.err, HasSubstr("another program has taken this place in the job before"));
}

TEST_F(OwnProgramTest, BeginsAsFromAShell) {
  const Ended ended = run_workers(1, {"signals"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("SIGPIPE is not ignored"));
}

TEST_F(OwnProgramTest, MayHaveASecretWhereverItRuns) {
  const std::string file = scratch_.path("secret");
  verbena::testing::write_file(file, "not to be guessed by anybody");
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  const Ended ended = run(OWN_PROGRAM, {"secret", file}, scratch_.path());
  EXPECT_EQ(ended.status, 0) << ended.err;
}

TEST_F(OwnProgramTest, IsAWorkerUnderMpirun) {
  if (!std::filesystem::exists(kMpi)) GTEST_SKIP() << "skipped: no mpirun (scripts/setup installs it)";
  const auto mpirun = [&](const Words& words) {
    Words all = {"--allow-run-as-root", "--oversubscribe", "-n", "3"};
    all.insert(all.end(), words.begin(), words.end());
    return run(kMpi, all, scratch_.path());
  };
  const Ended ended = mpirun({OWN_PROGRAM, "count"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(count_of(ended.out, "of 3 sees 9\n"), 3) << ended.out;

  const Ended failed = mpirun({OWN_PROGRAM, "gives-up"});
  EXPECT_NE(failed.status, 0);
  EXPECT_THAT(failed.err, HasSubstr("no more coffee"));
}

TEST_F(OwnProgramTest, IsLookedAfterUnderMpirun) {
  if (!std::filesystem::exists(kMpi)) GTEST_SKIP() << "skipped: no mpirun (scripts/setup installs it)";
  const auto looked_after = [&](const Words& options, const std::string& mode) {
    Words all = {"--allow-run-as-root", "--oversubscribe", "-n", "4", VERBENA_PROGRAM};
    const Words words = verbena_run(options, {mode});
    all.insert(all.end(), words.begin(), words.end());
    return run(kMpi, all, scratch_.path());
  };
  const std::string metrics = scratch_.path("run.jsonl");
  const Ended ended = looked_after({"--metrics", metrics}, "count");
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(count_of(ended.out, "of 2 sees 6\n"), 2) << ended.out;
  const std::vector<nlohmann::json> all = lines_of(metrics);
  ASSERT_EQ(all.size(), 1 + 3 + 2 + 1U) << "start, iterations, workers, summary";
  EXPECT_EQ(all.front()["options"]["command"], std::string(OWN_PROGRAM) + " count");
  EXPECT_EQ(all.back()["objectives"]["number"], 6);

  const auto error_of = [&](const std::string& mode) {
    const Ended failed = looked_after({}, mode);
    EXPECT_NE(failed.status, 0) << mode;
    EXPECT_EQ(count_of(failed.err, "verbena: error"), 1) << failed.err;
    return failed.err;
  };
  EXPECT_THAT(error_of("gives-up"), AllOf(HasSubstr("error: worker 1 (rank 3"), HasSubstr("no more coffee")));
  EXPECT_THAT(error_of("silent"), AllOf(HasSubstr("worker 1 (rank 3"), HasSubstr("ended with status 3")));
  EXPECT_THAT(error_of("stays-out"), HasSubstr("ended before a session of it had"));
}

}  // namespace
}  // namespace verbena::process_test
