// Processes that torchrun, Kubernetes or a shell has started, and that find each other at an address: what
// `verbena run` promises holds for them, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/free_port.hpp"
#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RendezvousTest : public ::testing::Test {
 protected:
  RendezvousTest() {
    verbena::testing::write_file(path("secret"), "a secret that nobody knows\n");
    std::filesystem::permissions(path("secret"), std::filesystem::perms::owner_read);
  }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }
  [[nodiscard]] std::string place() const { return "127.0.0.1:" + std::to_string(port_); }
  using Variables = std::map<std::string, std::string>;
  void start(const std::string& program, const std::vector<std::string>& words, const Variables& variables) {
    processes_.push_back(std::make_unique<Program>(program, words, folder_.path(), [variables] {
      for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
    }));
  }
  /// As torchrun would.
  void start_by_variables(int size, const std::string& program, const std::vector<std::string>& words) {
    for (int rank = 0; rank < size; ++rank) {
      start(program, words,
            {{"RANK", std::to_string(rank)},
             {"WORLD_SIZE", std::to_string(size)},
             {"LOCAL_RANK", std::to_string(rank)},
             {"MASTER_ADDR", "localhost"},
             {"MASTER_PORT", std::to_string(port_ - 1)},
             {"VERBENA_SECRET_FILE", path("secret")}});
    }
  }
  void start_by_options(int size, std::vector<std::string> words) {
    words.insert(words.end(), {"--rendezvous", place(), "--processes", std::to_string(size), "--secret-file",
                               path("secret"), "--process", ""});
    for (int rank = 0; rank < size; ++rank) {
      words.back() = std::to_string(rank);
      start(COUNTER_PROGRAM, words, {});
    }
  }
  /// Two servers and two workers that train without end.
  void start_long_run(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"run", "counter", "--iterations", "1000000", "--milliseconds", "20"};
    words.insert(words.end(), more.begin(), more.end());
    start_by_options(4, words);
    ASSERT_TRUE(more.empty() ? processes_[0]->wait_for_output("  counted ")
                             : processes_[2]->wait_for_output("hanging"));
  }
  /// In all processes' words.
  [[nodiscard]] std::vector<Ended> wait_for_all() const {
    std::vector<Ended> ended;
    for (const auto& process : processes_) ended.push_back(process->wait());
    return ended;
  }
  static std::string errors_of(const std::vector<Ended>& ended) {
    std::string all;
    for (const Ended& each : ended) all += each.err;
    return all;
  }
  static std::size_t count(const std::string& text, const std::string& what) {
    std::size_t times = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++times;
    return times;
  }
  void expect_one_error_and_the_end(const std::string& error) const {
    const std::vector<Ended> ended = wait_for_all();
    for (const Ended& each : ended) EXPECT_NE(each.status, 0) << each.err;
    EXPECT_THAT(errors_of(ended), HasSubstr(error));
    EXPECT_EQ(count(errors_of(ended), "verbena: error: "), 1U) << errors_of(ended);
  }

  verbena::testing::TemporaryFolder folder_;
  const std::uint16_t port_ = verbena::testing::free_port();
  std::vector<std::unique_ptr<Program>> processes_;  ///< by rank
};

TEST_F(RendezvousTest, ByOptionsTheyTrainWithHalfOfThemServers) {
  start_by_options(4, {"run", "counter", "--output", path("count")});
  const std::vector<Ended> ended = wait_for_all();
  for (const Ended& each : ended) EXPECT_EQ(each.status, 0) << each.err;
  EXPECT_EQ(verbena::testing::contents(path("count")), "10\n");
  EXPECT_THAT(ended[0].out, HasSubstr("counter, bsp, 2 servers × 2 workers, shm"));
  EXPECT_EQ(errors_of({ended[1], ended[2], ended[3]}), "") << "rank 0 speaks for all";
}

TEST_F(RendezvousTest, ByVariablesTheyDoTheSame) {
  start_by_variables(3, COUNTER_PROGRAM, {"run", "counter", "--output", path("count")});
  const std::vector<Ended> ended = wait_for_all();
  for (const Ended& each : ended) EXPECT_EQ(each.status, 0) << each.err;
  EXPECT_EQ(verbena::testing::contents(path("count")), "10\n");
  EXPECT_THAT(ended[0].out, HasSubstr("1 server × 2 workers"));
}

