// `verbena bench`: every operation is measured and reported. How fast it is does not matter here.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

const std::vector<std::string> kOperations = {"read",
                                              "read-batch",
                                              "read-busy",
                                              "write",
                                              "write-complete",
                                              "write-notify",
                                              "pull",
                                              "pull-large",
                                              "pull-in-place",
                                              "pull-batch",
                                              "pull-batch-in-place",
                                              "push",
                                              "push-batch",
                                              "push-add",
                                              "push-adagrad",
                                              "push-ftrl",
                                              "push-sparse-add",
                                              "push-sparse-adagrad",
                                              "push-sparse-ftrl",
                                              "pull-sparse",
                                              "pull-located",
                                              "pull-sparse-read",
                                              "pull-sparse-gather",
                                              "pull-narrow-read",
                                              "pull-narrow-gather",
                                              "pull-growing",
                                              "push-applied",
                                              "push-sequential",
                                              "push-copied",
                                              "push-visible",
                                              "clock",
                                              "subscribe",
                                              "pull-local",
                                              "push-local",
                                              "localize",
                                              "idle-server"};

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAreArray;

/// A name for processes to meet at, which no other test uses.
std::string unique_name(const std::string& what) {
  return "bench-test-" + what + "-" + std::to_string(::getpid());
}

TEST(BenchTest, SaysWhetherWhatTravelsIsEncrypted) {
  const verbena::testing::TemporaryFolder folder;
  const std::string file = folder.path("bench.json");
  const std::vector<std::string> plain = {"bench",     "--operations", "write",  "--sizes", "8",
                                          "--seconds", "0.01",         "--json", file,      "--transport"};
  const auto expect = [&](const std::vector<std::string>& first, std::vector<std::string> more,
                          bool encrypts) {
    std::vector<std::string> words = first;
    words.emplace_back(VERBENA_PROGRAM);
    words.insert(words.end(), plain.begin(), plain.end());
    words.insert(words.end(), more.begin(), more.end());
    const Ended bench = run("/usr/bin/env", words, folder.path());
    ASSERT_EQ(bench.status, 0) << bench.err;
    EXPECT_THAT(bench.out, HasSubstr(more[0] + (encrypts ? ", encrypted" : "") + "; the other side"));
    EXPECT_EQ(nlohmann::json::parse(verbena::testing::contents(file)).at("encrypted"), encrypts);
  };
  expect({}, {"tcp"}, false);
  expect({}, {"tcp", "--tls"}, true);
  expect({"VERBENA_TLS=1"}, {"tcp"}, true);
  expect({"VERBENA_TLS=1"}, {"shm"}, false);
}

