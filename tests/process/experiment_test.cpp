// A whole experiment on a tiny data set. Its figures do not matter here.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ExperimentTest : public ::testing::Test {
 protected:
  ExperimentTest() {
    std::string ratings;
    for (int user = 0; user < 40; ++user) {
      for (int item = 0; item < 20; ++item) {
        if ((user + item) % 3 == 0) continue;
        ratings += std::to_string(user) + '\t' + std::to_string(item) + '\t' +
                   std::to_string((user * item) % 5) + '\n';
      }
    }
    verbena::testing::write_file(folder_.path("ratings"), ratings);
  }
  [[nodiscard]] Ended experiment(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "experiment", name, "--data", folder_.path("ratings"), "--output", folder_.path("results")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(VERBENA_PROGRAM, arguments, folder_.path());
  }
  /// In files that --triples and --documents can name.
  void write_graph_and_text() const {
    std::string triples;
    for (int n = 0; n < 60; ++n) triples += fmt::format("e{}\tr{}\te{}\n", n % 12, n % 3, (n * 5 + 1) % 12);
    std::filesystem::create_directory(folder_.path("graph"));
    for (const char* name : {"train.txt", "valid.txt", "test.txt"}) {
      verbena::testing::write_file(folder_.path(std::string("graph/") + name), triples);
    }
    std::string text;
    for (int n = 0; n < 50; ++n) text += "in the beginning god created the heaven and the earth\n";
    verbena::testing::write_file(folder_.path("text"), text);
  }
  /// In a file that --examples can name.
  void write_examples() const {
    std::string examples;
    for (int n = 0; n < 60; ++n)
      examples += fmt::format("{} 0:{}:1 1:{}:1\n", n % 3 == 0 ? 1 : 0, n % 5, n % 7);
    verbena::testing::write_file(folder_.path("examples"), examples);
  }
  [[nodiscard]] std::string result(const std::string& name) const {
    return verbena::testing::contents(folder_.path("results/" + name));
  }

  verbena::testing::TemporaryFolder folder_;
};

TEST_F(ExperimentTest, LeavesTableNumbersAndPage) {
  const Ended ended = experiment("staleness", {"--iterations", "3", "--workers", "2", "--servers", "1"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("1/8 mf ssp:1: test_rmse "), HasSubstr("8/8 mf essp:8: ")));
  EXPECT_THAT(ended.out, StartsWith(result("table.txt")));
  EXPECT_THAT(ended.out, HasSubstr("expected: s = 4: ESSP's mean clock differential"));
  EXPECT_THAT(result("report.html"),
              AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("Expected and found"), HasSubstr("<svg")));
  const json numbers = json::parse(result("numbers.json"));
  EXPECT_EQ(numbers.at("name"), "staleness");
  ASSERT_EQ(numbers.at("runs").size(), 8U);
  for (const json& made : numbers.at("runs")) {
    EXPECT_EQ(made.at("iterations").size(), 3U);
    EXPECT_FALSE(made.contains("failure"));
    EXPECT_THAT(std::string(made.at("command")), StartsWith("verbena run mf --servers=1 --workers=2 "));
  }
}