/// Workers alone read it, and these cannot be replaced: so nothing keeps it. Who leads the run then goes on
/// from no other one.
TEST_F(RendezvousTest, ServersComeBackWhenTheCheckpointOfTheBeginningIsGone) {
  const std::vector<std::string> saves = {
      "--checkpoint", path("saved"), "--checkpoint-every", "1", "--checkpoint-keep", "1"};
  std::vector<std::string> words = {"run", "counter", "--iterations", "3"};
  words.insert(words.end(), saves.begin(), saves.end());
  ASSERT_EQ(run(COUNTER_PROGRAM, words, folder_.path()).status, 0);
  std::filesystem::path beginning;
  for (const auto& entry : std::filesystem::directory_iterator(path("saved"))) beginning = entry.path();
  words = {"run",        "counter", "--iterations", "1000000", "--milliseconds", "20", "--servers", "1",
           "--replicas", "1",       "--workers",    "1",       "--resume"};
  words.insert(words.end(), saves.begin(), saves.end());
  start_by_options(3, words);
  ASSERT_TRUE(processes_[0]->wait_for_output("goes on from " + beginning.string()));
  ASSERT_TRUE(wait_until([&] { return !std::filesystem::exists(beginning); }));
  words.insert(words.end(), {"--rendezvous", place(), "--processes", "3", "--secret-file", path("secret"),
                             "--process", ""});
  for (const std::size_t rank : {1U, 0U}) {
    processes_[rank]->signal(SIGKILL);
    words.back() = std::to_string(rank);
    processes_[rank] = std::make_unique<Program>(COUNTER_PROGRAM, words, folder_.path());
    EXPECT_TRUE(processes_[0]->wait_for_output("can take its place"));
  }
  EXPECT_TRUE(processes_[0]->has_said("this process leads the run"));
  EXPECT_FALSE(processes_[0]->has_said("goes on from"));
}

/// One server is stopped, and the one that leads the run is killed: others come in their places.
TEST_F(RendezvousTest, ServersOfAProgramOfOnesOwnMayDie) {
  const std::string enough = path("enough");
  const auto words_of = [&](std::size_t rank) {
    return std::vector<std::string>{"run",
                                    "--servers",
                                    "2",
                                    "--replicas",
                                    "1",
                                    "--workers",
                                    "2",
                                    "--silence-timeout",
                                    "2000",
                                    "--rendezvous",
                                    place(),
                                    "--processes",
                                    "6",
                                    "--secret-file",
                                    path("secret"),
                                    "--process",
                                    std::to_string(rank),
                                    "--",
                                    OWN_PROGRAM,
                                    "trains-until",
                                    enough};
  };
  for (std::size_t rank = 0; rank < 6; ++rank) start(VERBENA_PROGRAM, words_of(rank), {});
  for (const std::size_t worker : {4U, 5U}) ASSERT_TRUE(processes_[worker]->wait_for_output("trains"));
  const auto replace = [&](std::size_t rank) {
    processes_[rank] = std::make_unique<Program>(VERBENA_PROGRAM, words_of(rank), folder_.path());
  };
  processes_[1]->signal(SIGSTOP);
  ASSERT_TRUE(processes_[0]->wait_for_output("the run goes on with the last copy of server 1"));
  replace(1);
  ASSERT_TRUE(processes_[0]->wait_for_output("can take its place"));
  processes_[0]->signal(SIGKILL);
  replace(0);
  ASSERT_TRUE(processes_[0]->wait_for_output("can take its place"));
  verbena::testing::write_file(enough, "");
  const std::vector<Ended> ended = wait_for_all();
  for (const Ended& each : ended) EXPECT_EQ(each.status, 0) << each.err;
  EXPECT_THAT(ended[0].out + ended[0].err, HasSubstr("this process leads the run"));

  const std::string trained = rest_of_line(ended[4].out, "bits:");
  ASSERT_NE(trained, "");
  const Ended undisturbed = run(VERBENA_PROGRAM,
                                {"run", "--servers", "2", "--workers", "2", "--", OWN_PROGRAM, "trains",
                                 rest_of_line(ended[4].out, "iterations: ")},
                                folder_.path());
  EXPECT_EQ(rest_of_line(undisturbed.out, "bits:"), trained);
}

