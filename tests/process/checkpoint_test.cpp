// Runs that are saved and gone on with, with real processes: what a user sees, and what is left.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class CheckpointRunTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }
  [[nodiscard]] std::string saved() const { return path("saved"); }
  [[nodiscard]] std::string count() const { return verbena::testing::contents(path("count")); }
  /// Of two servers and two workers, with checkpoints.
  [[nodiscard]] std::vector<std::string> counter(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"run",      "counter",     "--workers",    "2",
                                    "--output", path("count"), "--checkpoint", saved()};
    if (std::find(more.begin(), more.end(), "--servers") == more.end())
      all.insert(all.end(), {"--servers", "2"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] Ended run_counter(const std::vector<std::string>& more) const {
    return run(COUNTER_PROGRAM, counter(more), folder_.path());
  }
  /// Starts a run that does not end by itself, and waits until it trains.
  [[nodiscard]] std::unique_ptr<Program> start_long_run(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"--iterations", "1000000", "--milliseconds", "20"};
    all.insert(all.end(), more.begin(), more.end());
    auto program = std::make_unique<Program>(COUNTER_PROGRAM, counter(all), folder_.path());
    EXPECT_TRUE(program->wait_for_children("worker", 2));
    EXPECT_TRUE(program->wait_for_output("  counted "));
    return program;
  }
  static std::vector<pid_t> all_children(const Program& program) {
    std::vector<pid_t> all = program.children("server");
    for (const pid_t pid : program.children("worker")) all.push_back(pid);
    return all;
  }
  [[nodiscard]] bool has_checkpoint() const {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(saved(), error)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with("ckpt-") && name.find('.') == std::string::npos) return true;
    }
    return false;
  }
  void expect_refusal(const std::vector<std::string>& more, const std::string& error) const {
    SCOPED_TRACE(::testing::PrintToString(more));
    const Ended ended = run_counter(more);
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(error));
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(CheckpointRunTest, CtrlCSavesAndResumeGoesOn) {
  for (const int signal : {SIGINT, SIGTERM}) {
    std::filesystem::remove_all(saved());
    const auto program = start_long_run();
    const std::vector<pid_t> all = all_children(*program);
    ::kill(-program->pid(), signal);  // to the whole group, as a terminal does
    const Ended ended = program->wait();
    EXPECT_EQ(ended.status, 128 + signal) << ended.err;
    EXPECT_THAT(ended.err, AllOf(HasSubstr("verbena: stopped by SIG"), Not(HasSubstr("error"))));
    EXPECT_THAT(ended.out, Not(HasSubstr("no checkpoint of this stop")));
    EXPECT_TRUE(gone(all, 0));
    std::smatch found;
    const std::regex line("stopped after iteration ([0-9]+), saved as (.*): --resume goes on from there");
    ASSERT_TRUE(std::regex_search(ended.out, found, line)) << ended.out;
    EXPECT_TRUE(std::filesystem::is_directory(found[2].str())) << found[2].str();
    const int iterations = std::stoi(found[1].str()) + 5;

    const Ended resumed = run_counter({"--iterations", std::to_string(iterations), "--resume"});
    EXPECT_EQ(resumed.status, 0) << resumed.err;
    EXPECT_THAT(resumed.err, AllOf(HasSubstr("goes on from " + found[2].str()),
                                   HasSubstr(fmt::format("counter {0}/{0}", iterations))));
    EXPECT_EQ(count(), fmt::format("{}\n", 2 * iterations)) << "each worker has counted each iteration once";
    EXPECT_THAT(resumed.out, ::testing::ContainsRegex("iterations +5\n"));
  }
}

TEST_F(CheckpointRunTest, ASecondSignalEndsItAtOnce) {
  Program program(COUNTER_PROGRAM, counter({"--iterations", "1000000", "--fail", "hang"}), folder_.path());
  ASSERT_TRUE(program.wait_for_output("hanging"));
  const std::vector<pid_t> all = all_children(program);
  program.signal(SIGINT);
  ASSERT_TRUE(program.wait_for_output("a second signal ends the run at once"));
  EXPECT_TRUE(std::all_of(all.begin(), all.end(), alive));
  program.signal(SIGINT);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 130) << ended.err;
  EXPECT_TRUE(gone(all, 0));
  EXPECT_FALSE(has_checkpoint());
  EXPECT_THAT(ended.out,
              HasSubstr("there is no checkpoint of this stop; nor is there another one in " + saved()));
}