TEST(BenchTest, EveryOperationIsReported) {
  const verbena::testing::TemporaryFolder folder;
  const std::string file = folder.path("bench.json");
  const std::string page = folder.path("bench.html");
  const Ended bench = run(VERBENA_PROGRAM,
                          {"bench", "--seconds", "0.01", "--sizes", "8,4096", "--connections", "2", "--json",
                           file, "--report", page},
                          folder.path());
  ASSERT_EQ(bench.status, 0) << bench.err;
  EXPECT_THAT(verbena::testing::contents(page), HasSubstr("write-notify: bandwidth"));
  const nlohmann::json json = nlohmann::json::parse(verbena::testing::contents(file));
  EXPECT_EQ(json.at("schema"), 2);
  EXPECT_EQ(json.at("transport"), "shm");
  std::set<std::string> operations;
  for (const nlohmann::json& result : json.at("results")) {
    const std::string operation = result.at("operation");
    operations.insert(operation);
    EXPECT_THAT(bench.out, HasSubstr(operation));
    EXPECT_GT(result.at("operations"), 0) << operation;
    EXPECT_GT(result.at("min_ns"), 0) << operation;
    EXPECT_LE(result.at("min_ns"), result.at("p50_ns")) << operation;
    EXPECT_LE(result.at("p50_ns"), result.at("p99_ns")) << operation;
    EXPECT_LE(result.at("p99_ns"), result.at("p999_ns")) << operation;
    EXPECT_LE(result.at("p999_ns"), result.at("max_ns")) << operation;
    EXPECT_GT(result.at("messages_per_second"), 0) << operation;
    EXPECT_FALSE(result.at("histogram").empty()) << operation;
    EXPECT_FALSE(result.at("yardsticks").empty()) << operation;
    for (const nlohmann::json& yardstick : result.at("yardsticks")) EXPECT_GT(yardstick.at("value"), 0);
    if (result.contains("stream")) {
      EXPECT_EQ(result.at("stream").at("connections"), 2);
    }
  }
  std::vector<std::string> expected = kOperations;
  expected.emplace_back("lane-growing");  // of pull-growing
  EXPECT_THAT(operations, UnorderedElementsAreArray(expected));
  // The same way of the data, written by hand.
  const std::map<std::string, std::string> by_hand = {
      {"push", "the same rows added in a plain loop"},
      {"push-local", "the same rows added in a plain loop"},
      {"push-batch", "the same rows handed to another core and added there"},
      {"push-applied", "two notifications and an addition by hand"},
      {"push-visible", "two notifications and an addition by hand"},
      {"localize", "a row asked for and handed over by hand"}};
  for (const nlohmann::json& result : json.at("results")) {
    const auto found = by_hand.find(result.at("operation"));
    if (found == by_hand.end()) continue;
    std::set<std::string> names;
    for (const nlohmann::json& yardstick : result.at("yardsticks")) names.insert(yardstick.at("name"));
    EXPECT_THAT(names, Contains(found->second)) << found->first;
  }
  std::vector<int> widths;
  for (const nlohmann::json& crossover : json.at("gather_crossover")) {
    widths.push_back(crossover.at("row_floats"));
    std::vector<int> keys;
    for (const nlohmann::json& pull : crossover.at("pulls")) {
      keys.push_back(pull.at("keys"));
      EXPECT_GT(pull.at("read_p50_ns"), 0);
      EXPECT_GT(pull.at("gathered_p50_ns"), 0);
    }
    EXPECT_THAT(keys, ElementsAre(8, 16, 32, 64, 128, 256, 512, 1024));
  }
  EXPECT_THAT(widths, ElementsAre(1, 16, 64));
  EXPECT_THAT(bench.out, HasSubstr("64 floats"));
  EXPECT_THAT(verbena::testing::contents(page), HasSubstr("64 floats"));
}

/// An operation's yardsticks do not depend on what else is measured.
TEST(BenchTest, EachOperationCanBeMeasuredAloneWithTheSmallestSize) {
  const verbena::testing::TemporaryFolder folder;
  std::vector<std::string> operations = kOperations;
  operations.emplace_back("gather-crossover");
  for (const std::string& operation : operations) {
    const Ended bench =
        run(VERBENA_PROGRAM, {"bench", "--seconds", "0.01", "--sizes", "8", "--operations", operation},
            folder.path());
    EXPECT_EQ(bench.status, 0) << operation << ": " << bench.err;
  }
}

/// All that was written is removed.
TEST(BenchTest, CheckpointsAreTimedBesideWhatTheHostCanDo) {
  const verbena::testing::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("disk"));
  const Ended bench = run(VERBENA_PROGRAM,
                          {"bench", "--seconds", "0.01", "--operations", "checkpoint", "--checkpoint-mib",
                           "3", "--folder", folder.path("disk"), "--json", folder.path("bench.json")},
                          folder.path());
  ASSERT_EQ(bench.status, 0) << bench.err;
  EXPECT_TRUE(std::filesystem::is_empty(folder.path("disk")));
  const nlohmann::json json = nlohmann::json::parse(verbena::testing::contents(folder.path("bench.json")));
  std::map<std::string, nlohmann::json> results;
  for (const nlohmann::json& result : json.at("results")) results[result.at("operation")] = result;
  ASSERT_EQ(results.size(), 4U) << json;
  for (const auto& [name, result] : results) {
    EXPECT_GT(result.at("p50_ns"), 0) << name;
    for (const nlohmann::json& yardstick : result.at("yardsticks"))
      EXPECT_GT(yardstick.at("value"), 0) << name;
  }
  EXPECT_EQ(results.at("checkpoint-first").at("operations"), 1);
  EXPECT_EQ(results.at("checkpoint-stand").at("operations"), 5);
  EXPECT_EQ(results.at("checkpoint-stand").at("bytes"), 3 << 20);
  EXPECT_EQ(results.at("checkpoint-stand").at("yardsticks").at(0).at("budget"), 1.5);
  EXPECT_EQ(results.at("checkpoint-write").at("yardsticks").at(0).at("figure"), "megabytes_per_second");
  EXPECT_EQ(results.at("checkpoint-write").at("yardsticks").at(0).at("budget"), 0.8);
  EXPECT_EQ(results.at("checkpoint-beside").at("yardsticks").size(), 2U);
}