TEST_F(RendezvousTest, AProgramOfOnesOwnFindsTheOthers) {
  start_by_variables(3, OWN_PROGRAM, {"count"});
  const std::vector<Ended> ended = wait_for_all();
  for (const Ended& each : ended) EXPECT_EQ(each.status, 0) << each.err;
  EXPECT_THAT(ended[0].out + ended[1].out + ended[2].out, HasSubstr("of 3"));
}

TEST_F(RendezvousTest, WhatIsWrongIsSaidOnce) {
  start_by_options(3, {"run", "counter", "--bad-check", "data.txt:3: no number"});
  expect_one_error_and_the_end("verbena: error: data.txt:3: no number");
}

TEST_F(RendezvousTest, WithoutASecretNobodyMeets) {
  start(COUNTER_PROGRAM, {"run", "counter", "--rendezvous", place(), "--process", "0", "--processes", "2"},
        {});
  const Ended ended = processes_[0]->wait();
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("--secret-file"), HasSubstr("--no-secret")));
}

TEST_F(RendezvousTest, AKilledRankIsNamedAndAllEnds) {
  const std::map<std::size_t, std::string> roles = {
      {0, "server 0 (rank 0, pid "}, {1, "server 1 (rank 1, pid "}, {3, "worker 1 (rank 3, pid "}};
  for (const auto& [rank, name] : roles) {
    SCOPED_TRACE(rank);
    processes_.clear();
    ASSERT_NO_FATAL_FAILURE(start_long_run());
    const pid_t victim = processes_[rank]->pid();
    ::kill(victim, SIGKILL);
    expect_one_error_and_the_end(name + std::to_string(victim));
  }
}

/// Over tcp, where a worker looks for a server that it has lost for a while: not for one that was told to
/// end.
TEST_F(RendezvousTest, AServerThatIsToldToEndSaysSo) {
  start_by_options(4, {"run", "counter", "--iterations", "1000000", "--milliseconds", "20", "--transport",
                       "tcp", "--verbose"});
  ASSERT_TRUE(processes_[0]->wait_for_output("  counted "));
  ::kill(processes_[1]->pid(), SIGKILL);
  const std::vector<Ended> ended = wait_for_all();
  for (const std::size_t worker : {2U, 3U})
    EXPECT_THAT(ended[worker].err, Not(HasSubstr(": server 0 (pid ")));
}

TEST_F(RendezvousTest, ASignalToOneEndsAll) {
  for (const std::size_t rank : {0U, 2U}) {
    SCOPED_TRACE(rank);
    processes_.clear();
    ASSERT_NO_FATAL_FAILURE(start_long_run());
    processes_[rank]->signal(SIGINT);
    const std::vector<Ended> ended = wait_for_all();
    for (const Ended& each : ended) EXPECT_NE(each.status, 0) << each.err;
    EXPECT_EQ(count(errors_of(ended), "verbena: error: "), 0U) << errors_of(ended);
  }
}

TEST_F(RendezvousTest, WithCheckpointsTheSecondSignalEndsAllAtOnce) {
  ASSERT_NO_FATAL_FAILURE(start_long_run({"--fail", "hang", "--checkpoint", path("saved")}));
  processes_[2]->signal(SIGINT);
  ASSERT_TRUE(processes_[0]->wait_for_output("a second signal to the same process ends the run at once"));
  processes_[1]->signal(SIGINT);  // that one's first
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  for (const auto& process : processes_) EXPECT_TRUE(alive(process->pid()));
  processes_[2]->signal(SIGINT);
  const std::vector<Ended> ended = wait_for_all();
  for (const Ended& each : ended) EXPECT_NE(each.status, 0) << each.err;
  EXPECT_EQ(ended[0].status, 128 + SIGINT);
  EXPECT_EQ(count(errors_of(ended), "verbena: error: "), 0U) << errors_of(ended);
  EXPECT_FALSE(std::filesystem::exists(path("saved")));
}