TEST_F(CheckpointRunTest, AStopThatIsNotSavedNamesTheNewestCheckpoint) {
  ASSERT_EQ(run_counter({"--iterations", "6", "--checkpoint-every", "3"}).status, 0);
  ASSERT_TRUE(has_checkpoint());
  const auto program = start_long_run({"--resume", "--checkpoint-every", "1000000"});
  const pid_t victim = program->children("worker")[1];
  ::kill(victim, SIGSTOP);  // so that nobody can save
  ::kill(program->pid(), SIGINT);
  ASSERT_TRUE(program->wait_for_output("a second signal ends the run at once"));
  ::kill(victim, SIGKILL);
  const Ended ended = program->wait();
  EXPECT_EQ(ended.status, 130) << ended.err;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("there is no checkpoint of this stop (worker 1 "),
                               HasSubstr("); the newest one is " + saved() + "/ckpt-"),
                               HasSubstr(": --resume goes on from there")));
}

TEST_F(CheckpointRunTest, AKilledWorkerCostsWhatCameAfterTheCheckpoint) {
  const auto program = start_long_run({"--checkpoint-every", "1", "--checkpoint-keep", "1"});
  ASSERT_TRUE(wait_until([&] { return has_checkpoint(); }));
  ::kill(program->children("worker")[1], SIGKILL);
  const Ended ended = program->wait();
  EXPECT_EQ(ended.status, 1) << ended.err;
  EXPECT_THAT(ended.err, HasSubstr("was killed by SIGKILL"));
  EXPECT_TRUE(has_checkpoint());
  const Ended resumed = run_counter({"--iterations", "5000", "--resume", "--servers", "1"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("goes on from "));
  EXPECT_EQ(count(), "10000\n");
}

TEST_F(CheckpointRunTest, OneCommandLineForAllAttempts) {
  for (const std::string said : {"there is no checkpoint in", "goes on from"}) {
    const Ended ended = run_counter({"--iterations", "6", "--checkpoint-every", "3", "--resume"});
    EXPECT_EQ(ended.status, 0) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(said));
    EXPECT_EQ(count(), "12\n");
  }
}

TEST_F(CheckpointRunTest, WhatIsSavedCanBeLookedAt) {
  const auto look = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"checkpoint"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(VERBENA_PROGRAM, all, folder_.path());
  };
  ASSERT_EQ(run_counter({"--iterations", "4", "--checkpoint-every", "4"}).status, 0);
  const Ended list = look({"list", saved()});
  EXPECT_EQ(list.status, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("ckpt-"));
  const Ended seen = look({"inspect", saved()});
  EXPECT_EQ(seen.status, 0) << seen.err;
  EXPECT_THAT(seen.out, AllOf(HasSubstr("server-1"), HasSubstr("worker-1")));
  EXPECT_EQ(look({"verify", saved()}).status, 0);
  const auto one = std::filesystem::directory_iterator(saved())->path();
  std::string bytes = verbena::testing::contents(one / "worker-0");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  verbena::testing::write_file(one / "worker-0", bytes);
  const Ended damaged = look({"verify", saved()});
  EXPECT_EQ(damaged.status, 1) << damaged.err;
  EXPECT_THAT(damaged.out, HasSubstr("worker-0"));
  EXPECT_EQ(look({"inspect", path("nothing")}).status, 2);
}

/// Of 4,000 features few are in the examples of an iteration.
TEST_F(CheckpointRunTest, IncrementsHoldWhatHasChanged) {
  std::string examples;
  for (int i = 0; i < 4000; ++i)
    examples += fmt::format("{} {}:1 {}:1\n", i % 3 == 0 ? 1 : 0, i / 2 + 1, 2001 + i * 7 % 2000);
  verbena::testing::write_file(path("examples"), examples);
  const auto train = [&](const std::string& passes, const std::string& servers,
                         const std::vector<std::string>& more) {
    std::vector<std::string> all = {"run",       "ctr",   "--data",        path("examples"),
                                    "--passes",  passes,  "--workers",     "2",
                                    "--servers", servers, "--consistency", "bsp"};
    all.insert(all.end(), more.begin(), more.end());
    const Ended ended = run(VERBENA_PROGRAM, all, folder_.path());
    EXPECT_EQ(ended.status, 0) << ended.err;
  };
  train("4", "2", {"--output", path("undisturbed")});
  train("3", "2", {"--checkpoint", saved(), "--checkpoint-every", "1", "--checkpoint-increments", "2"});
  const Ended list = run(VERBENA_PROGRAM, {"checkpoint", "list", saved()}, folder_.path());
  EXPECT_THAT(list.out, ::testing::ContainsRegex(" since .*\n.* since .*\n.* all "));
  EXPECT_EQ(run(VERBENA_PROGRAM, {"checkpoint", "verify", saved()}, folder_.path()).status, 0);
  train("4", "1", {"--checkpoint", saved(), "--resume", "--output", path("resumed")});
  EXPECT_EQ(verbena::testing::contents(path("resumed")), verbena::testing::contents(path("undisturbed")));
}