TEST(BenchTest, AFolderThatCannotBeWrittenIsAPlainError) {
  const verbena::testing::TemporaryFolder folder;
  verbena::testing::write_file(folder.path("file"), "");
  const Ended bench =
      run(VERBENA_PROGRAM, {"bench", "--operations", "checkpoint", "--folder", folder.path("file")},
          folder.path());
  EXPECT_EQ(bench.status, 1);
  EXPECT_THAT(bench.err, HasSubstr("--folder " + folder.path("file") + ": "));
}

TEST(BenchTest, PushesToAServerWithCopiesStandBesideThoseWithout) {
  const verbena::testing::TemporaryFolder folder;
  const Ended bench = run(VERBENA_PROGRAM,
                          {"bench", "--seconds", "0.05", "--operations", "push-copied", "--replicas", "2",
                           "--json", folder.path("bench.json")},
                          folder.path());
  ASSERT_EQ(bench.status, 0) << bench.err;
  const nlohmann::json json = nlohmann::json::parse(verbena::testing::contents(folder.path("bench.json")));
  ASSERT_EQ(json.at("results").size(), 1U);
  const nlohmann::json& result = json.at("results").at(0);
  EXPECT_THAT(std::string(result.at("what")), HasSubstr("when 2 copies of the server have it, too"));
  EXPECT_EQ(result.at("yardsticks").at(0).at("name"), "the same without copies");
  EXPECT_EQ(result.at("yardsticks").at(0).at("budget"), 2.2);
}

TEST(BenchTest, ImpossibleOptionsAreRefused) {
  const verbena::testing::TemporaryFolder folder;
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"bench", "--operations", "fly"},
                                             {"bench", "--sizes", "0"},
                                             {"bench", "--sizes", "12"},
                                             {"bench", "--seconds", "-1"},
                                             {"bench", "--depth", "0"},
                                             {"bench", "--replicas", "0"},
                                             {"bench", "--checkpoint-mib", "0"},
                                             {"bench", "--connections", "many"},
                                             {"bench", "--listen", ":7471", "--connect", "node2:7471"},
                                             {"bench", "--connect", "node2"},
                                             {"bench", "--listen", "node2:port"},
                                             {"bench", "--transport", "shm", "--device", "rxe0"},
                                             {"bench", "--transport", "shm", "--perftest"},
                                             {"bench", "--report", folder.path("no/such/folder.html")},
                                             {"bench", "--json", folder.path("no/such/folder.json")}}) {
    const Ended bench = run(VERBENA_PROGRAM, arguments, folder.path());
    EXPECT_EQ(bench.status, 2) << arguments.back();
    EXPECT_THAT(bench.err, HasSubstr("verbena: error: "));
  }
}

TEST(BenchTest, MissingDeviceIsAPlainError) {
  const verbena::testing::TemporaryFolder folder;
  for (const char* side : {"--listen", "--connect=localhost:7471"}) {
    const Ended bench = run(
        VERBENA_PROGRAM, {"bench", side, "--no-secret", "--transport", "verbs", "--device", "no_such_device"},
        folder.path());
    EXPECT_EQ(bench.status, 1);
    EXPECT_THAT(bench.err, HasSubstr("verbena: error: "));
  }
}