/// SIGTERM to a server's process that has a copy makes it step aside, unless all end.
TEST_F(RendezvousTest, CopiesOfServersStayUntilAllHaveSaved) {
  start_by_options(6, {"run", "counter", "--iterations", "1000000", "--milliseconds", "20", "--servers", "2",
                       "--workers", "2", "--replicas", "1", "--checkpoint", path("saved")});
  ASSERT_TRUE(processes_[0]->wait_for_output("  counted "));
  processes_[0]->signal(SIGTERM);
  ASSERT_TRUE(processes_[0]->wait_for_output("stopping: "));
  for (std::size_t rank = 1; rank < 6; ++rank) processes_[rank]->signal(SIGTERM);
  const std::vector<Ended> ended = wait_for_all();
  for (const Ended& each : ended) EXPECT_EQ(each.status, 128 + SIGTERM) << each.err;
  EXPECT_THAT(ended[0].out + ended[0].err, AllOf(HasSubstr(", saved as "), Not(HasSubstr("steps aside"))));
}

/// Nobody is to take its place then: the others would wait for it for ten minutes.
TEST_F(RendezvousTest, IfRankZeroDiesWhileAllSaveTheOthersEndSoon) {
  start_by_options(
      6, {"run", "counter", "--iterations", "1000000", "--milliseconds", "6000", "--servers", "2",
          "--workers", "2", "--replicas", "1", "--leader-patience", "600", "--checkpoint", path("saved")});
  ASSERT_TRUE(processes_[0]->wait_for_output("  counted "));
  processes_[4]->signal(SIGINT);
  ASSERT_TRUE(processes_[0]->wait_for_output("stopping: "));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // all have heard it
  processes_[0]->signal(SIGKILL);
  const std::vector<Ended> ended = wait_for_all();
  for (std::size_t rank = 1; rank < 6; ++rank) {
    EXPECT_NE(ended[rank].status, 0);
    EXPECT_THAT(ended[rank].err, AllOf(HasSubstr("which led the run, is gone while all were to save and end"),
                                       Not(HasSubstr("waits"))))
        << rank;
  }
}

TEST_F(RendezvousTest, ASignalBeforeTheyHaveMetEndsThoseWhoAreThere) {
  const std::vector<std::string> words = {"run",         "counter", "--rendezvous", place(),
                                          "--processes", "3",       "--no-secret",  "--process"};
  for (const char* const rank : {"0", "1"}) {
    std::vector<std::string> all = words;
    all.emplace_back(rank);
    start(COUNTER_PROGRAM, all, {});
  }
  ASSERT_TRUE(processes_[0]->wait_for_output("rank 2 is missing"));
  processes_[1]->signal(SIGTERM);
  const std::vector<Ended> ended = wait_for_all();
  EXPECT_EQ(ended[1].status, 128 + SIGTERM);
  EXPECT_NE(ended[0].status, 0);
  EXPECT_THAT(ended[0].err, HasSubstr("rank 1 (process"));
}

TEST_F(RendezvousTest, WhoIsToRunSomethingElseIsRefused) {
  for (const char* const rank : {"0", "1", "2", "3"}) {
    start(COUNTER_PROGRAM,
          {"run", "counter", "--rendezvous", place(), "--processes", "4", "--no-secret", "--process", rank,
           "--servers", std::string(rank) == "3" ? "1" : "2"},
          {});
  }
  const std::vector<Ended> ended = wait_for_all();
  for (const Ended& each : ended) EXPECT_EQ(each.status, 2) << each.err;
  EXPECT_THAT(ended[0].err, HasSubstr("error: rank 3 is to run counter --servers 1 --workers 3"));
  EXPECT_EQ(errors_of({ended[1], ended[2], ended[3]}), "") << "rank 0 speaks for all";
}