TEST_F(CheckpointRunTest, ADamagedOneIsPassedOver) {
  ASSERT_EQ(run_counter({"--iterations", "6", "--checkpoint-every", "2"}).status, 0);
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::directory_iterator(saved())) all.push_back(entry.path());
  ASSERT_EQ(all.size(), 2U);
  const auto clock = [](const std::filesystem::path& one) {
    return std::stoi(one.filename().string().substr(5));
  };
  std::sort(all.begin(), all.end(), [&](const auto& a, const auto& b) { return clock(a) < clock(b); });
  std::filesystem::resize_file(all[1] / "manifest.json", 10);
  const Ended resumed = run_counter({"--iterations", "7", "--resume"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, AllOf(HasSubstr(all[1].filename().string()),
                                 HasSubstr("goes on from " + all[0].string() + ", after iteration 4")));
  EXPECT_EQ(count(), "14\n");
  for (const std::filesystem::path& one : std::filesystem::directory_iterator(saved()))
    std::filesystem::resize_file(one / "manifest.json", 10);
  const Ended none = run_counter({"--iterations", "7", "--resume"});
  EXPECT_EQ(none.status, 1) << none.err;
  EXPECT_THAT(none.err, HasSubstr(saved() + ": no checkpoint there is whole"));
}

TEST_F(CheckpointRunTest, OtherRunsAreRefused) {
  ASSERT_EQ(run_counter({"--iterations", "4", "--checkpoint-every", "2", "--seed", "7"}).status, 0);
  const std::vector<std::string> same = {"--iterations", "6", "--seed", "7", "--resume"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = same;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  expect_refusal({"--iterations", "6", "--resume"}, "--seed was 7 when ");
  expect_refusal({"--iterations", "6", "--resume"}, ", now 1;");
  expect_refusal({"--iterations", "3", "--seed", "7", "--resume"},
                 "is after iteration 4: expected at least so many, found 3");
  expect_refusal(with({"--threads", "2"}), "the number of workers was 2 when");
  expect_refusal(with({"--consistency", "ssp:1"}), "--consistency was bsp when");
  expect_refusal(with({"--baseline"}), "--checkpoint: the servers save what is trained");
  expect_refusal(with({"--resume-from", saved()}), "excludes");
  const Ended ended = run_counter(with({"--servers", "1", "--words", "said"}));
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(count(), "12\n");
}

TEST_F(CheckpointRunTest, OptionsThatNeedOthersSaySo) {
  const auto refused = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"run", "counter"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(COUNTER_PROGRAM, arguments, folder_.path());
    EXPECT_EQ(ended.status, 2) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(refused({"--resume"}), HasSubstr("--resume: expected with --checkpoint FOLDER"));
  EXPECT_THAT(refused({"--checkpoint-every", "3"}), HasSubstr("--checkpoint-every: expected with"));
  EXPECT_THAT(refused({"--checkpoint-keep", "3"}), HasSubstr("--checkpoint-keep: expected with"));
  EXPECT_THAT(refused({"--checkpoint-increments", "3"}), HasSubstr("--checkpoint-increments: expected with"));
  EXPECT_THAT(refused({"--checkpoint", "x", "--checkpoint-keep", "0"}),
              HasSubstr("--checkpoint-keep: a whole number"));
  EXPECT_THAT(refused({"--checkpoint", "/dev/null"}), HasSubstr("is no folder that may be written"));
  EXPECT_THAT(refused({"--resume-from", path("none")}), HasSubstr(path("none")));
  const Ended other = run(VERBENA_PROGRAM, {"run", "sketch", "--data", path("none"), "--checkpoint", saved()},
                          folder_.path());
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("--checkpoint: sketch cannot be saved and gone on with"));
}

}  // namespace
}  // namespace verbena::process_test
