// Workers and networks that are slow on purpose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SlowTest : public ::testing::Test {
 protected:
  SlowTest() {
    std::ofstream ratings(folder_.path("ratings"));
    for (int user = 0; user < 40; ++user) {
      for (int item = 0; item < 20; ++item) {
        if ((user + item) % 3 != 0) ratings << user << '\t' << item << '\t' << (user * item) % 5 << '\n';
      }
    }
  }
  /// Trains 3 iterations of 4 clocks. Returns the lines of the metrics.
  [[nodiscard]] std::vector<json> train(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"run",
                                          "mf",
                                          "--data",
                                          folder_.path("ratings"),
                                          "--iterations",
                                          "3",
                                          "--workers",
                                          "2",
                                          "--clocks-per-iteration",
                                          "4",
                                          "--metrics",
                                          folder_.path("metrics")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(VERBENA_PROGRAM, arguments, folder_.path());
    EXPECT_EQ(ended.status, 0) << ended.err;
    std::vector<json> lines;
    std::istringstream text(verbena::testing::contents(folder_.path("metrics")));
    for (std::string line; std::getline(text, line);) lines.push_back(json::parse(line));
    return lines;
  }
  static json of_kind(const std::vector<json>& lines, const std::string& kind, std::uint32_t worker = 0) {
    for (const json& line : lines) {
      if (line.at("kind") == kind && line.value("worker", worker) == worker) return line;
    }
    ADD_FAILURE() << "no line of kind " << kind;
    return json::object();
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(SlowTest, ChangesTheTimeAndNotTheModel) {
  const json quick = of_kind(train({}), "summary");
  const std::vector<json> lines =
      train({"--slow", "worker=1,pause=30ms,every=2", "--slow=worker=all,factor=2"});
  const json slow = of_kind(lines, "summary");
  EXPECT_EQ(slow.at("objectives"), quick.at("objectives"));
  EXPECT_TRUE(quick.at("slow").empty());
  EXPECT_THAT(slow.at("slow"), ElementsAre("worker=1,pause=30ms,every=2", "worker=all,factor=2"));
  // In 12 clocks worker 1 has 6 pauses. The other worker has none of its own.
  EXPECT_GE(of_kind(lines, "worker", 1).at("training_seconds").get<double>(), 6 * 0.030);
  EXPECT_THAT(slow.at("printed"), ::testing::Not(::testing::IsEmpty()));
}

TEST_F(SlowTest, CompetitorsDoNotChangeTheModel) {
  const json quick = of_kind(train({}), "summary");
  const json slow = of_kind(train({"--slow", "worker=all,competitors=1"}), "summary");
  EXPECT_EQ(slow.at("objectives"), quick.at("objectives"));
  EXPECT_THAT(slow.at("slow"), ElementsAre("worker=all,competitors=1"));
}

/// How many threads of a process only keep a core busy.
std::size_t count_competitors(pid_t pid) {
  std::size_t count = 0;
  std::error_code gone;
  std::filesystem::directory_iterator thread("/proc/" + std::to_string(pid) + "/task", gone);
  for (; !gone && thread != std::filesystem::directory_iterator(); thread.increment(gone)) {
    if (verbena::testing::contents(thread->path() / "comm") == "competitor\n") ++count;
  }
  return count;
}

TEST_F(SlowTest, CompetitorsAreTheirWorkersAndDieWithIt) {
  Program program(COUNTER_PROGRAM,
                  {"run", "counter", "--workers", "2", "--iterations", "1000000", "--milliseconds", "10",
                   "--slow", "worker=1,competitors=2", "--slow", "worker=1,competitors=1"},
                  folder_.path());
  ASSERT_TRUE(program.wait_for_children("worker", 2));
  const std::vector<pid_t> workers = program.children("worker");
  EXPECT_TRUE(wait_until([&] { return count_competitors(workers[1]) == 3; }));
  EXPECT_EQ(count_competitors(workers[0]), 0U);
  ::kill(workers[1], SIGKILL);
  EXPECT_EQ(program.wait().status, 1);
  EXPECT_TRUE(gone(workers, 0));
  EXPECT_EQ(count_competitors(workers[1]), 0U);
}

TEST_F(SlowTest, NetworkChangesTheTimeAndNotTheModel) {
  const json quick = of_kind(train({"--consistency", "bsp"}), "summary");
  EXPECT_TRUE(quick.at("network").is_null());
  const std::vector<json> lines = train({"--network", "latency=2ms,bandwidth=1Gb/s"});
  const json slow = of_kind(lines, "summary");
  EXPECT_EQ(slow.at("objectives"), quick.at("objectives"));
  EXPECT_EQ(slow.at("network"), "latency=2ms,bandwidth=1Gb/s");
  // Each of 12 clocks has a transfer to the server and one back.
  EXPECT_GE(slow.at("seconds").get<double>(), 12 * 0.004);
  for (const char* model : {"ssp:1", "essp:2"}) {
    EXPECT_EQ(
        of_kind(train({"--network=latency=100us", "--consistency", model}), "summary").at("consistency"),
        model);
  }
}

TEST_F(SlowTest, NoNetworkLiesWithinANode) {
  // All workers are on the node of the only server. Over the network, each clock would take two seconds.
  const json near = of_kind(train({"--network", "latency=1s,hosts=nodes"}), "summary");
  EXPECT_LT(near.at("seconds").get<double>(), 12 * 2);
  EXPECT_EQ(near.at("objectives"), of_kind(train({"--consistency", "bsp"}), "summary").at("objectives"));
  // With two servers, one of them is on another node.
  const json far = of_kind(train({"--servers", "2", "--network", "latency=2ms,hosts=nodes"}), "summary");
  EXPECT_GE(far.at("seconds").get<double>(), 12 * 0.004);
}

TEST_F(SlowTest, WhatCannotBeIsOneLine) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--slow", "worker=2,factor=3"},
       "--slow worker=2,factor=3: workers count from 0, it must be less than"},
      {{"--slow", "worker=1"}, "--slow: \"worker=1\": worker=R|all,factor=F or"},
      {{"--slow", "worker=1,core=0"}, "or worker=R|all,competitors=N[,core=K] is expected"},
      {{"--slow", "worker=1,competitors=1,core=1023"},
       "verbena: error: --slow core=1023: worker 1 may use these cores of its host: "},
      {{"--slow", "worker=1,competitors=1,core=0", "--slow", "worker=1,competitors=1,core=1"},
       "verbena: error: --slow: worker 1 cannot be on both core 0 and core 1"},
      {{"--network", "latency=10"}, "--network: \"latency=10\": a latency of at most 1s"},
      {{"--network", "latency=1ms,hosts=all"}, "hosts=nodes or hosts=processes"},
      {{"--network", "latency=1ms", "--baseline"}, "--network is for servers and workers"},
      {{"--network", "latency=1ms", "--read-path", "in-place"}, "--read-path in-place is not over a network"},
      {{"--network", "latency=1ms", "--transport", "verbs"}, "--network is for --transport shm"},
      {{"--slow", "worker=0,factor=2", "--baseline"}, "--slow is for workers; --baseline has none"},
  };
  for (const auto& [more, error] : cases) {
    std::vector<std::string> arguments = {"run", "mf", "--data", folder_.path("ratings"), "--workers", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Ended ended = run(VERBENA_PROGRAM, arguments, folder_.path());
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr(error));
  }
}

}  // namespace
}  // namespace verbena::process_test