/// Nobody else has to come.
TEST_F(RendezvousTest, WhatOneAloneCanKnowIsSaidAtOnce) {
  const auto says = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"run",         "counter", "--rendezvous", place(),
                                      "--processes", "2",       "--process",    "0"};
    words.insert(words.end(), more.begin(), more.end());
    const Ended ended = run(COUNTER_PROGRAM, words, folder_.path());
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_EQ(count(ended.err, "missing"), 0U) << ended.err;
    return ended.err;
  };
  EXPECT_THAT(says({"--no-secret", "--servers", "2"}),
              HasSubstr("2 processes were started, which cannot be"));
  EXPECT_THAT(says({"--no-secret", "--restarts", "1", "--checkpoint", path("saved")}),
              HasSubstr("only what has started the processes can start them again"));
  verbena::testing::write_file(path("open"), "a secret that many know\n");
  std::filesystem::permissions(path("open"),
                               std::filesystem::perms::owner_read | std::filesystem::perms::group_read);
  EXPECT_THAT(says({"--secret-file", path("open")}), HasSubstr("its mode is 440"));
  EXPECT_THAT(says({"--secret-file", folder_.path()}), HasSubstr("read from a regular file"));
  start(COUNTER_PROGRAM,
        {"run", "counter", "--rendezvous", place(), "--processes", "2", "--process", "0", "--no-secret"}, {});
  ASSERT_TRUE(processes_[0]->wait_for_output("rank 1 is missing"));
  EXPECT_THAT(
      says({"--no-secret"}),
      HasSubstr(
          "listens there already: if that is the rank 0 in whose place this one comes, end it first (kill "));
}

TEST_F(RendezvousTest, WhoWaitsSaysForWhom) {
  const std::vector<std::string> words = {"run", "counter",     "--processes",
                                          "2",   "--no-secret", "--rendezvous"};
  const auto start_at = [&](const std::string& host, const char* rank) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {host + ":" + std::to_string(port_), "--process", rank});
    start(COUNTER_PROGRAM, all, {});
  };
  start_at("127.0.0.1", "1");
  EXPECT_TRUE(processes_[0]->wait_for_output("waiting for rank 0: tcp:" + place()));
  processes_.clear();
  start_at("192.0.2.1", "0");  // of documents: nobody's
  EXPECT_TRUE(processes_[0]->wait_for_output("no address of the host that rank 0 runs on"));
  processes_.clear();
  start_at("a..b", "0");
  EXPECT_TRUE(processes_[0]->wait_for_output("the host is unknown"));
  processes_.clear();
  start_at("0.0.0.0", "0");
  ASSERT_TRUE(processes_[0]->wait_for_output("rank 1 is missing"));
  EXPECT_FALSE(processes_[0]->has_said("may not find"));
}

TEST_F(RendezvousTest, ForProgramsEachLineIsAnObject) {
  std::vector<std::string> words = {
      "run",         "counter", "--rendezvous", place(),     "--log-format=json",
      "--processes", "2",       "--no-secret",  "--process", "0"};
  start(COUNTER_PROGRAM, words, {});
  // It ends the others, once they have met.
  words.back() = "1";
  words.insert(words.end(), {"--slow", "worker=9,factor=2"});
  start(COUNTER_PROGRAM, words, {});
  const Ended ended = processes_[0]->wait();
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("this process ends with the others"), HasSubstr("stopped by SIGTERM")));
  std::istringstream lines(ended.err);
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(object.is_object()) << line;
    EXPECT_EQ(object["level"], "warning") << line;
  }
}

TEST_F(RendezvousTest, WhenOneOfOnesOwnProgramsDiesTheOthersEnd) {
  start_by_variables(3, OWN_PROGRAM, {"sleeps"});
  for (const auto& process : processes_) ASSERT_TRUE(process->wait_for_output("of 3 sees"));
  processes_[1]->signal(SIGKILL);
  const std::vector<Ended> ended = wait_for_all();
  for (const std::size_t rank : {0U, 2U}) {
    EXPECT_EQ(ended[rank].status, 128 + SIGTERM);
    EXPECT_THAT(ended[rank].err, HasSubstr("rank 1 (process"));
  }
}

TEST_F(RendezvousTest, AWorkerThatDoesNotListenIsEnded) {
  ASSERT_NO_FATAL_FAILURE(start_long_run({"--fail", "hang"}));
  ::kill(processes_[1]->pid(), SIGKILL);
  expect_one_error_and_the_end("server 1 (rank 1, pid ");
}

}  // namespace
}  // namespace verbena::process_test