TEST_F(ExperimentTest, AllocationMakesRunsOfEachKind) {
  write_graph_and_text();
  const Ended ended =
      experiment("allocation", {"--triples", folder_.path("graph"), "--documents", folder_.path("text"),
                                "--nodes", "2", "--iterations", "3", "--rounds", "1"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err,
              AllOf(HasSubstr("1/21 mf plain loop: test_rmse "), HasSubstr("/21 mf localize, 2 nodes: "),
                    HasSubstr("14/21 kge intent, 2 nodes: test_mrr "),
                    HasSubstr("21/21 word2vec intent, 2 nodes: ")));
  EXPECT_THAT(ended.out, StartsWith(result("table.txt")));
  EXPECT_THAT(ended.out, HasSubstr("2 nodes of a server and a worker each"));
  EXPECT_THAT(result("report.html"), AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("<svg")));
  const json numbers = json::parse(result("numbers.json"));
  ASSERT_EQ(numbers.at("runs").size(), 21U);
  for (const json& made : numbers.at("runs")) {
    EXPECT_EQ(made.at("iterations").size(), 3U);
    EXPECT_FALSE(made.contains("failure"));
    // How many rows move by intent depends on timing.
    const std::string allocation = made.at("allocation");
    const bool may_move = allocation.starts_with("localize") || allocation.starts_with("intent");
    EXPECT_EQ(made.at("share_local").is_number(), may_move) << made;
    EXPECT_TRUE(may_move || made.at("rows_moved") == 0) << made;
    if (made.at("model") != "mf" || allocation != "localize") continue;
    EXPECT_GT(made.at("rows_moved"), 0);
    EXPECT_TRUE(made.at("move_p50_seconds").is_number());
    EXPECT_GT(made.at("share_local"), 0);
  }
}

TEST_F(ExperimentTest, CostMakesRunsOfEachKind) {
  write_graph_and_text();
  write_examples();
  const Ended ended =
      experiment("cost", {"--triples", folder_.path("graph"), "--documents", folder_.path("text"),
                          "--small-data", folder_.path("ratings"), "--examples", folder_.path("examples"),
                          "--workers", "2", "--iterations", "2", "--rounds", "1", "--no-peers"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("1/96 kge: plain loop, first pass: valid_mrr "),
                               HasSubstr("72/96 word2vec: intent, 2 workers: "),
                               HasSubstr("80/96 sketch: essp:1, 2 workers: relative_error "),
                               HasSubstr("82/96 ctr, ftrl: plain loop: progressive_log_loss "),
                               HasSubstr("96/96 ctr, block: bounded-delay:1, 2 workers: objective ")));
  EXPECT_THAT(ended.out, StartsWith(result("table.txt")));
  EXPECT_THAT(ended.out, HasSubstr("expected: mf, small: by default one worker takes"));
  EXPECT_THAT(result("report.html"), AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("<svg")));
  const json numbers = json::parse(result("numbers.json"));
  ASSERT_EQ(numbers.at("runs").size(), 96U);
  for (const json& made : numbers.at("runs")) {
    EXPECT_FALSE(made.contains("failure")) << made;
    EXPECT_TRUE(made.contains("task")) << made;
    // Each is evaluated not only in the end. ctr has iterations without examples here, and the text no gaps.
    if (made.at("model") == "ctr" || made.at("model") == "word2vec") continue;
    for (const json& iteration : made.at("iterations"))
      EXPECT_TRUE(iteration.at("objectives").contains(made.at("main_objective"))) << made;
  }
}

TEST_F(ExperimentTest, CopiesAreSeenInTheFigures) {
  write_graph_and_text();
  write_examples();
  const Ended ended = experiment(
      "copies", {"--documents", folder_.path("text"), "--examples", folder_.path("examples"), "--workers",
                 "2", "--iterations", "3", "--rounds", "1", "--before", VERBENA_PROGRAM});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("1/18 lda, 1 worker, 0 copies, the other build: "),
                               HasSubstr("18/18 ctr, 2 workers, 1 copy: ")));
  EXPECT_THAT(ended.out, StartsWith(result("table.txt")));
  EXPECT_THAT(ended.out, HasSubstr("expected: mf, 2 workers: with a copy an iteration takes at most"));
  EXPECT_THAT(ended.out, HasSubstr("at most 1.02 times as long as by the other build"));
  const json numbers = json::parse(result("numbers.json"));
  ASSERT_EQ(numbers.at("runs").size(), 18U);
  std::size_t with = 0;
  for (const json& made : numbers.at("runs")) {
    ASSERT_FALSE(made.contains("failure")) << made;
    EXPECT_GE(made.at("iterations").size(), 3U);
    if (!made.contains("processor_seconds")) continue;  // the other build's
    const bool copied = made.at("replicas") == 1;
    with += copied ? 1 : 0;
    EXPECT_GT(made.at("processor_seconds").at("workers"), 0);
    EXPECT_EQ(made.at("processor_seconds").at("copies") > 0, copied);
    EXPECT_GT(made.at("update_bytes"), 0);
    // A copy gets all that workers push, and what tells where it belongs.
    if (copied) {
      EXPECT_GT(made.at("bytes_to_copies"), made.at("update_bytes"));
    } else {
      EXPECT_EQ(made.at("bytes_to_copies"), 0);
    }
  }
  EXPECT_EQ(with, 6U);
}

