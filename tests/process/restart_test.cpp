// Runs whose processes die, and which go back to their newest checkpoint by themselves (--restarts): under
// BSP they train the same model, whoever dies, and whenever.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/chance.hpp"
#include "tests/process/program.hpp"
#include "tests/process/small_training.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kIterations = kIterationsOfSmallTraining;

std::size_t times(const std::string& what, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

std::vector<pid_t> all_children(const Program& program) {
  std::vector<pid_t> all = program.children("server");
  for (const pid_t pid : program.children("worker")) all.push_back(pid);
  return all;
}

class RestartTest : public SmallTrainingTest {
 protected:
  void SetUp() override {
    fmt::print("VERBENA_TEST_SEED={}\n", chance_.seed());
    const Ended ended = start({}, "undisturbed")->wait();
    ASSERT_EQ(ended.status, 0) << ended.err;
    model_ = model("undisturbed");
    ASSERT_EQ(model_.size(), GetParam().models.size());
    for (const std::string& file : model_) ASSERT_NE(file, "");
    for (const auto& [iteration, objectives] : objectives_of(metrics())) objectives_[iteration] = objectives;
    ASSERT_EQ(objectives_.size(), static_cast<std::size_t>(kIterations));
    std::filesystem::remove_all(saved());
  }

  [[nodiscard]] std::vector<json> metrics() const {
    std::istringstream lines(verbena::testing::contents(folder_.path("metrics")));
    std::vector<json> all;
    for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line));
    return all;
  }
  /// As a reader is told to read them: of the lines of an iteration the last counts.
  static std::map<std::int64_t, json> objectives_of(const std::vector<json>& metrics) {
    std::map<std::int64_t, json> objectives;
    for (const json& line : metrics) {
      if (line.at("kind") == "iteration") objectives[line.at("iteration")] = line.at("objectives");
    }
    return objectives;
  }

  /// Whether a checkpoint is being written, or so many have been.
  [[nodiscard]] bool is_at(std::uint64_t checkpoints, bool is_writing) const {
    std::uint64_t most = 0;
    bool found = false;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(saved(), error)) {
      const std::filesystem::path name = entry.path().filename();
      found = found || name.extension() == ".tmp";
      if (name.extension() == "") ++most;
    }
    return is_writing ? found : most >= checkpoints;
  }
  /// Waits for some moment of the run as it is now: its start, one in which a checkpoint is written, or any.
  void wait_some_time(const Program& program) {
    const auto is_there = [&](const char* kind) { return !program.children(kind).empty(); };
    const auto has_begun = [&] { return is_there("server") && is_there("worker"); };
    EXPECT_TRUE(wait_until([&] { return has_begun() || !alive(program.pid()); }));
    const std::uint64_t kind = chance_.below(3);
    const std::uint64_t checkpoints = 1 + chance_.below(2);
    while (kind > 0 && alive(program.pid()) && !is_at(checkpoints, kind == 1))
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    std::this_thread::sleep_for(std::chrono::duration<double>(chance_.up_to(kind == 1 ? 0.002 : 0.1)));
  }
  /// One that runs; nullopt: none does any more.
  std::optional<pid_t> choose(const Program& program, const std::string& kind) {
    const std::vector<pid_t> all = program.children(kind);
    if (all.empty()) return std::nullopt;
    return all[chance_.below(all.size())];
  }

  void expect_right(const Ended& ended) {
    SCOPED_TRACE(ended.err);
    EXPECT_EQ(ended.status, 0);
    EXPECT_TRUE(model() == model_) << "the model is another one";
    const std::vector<json> lines = metrics();
    const std::map<std::int64_t, json> objectives = objectives_of(lines);
    EXPECT_EQ(objectives, objectives_);
    std::uint64_t restarts = 0;
    std::int64_t last = 0;
    for (const json& line : lines) {
      if (line.at("kind") == "restart") {
        EXPECT_EQ(line.at("restart"), ++restarts);
        EXPECT_THAT(ended.err, HasSubstr(line.at("why").get<std::string>() + ": the training goes back to "));
        EXPECT_LE(line.at("after_iteration"), last);
        last = line.at("after_iteration");
      }
      if (line.at("kind") != "iteration") continue;
      EXPECT_EQ(line.at("iteration"), ++last);
    }
    EXPECT_EQ(last, kIterations);
    EXPECT_EQ(restarts, times("the training goes back to ", ended.err));
    EXPECT_EQ(lines.back().value("restarts", 0U), restarts);
    EXPECT_EQ(lines.back().at("iterations"), kIterations);
    EXPECT_EQ(times("  restarts ", ended.out), restarts > 0 ? 1U : 0U) << ended.out;
  }

  std::vector<std::string> model_;           ///< of a run that nothing disturbs
  std::map<std::int64_t, json> objectives_;  ///< of it
};