TEST(BenchTest, ListenerServesOneMeasuringSideAfterTheOther) {
  const verbena::testing::TemporaryFolder folder;
  const std::string name = unique_name("serves");
  Program listener(VERBENA_PROGRAM, {"bench", "--transport", "shm", "--listen", name}, folder.path());
  ASSERT_TRUE(listener.wait_for_output("listening at shm:" + name));
  const std::vector<std::string> measure{
      "bench",     "--transport", "shm", "--connect", name, "--operations", "read,write-notify,clock",
      "--seconds", "0.01"};
  for (const char* sizes : {"--sizes=8", "--sizes=1048576", "--sizes=8"}) {
    std::vector<std::string> arguments = measure;
    arguments.emplace_back(sizes);
    const Ended bench = run(VERBENA_PROGRAM, arguments, folder.path());
    EXPECT_EQ(bench.status, 0) << bench.err;
    EXPECT_THAT(bench.out, HasSubstr("the other side: " + name));
  }
  {
    Program killed(VERBENA_PROGRAM, {"bench", "--transport", "shm", "--connect", name, "--seconds", "60"},
                   folder.path());
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    killed.signal(SIGKILL);
    EXPECT_EQ(killed.wait().status, 128 + SIGKILL);
  }
  EXPECT_EQ(run(VERBENA_PROGRAM, measure, folder.path()).status, 0);
  listener.signal(SIGINT);
  EXPECT_EQ(listener.wait().status, 128 + SIGINT);
}

TEST(BenchTest, NobodyThereIsAPlainErrorWithinSeconds) {
  const verbena::testing::TemporaryFolder folder;
  const std::string name = unique_name("nobody");
  const Ended bench = run(VERBENA_PROGRAM, {"bench", "--transport", "shm", "--connect", name}, folder.path());
  EXPECT_EQ(bench.status, 1);
  EXPECT_THAT(bench.err, HasSubstr("verbena: error: "));
  EXPECT_THAT(bench.err, HasSubstr(name));
  EXPECT_LT(bench.seconds, 30);
}

TEST(BenchTest, TwoListenersAtOnePlaceAreTold) {
  const verbena::testing::TemporaryFolder folder;
  const std::string name = unique_name("twice");
  Program listener(VERBENA_PROGRAM, {"bench", "--transport", "shm", "--listen", name}, folder.path());
  ASSERT_TRUE(listener.wait_for_output("listening at"));
  const Ended second = run(VERBENA_PROGRAM, {"bench", "--transport", "shm", "--listen", name}, folder.path());
  EXPECT_EQ(second.status, 2);
  EXPECT_THAT(second.err, HasSubstr(name));
}

TEST(BenchTest, OtherSideKilledInTheMiddleIsAnError) {
  const verbena::testing::TemporaryFolder folder;
  for (const char* operation : {"read", "write", "write-notify", "pull", "clock", "push-visible"}) {
    Program bench(VERBENA_PROGRAM, {"bench", "--operations", operation, "--seconds", "60"}, folder.path());
    ASSERT_TRUE(bench.wait_for_children("bench", 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const std::vector<pid_t> children = bench.children("bench");
    ASSERT_EQ(children.size(), 1U);
    ::kill(children.front(), SIGKILL);
    const Ended ended = bench.wait();
    EXPECT_EQ(ended.status, 1) << operation;
    EXPECT_THAT(ended.err, HasSubstr("verbena: error: ")) << operation;
    EXPECT_LT(ended.seconds, 40) << operation;  // --seconds is 60
  }
}

TEST(BenchTest, OtherSideEndsWithTheMeasuringOne) {
  const verbena::testing::TemporaryFolder folder;
  Program bench(VERBENA_PROGRAM, {"bench", "--seconds", "60"}, folder.path());
  ASSERT_TRUE(bench.wait_for_children("bench", 1));
  const std::vector<pid_t> children = bench.children("bench");
  bench.signal(SIGKILL);
  bench.wait();
  EXPECT_TRUE(gone(children, 30));
}

}  // namespace
}  // namespace verbena::process_test