/// If its costs are given, a simulated job depends on nothing else.
TEST_F(ExperimentTest, ScaleIsTheSameJobAgain) {
  std::vector<std::string> arguments = {"experiment",
                                        "scale",
                                        "--workers",
                                        "2,4",
                                        "--workers-per-server",
                                        "2",
                                        "--rows",
                                        "16",
                                        "--width",
                                        "4",
                                        "--examples",
                                        "100",
                                        "--clocks",
                                        "3",
                                        "--output",
                                        folder_.path("results")};
  for (const char* cost : {"example", "worker-row", "received-row", "message", "applied-row", "held-row",
                           "pushed-row", "advance-per-worker", "turn-per-worker"}) {
    arguments.insert(arguments.end(), {std::string("--") + cost + "-ns", "100"});
  }
  const Ended ended = run(VERBENA_PROGRAM, arguments, folder_.path());
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.err, AllOf(HasSubstr("--message-ns"), HasSubstr("1/6 2 workers, bsp: "),
                               HasSubstr("6/6 4 workers, essp:2: ")));
  EXPECT_THAT(ended.out, StartsWith(result("table.txt")));
  EXPECT_THAT(ended.out, HasSubstr("expected: essp:2's mean clock differential"));
  EXPECT_THAT(result("report.html"), AllOf(StartsWith("<!DOCTYPE html>"), HasSubstr("Expected and found")));
  const auto numbers = [&] {
    json all = json::parse(result("numbers.json"));
    EXPECT_EQ(all.erase("date"), 1U);
    return all;
  };
  const json first = numbers();
  EXPECT_EQ(first.at("runs").size(), 6U);
  ASSERT_EQ(run(VERBENA_PROGRAM, arguments, folder_.path()).status, 0);
  EXPECT_EQ(numbers(), first);
}

/// Servers die in each run but the first one, and all train the same model.
TEST_F(ExperimentTest, FailoverKillsServersAndComparesModels) {
  std::string text;
  for (int n = 0; n < 300; ++n)
    text += fmt::format("w{}{}", n % 30 % 3 * 13 + n * 7 % 17, n % 10 == 9 ? '\n' : ' ');
  verbena::testing::write_file(folder_.path("text"), text);
  const Ended ended = run(
      VERBENA_PROGRAM,
      {"experiment", "failover", "--data", folder_.path("text"), "--output", folder_.path("results"),
       "--iterations", "4000", "--minutes", "0.1", "--seconds-between", "0.3", "--silence-timeout", "2000"},
      folder_.path());
  ASSERT_EQ(ended.status, 0) << ended.err << ended.out;
  EXPECT_THAT(ended.out, AllOf(HasSubstr("held          expected: each of these runs trains the model"),
                               HasSubstr("held          expected: whichever process dies")));
  EXPECT_THAT(result("report.html"), HasSubstr("throughput over time"));
  const json runs = json::parse(result("numbers.json")).at("runs");
  ASSERT_GT(runs.size(), 1U);
  EXPECT_TRUE(runs[0].at("faults").empty());
  EXPECT_EQ(runs[0].at("items").size(), 4000U);
  std::size_t back = 0;
  for (const json& fault : runs[1].at("faults")) back += fault.at("back_after_seconds").is_null() ? 0U : 1U;
  EXPECT_GT(back, 0U) << runs[1].at("faults").dump(1);
  EXPECT_FALSE(std::filesystem::exists(folder_.path("results/metrics.pipe")));
}