TEST_P(RestartTest, TheModelIsTheSameWhoeverDiesAndWhenever) {
  std::vector<std::string> kinds = chance_.below(2) == 0 ? std::vector<std::string>{"server", "worker"}
                                                         : std::vector<std::string>{"worker", "server"};
  // The run goes on when a worker of theirs dies.
  if (GetParam().application == "kge" || GetParam().application == "ctr") kinds = {"server", "server"};
  const auto program = start({"--restarts", "5"});
  std::uint64_t kills = 0;
  for (const std::string& kind : kinds) {
    wait_some_time(*program);
    const std::optional<pid_t> victim = choose(*program, kind);
    if (!victim) continue;  // the run was faster
    ::kill(*victim, SIGKILL);
    ++kills;
    const std::string said = fmt::format("{} of 5", kills);
    EXPECT_TRUE(wait_until([&] { return program->has_said(said) || !alive(program->pid()); }));
  }
  const Ended ended = program->wait();
  fmt::print("{} kills, {} restarts\n", kills, times("the training goes back to ", ended.err));
  expect_right(ended);
}

INSTANTIATE_TEST_SUITE_P(Each, RestartTest, ::testing::ValuesIn(small_trainings()),
                         ::testing::PrintToStringParamName());

class SilentProcessTest : public RestartTest {};

TEST_P(SilentProcessTest, IsKilledAndTheTrainingGoesOn) {
  for (const std::string kind : {"server", "worker"}) {
    SCOPED_TRACE(kind);
    std::filesystem::remove_all(saved());
    // Enough for a host so busy that others are found silent, too.
    const auto program = start({"--restarts", "20", "--silence-timeout", "2000"});
    EXPECT_TRUE(wait_until([&] { return is_at(1, false); }));
    const std::optional<pid_t> victim = choose(*program, kind);
    ASSERT_TRUE(victim);
    ::kill(*victim, SIGSTOP);
    const Ended ended = program->wait();
    EXPECT_TRUE(gone({*victim}, 0));
    EXPECT_THAT(
        ended.err,
        ::testing::ContainsRegex(fmt::format(
            "{} [01] \\(pid {}\\) has shown no sign of life for .*: the training goes back", kind, *victim)));
    expect_right(ended);
  }
}

INSTANTIATE_TEST_SUITE_P(Lda, SilentProcessTest, ::testing::Values(small_trainings().front()),
                         ::testing::PrintToStringParamName());

// --- what does not go on

class CounterRestartTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string saved() const { return folder_.path("saved"); }
  [[nodiscard]] std::vector<std::string> counter(const std::vector<std::string>& more) const {
    std::vector<std::string> all = {"run",       "counter", "--servers",    "2",
                                    "--workers", "2",       "--checkpoint", saved()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  [[nodiscard]] Ended run_counter(const std::vector<std::string>& more) const {
    return run(COUNTER_PROGRAM, counter(more), folder_.path());
  }

  const verbena::testing::TemporaryFolder folder_;
};

TEST_F(CounterRestartTest, OneThatDiesAgainAndAgainEndsTheRun) {
  const Ended ended =
      run_counter({"--fail", "abort", "--restarts", "2", "--metrics", folder_.path("metrics")});
  EXPECT_EQ(ended.status, 1) << ended.err;
  const std::string died = "worker 0 \\(pid [0-9]+\\) was killed by SIGABRT";
  const std::string back = died + ": the training goes back to [^\n]*, restart ";
  EXPECT_THAT(ended.err, ::testing::ContainsRegex("verbena: " + back + "1 of 2\n"));
  EXPECT_THAT(ended.err, ::testing::ContainsRegex("verbena: " + back + "2 of 2\n"));
  EXPECT_THAT(ended.err, ::testing::ContainsRegex("verbena: error: " + died + "\n"));
  EXPECT_EQ(times("the training goes back to ", ended.err), 2U);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("metrics")));
  EXPECT_THAT(run_counter({"--fail", "abort"}).err, Not(HasSubstr("goes back")));
}

TEST_F(CounterRestartTest, AFailureThatAProcessSaysItselfWouldComeAgain) {
  for (const auto& [fail, status] : {std::pair("error", 1), {"input", 2}, {"throw", 1}, {"exit", 1}}) {
    SCOPED_TRACE(fail);
    const Ended ended = run_counter({"--fail", fail, "--restarts", "3"});
    EXPECT_EQ(ended.status, status) << ended.err;
    EXPECT_THAT(ended.err, AllOf(HasSubstr("verbena: error: "), Not(HasSubstr("goes back"))));
  }
}

TEST_F(CounterRestartTest, OtherRunsCheckpointsAreNotItsOwn) {
  ASSERT_EQ(run_counter({"--iterations", "8", "--checkpoint-every", "4"}).status, 0);
  const Ended anew = run_counter({"--fail", "abort", "--restarts", "1"});
  EXPECT_THAT(anew.err, Not(HasSubstr("goes back to iteration 8")));
  EXPECT_THAT(anew.err, HasSubstr("the training goes back to "));
  // With one it has begun: until it has its own it goes back there.
  std::filesystem::remove_all(saved());
  ASSERT_EQ(run_counter({"--iterations", "1", "--checkpoint-every", "1"}).status, 0);
  const Ended resumed = run_counter(
      {"--iterations", "9", "--checkpoint-every", "9", "--resume", "--fail", "abort", "--restarts", "1"});
  EXPECT_THAT(resumed.err,
              HasSubstr(fmt::format(": the training goes back to iteration 1 ({}/ckpt-", saved())));
}

TEST_F(CounterRestartTest, ASignalEndsARunThatStartsAgainAndAgain) {
  Chance chance;
  fmt::print("VERBENA_TEST_SEED={}\n", chance.seed());
  for (const int signal : {SIGINT, SIGTERM, SIGINT, SIGTERM}) {
    Program program(COUNTER_PROGRAM,
                    counter({"--fail", "abort", "--restarts", "300", "--milliseconds", "50"}),
                    folder_.path());
    ASSERT_TRUE(program.wait_for_output("restart 2 of"));
    std::this_thread::sleep_for(std::chrono::duration<double>(chance.up_to(0.3)));
    ::kill(-program.pid(), signal);  // to the whole group, as a terminal does
    ASSERT_TRUE(wait_until([&] { return !alive(program.pid()); }));
    const std::vector<pid_t> left = all_children(program);
    const Ended ended = program.wait();
    EXPECT_EQ(ended.status, 128 + signal) << ended.err;
    EXPECT_TRUE(gone(left, 0));
  }
}

TEST_F(CounterRestartTest, WhatIsNotSavedCannotGoBack) {
  const Ended ended = run(COUNTER_PROGRAM, {"run", "counter", "--restarts", "1"}, folder_.path());
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr("--restarts: expected with --checkpoint FOLDER"));
  const Ended sketch =
      run(VERBENA_PROGRAM,
          {"run", "sketch", "--data", folder_.path("none"), "--checkpoint", saved(), "--restarts", "1"},
          folder_.path());
  EXPECT_EQ(sketch.status, 2);
  EXPECT_THAT(sketch.err, HasSubstr("sketch cannot be saved and gone on with"));
  EXPECT_EQ(run_counter({"--restarts", "-1"}).status, 2);
}

}  // namespace
}  // namespace verbena::process_test