TEST_F(ExperimentTest, StopsWhenItIsToldTo) {
  Program program(VERBENA_PROGRAM,
                  {"experiment", "staleness", "--data", folder_.path("ratings"), "--output",
                   folder_.path("results"), "--iterations", "1000000", "--workers", "2"},
                  folder_.path());
  ASSERT_TRUE(program.wait_for_children("worker", 2));
  program.signal(SIGINT);
  const Ended ended = program.wait();
  EXPECT_EQ(ended.status, 130);
  EXPECT_THAT(ended.err, HasSubstr("verbena: stopped by SIGINT"));
  EXPECT_EQ(result("report.html"), "");
}

TEST_F(ExperimentTest, WhatCannotBeIsOneLine) {
  verbena::testing::write_file(folder_.path("file"), "");
  verbena::testing::write_file(folder_.path("bad"), "1\t2\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"experiment", "nonesuch"}, "there is no nonesuch; expected staleness"},
      {{"experiment", "staleness", "--workers", "1"}, "--workers: a whole number from 2"},
      {{"experiment", "staleness", "--iterations", "0"}, "--iterations: a whole number from 1"},
      {{"experiment", "stragglers", "--models", "bsp,best"}, "unknown consistency \"best\""},
      {{"experiment", "staleness", "--output", folder_.path("file")}, "cannot create the folder: "},
      {{"experiment", "staleness", "--data", folder_.path("none"), "--output", folder_.path("results")},
       folder_.path("none") + ": cannot be read"},
      {{"experiment", "staleness", "--data", folder_.path("bad"), "--output", folder_.path("results")},
       folder_.path("bad") + ":1: expected"},
      {{"experiment", "scale", "--workers", "8,0"}, "--workers: a whole number from 1"},
      {{"experiment", "scale", "--models", "best"}, "unknown consistency \"best\""},
      {{"experiment", "scale", "--network", "latency=fast"}, "latency=TIME"},
      {{"experiment", "scale", "--message-ns", "-1"}, "--message-ns"},
      {{"experiment", "scale", "--workers", "4096", "--servers", "64"},
       "262144 connections; no more than 65536"},
      {{"experiment", "convergence", "--documents", folder_.path("none")}, "there is no such file"},
      {{"experiment", "allocation", "--documents", folder_.path("file"), "--triples", folder_.path("none")},
       "there is no such folder"},
      {{"experiment", "cost", "--documents", folder_.path("file"), "--triples", folder_.path(), "--examples",
        folder_.path("none")},
       "--examples " + folder_.path("none") + ": there is no such file"},
      {{"experiment", "failover", "--hit", "workers"},
       "--application lda: with --hit workers expected ctr, kge, word2vec"},
      {{"experiment", "allocation", "--nodes", "2,1"}, "--nodes: a whole number from 2"},
      {{"experiment", "allocation", "--rounds", "0"}, "--rounds: a whole number from 1"},
  };
  for (const auto& [arguments, error] : cases) {
    const Ended ended = run(VERBENA_PROGRAM, arguments, folder_.path());
    EXPECT_EQ(ended.status, 2) << ended.err;
    EXPECT_THAT(ended.err, AllOf(StartsWith("verbena: error: "), HasSubstr(error)));
  }
}

TEST_F(ExperimentTest, HelpNamesThem) {
  const Ended help = run(VERBENA_PROGRAM, {"experiment", "--help"}, folder_.path());
  EXPECT_THAT(help.out, AllOf(HasSubstr("verbena experiment NAME [OPTION]…"), HasSubstr("\nEXPERIMENTS\n"),
                              HasSubstr("staleness  "), HasSubstr("stragglers "), HasSubstr("allocation "),
                              HasSubstr("scale  ")));
  EXPECT_THAT(run(VERBENA_PROGRAM, {"run", "--help"}, folder_.path()).out, HasSubstr("\nAPPLICATIONS\n"));
}

}  // namespace
}  // namespace verbena::process_test
