// Which jobs `verbena experiment scale` simulates, and how it judges given figures.
#include "apps/experiment/experiment_scale.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ScaleOptions small() {
  ScaleOptions options;
  options.workers = {8, 32, 128};
  for (const scale::CostField& field : scale::kCostFields) options.cell.costs.*field.value = 1.25;
  return options;
}

/// Figures for which all expectations hold.
std::vector<ScaleRun> expected_runs(const ScaleOptions& options) {
  std::vector<ScaleRun> runs = *plan_scale(options);
  for (ScaleRun& run : runs) {
    const bool bsp = run.model == "bsp";
    run.figures.seconds = 1;
    run.figures.waited = bsp ? 0.2 + 0.001 * run.workers : 0.1;
    run.figures.computed = 1 - run.figures.waited;
    run.figures.slowest = 0.85;
    run.figures.reads_by_lag = bsp                             ? std::vector<std::uint64_t>{10}
                               : run.model.starts_with("essp") ? std::vector<std::uint64_t>{5, 5}
                                                               : std::vector<std::uint64_t>{0, 5, 5};
    run.figures.bytes_in = run.figures.bytes_out = 1e6;
    run.figures.server = {.card_in = 0.5, .card_out = 0.4, .processor = 0.3};
  }
  return runs;
}

ScaleRun& run_of(std::vector<ScaleRun>& runs, const std::string& model, std::uint32_t workers) {
  for (ScaleRun& run : runs) {
    if (run.model == model && run.workers == workers) return run;
  }
  ADD_FAILURE() << "no run has " << model << " with this number of workers: " << workers;
  return runs.front();
}

const Finding& finding_of(const Judgement& judgement, const std::string& expectation) {
  for (const Finding& finding : judgement.findings) {
    if (finding.expectation.find(expectation) != std::string::npos) return finding;
  }
  ADD_FAILURE() << "no expectation contains: " << expectation;
  return judgement.findings.front();
}

TEST(ScaleTest, ServersGrowWithTheWorkers) {
  ScaleOptions options = small();
  options.workers = {128, 8, 32, 8};
  const auto runs = plan_scale(options);
  ASSERT_TRUE(runs.ok()) << runs.status();
  std::vector<std::string> jobs;
  for (const ScaleRun& run : *runs)
    jobs.push_back(std::to_string(run.workers) + "/" + std::to_string(run.servers) + " " + run.model);
  EXPECT_THAT(jobs, ElementsAre("8/1 bsp", "8/1 ssp:2", "8/1 essp:2", "32/1 bsp", "32/1 ssp:2", "32/1 essp:2",
                                "128/4 bsp", "128/4 ssp:2", "128/4 essp:2"));
  options.servers = 3;
  EXPECT_EQ(plan_scale(options)->back().servers, 3U);
}

TEST(ScaleTest, TooManyConnectionsAreRefused) {
  ScaleOptions options = small();
  options.workers = {4096};
  options.workers_per_server = 8;
  const absl::Status status = plan_scale(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("2097152 connections"), HasSubstr("--workers-per-server")));
}

TEST(ScaleTest, AJobIsItsRunAndTheOptions) {
  ScaleOptions options = small();
  options.cell.seed = 7;
  options.network = "latency=2us,bandwidth=1Gb/s";
  const ScaleRun run{.model = "essp:3", .workers = 64, .servers = 2};
  const scale::CellOptions cell = cell_of(options, run);
  EXPECT_EQ(to_string(cell.model), "essp:3");
  EXPECT_EQ(cell.workers, 64U);
  EXPECT_EQ(cell.servers, 2U);
  EXPECT_EQ(cell.network.bits_per_second, 1e9);
  EXPECT_THAT(command_line(options, run),
              AllOf(HasSubstr("verbena experiment scale --workers 64 --servers 2 --models essp:3 "),
                    HasSubstr(" --seed 7"), HasSubstr("--network latency=2us,bandwidth=1Gb/s"),
                    HasSubstr("--held-row-ns 1.25")));
}

TEST(ScaleTest, WhatIsAsExpectedHolds) {
  const ScaleOptions options = small();
  const Judgement judgement = judge_scale(options, expected_runs(options));
  for (const Finding& finding : judgement.findings)
    EXPECT_EQ(finding.verdict, Verdict::kHeld) << finding.expectation << ": " << finding.found;
  EXPECT_EQ(judgement.findings.size(), 12U);
  EXPECT_EQ(judgement.tables.at(0).rows.size(), 9U);
  EXPECT_EQ(judgement.tables.at(1).rows.size(), 9U);
}

TEST(ScaleTest, WhatIsNotDoesNot) {
  const ScaleOptions options = small();
  std::vector<ScaleRun> runs = expected_runs(options);
  run_of(runs, "ssp:2", 128).figures.waited = 0.9;
  run_of(runs, "bsp", 128).figures.waited = 0.1;
  run_of(runs, "bsp", 32).figures.server.processor = 0.6;
  run_of(runs, "essp:2", 32).figures.reads_by_lag = {0, 0, 1};
  run_of(runs, "ssp:2", 128).figures.bytes_in = 2e6;
  run_of(runs, "essp:2", 128).figures.seconds = 2;
  const Judgement judgement = judge_scale(options, runs);
  const Finding& waiting = finding_of(judgement, "ssp:2 waits less");
  EXPECT_EQ(waiting.verdict, Verdict::kDidNotHold);
  EXPECT_THAT(waiting.found, AllOf(HasSubstr("8: 10.0 % against 20.8 %;"),
                                   HasSubstr("128: 90.0 % against 10.0 % (not so)")));
  EXPECT_EQ(finding_of(judgement, "bsp waits more").verdict, Verdict::kDidNotHold);
  EXPECT_EQ(finding_of(judgement, "bsp: a server's card is busier").verdict, Verdict::kDidNotHold);
  EXPECT_EQ(finding_of(judgement, "ssp:2: a server's card is busier").verdict, Verdict::kHeld);
  EXPECT_EQ(finding_of(judgement, "closer to −1").verdict, Verdict::kDidNotHold);
  EXPECT_EQ(finding_of(judgement, "ssp:2: where servers grow").verdict, Verdict::kDidNotHold);
  EXPECT_EQ(finding_of(judgement, "bsp: where servers grow").verdict, Verdict::kHeld);
  EXPECT_EQ(finding_of(judgement, "essp:2: the largest job").verdict, Verdict::kDidNotHold);
  EXPECT_EQ(finding_of(judgement, "ssp:2: the largest job").verdict, Verdict::kHeld);
}

/// The job with 128 workers on four servers is compared to 32 workers on one server, not to 8.
TEST(ScaleTest, EfficiencyIsAgainstAJobWithAsManyWorkersAServer) {
  const ScaleOptions options = small();
  std::vector<ScaleRun> runs = expected_runs(options);
  run_of(runs, "essp:2", 8).figures.seconds = 0.1;
  EXPECT_EQ(finding_of(judge_scale(options, runs), "essp:2: the largest job").verdict, Verdict::kHeld);
}

TEST(ScaleTest, WhatFailedIsNoVerdict) {
  const ScaleOptions options = small();
  std::vector<ScaleRun> runs = *plan_scale(options);
  for (ScaleRun& run : runs) run.failure = "simulated server 0: is no more";
  const Judgement judgement = judge_scale(options, runs);
  for (const Finding& finding : judgement.findings)
    EXPECT_EQ(finding.verdict, Verdict::kNotSeen) << finding.expectation;
  const std::string text = report_text(scale_subject(options), judgement, reported_runs(options, runs));
  EXPECT_THAT(text, HasSubstr("failed: 128 workers, essp:2: simulated server 0: is no more"));
}

TEST(ScaleTest, TheLimitIsWhatIsUsedUp) {
  scale::CellFigures figures{.computed = 0.95, .slowest = 1.2};
  EXPECT_EQ(limit_text(figures), "computing 95.0 %");
  figures.server = {.card_in = 0.92, .card_out = 0.3, .processor = 0.97};
  EXPECT_EQ(limit_text(figures), "computing 95.0 %; server processor 97.0 %");
  figures.computed = 0.5;
  EXPECT_EQ(limit_text(figures), "server processor 97.0 %");
  figures.worker.card_out = 1.02;  // above 1, since transfers are booked ahead
  EXPECT_EQ(limit_text(figures), "worker card out 100.0 %");
  figures = {.computed = 0.7, .slowest = 0.93, .server = {.card_in = 0.2}};
  EXPECT_EQ(limit_text(figures), "the slowest at each clock");
  figures.slowest = 0.8;
  EXPECT_EQ(limit_text(figures), "taking turns: slowest 80.0 %, server card in 20.0 %");
}

TEST(ScaleTest, SaysWhatSaturatesFirst) {
  const ScaleOptions options = small();
  std::vector<ScaleRun> runs = expected_runs(options);
  run_of(runs, "ssp:2", 32).figures.server.processor = 0.95;
  run_of(runs, "ssp:2", 128).figures.server.card_in = 0.99;
  const ReportTable table = judge_scale(options, runs).tables.at(2);
  EXPECT_THAT(table.rows.at(1), ElementsAre("ssp:2", "server processor", "32 workers"));
  EXPECT_THAT(table.rows.at(0), ElementsAre("bsp", "nothing; most, server card in (50.0 %)", "8 workers"));
}

TEST(ScaleTest, ReportsHaveTheCosts) {
  const ScaleOptions options = small();
  const std::vector<ScaleRun> runs = expected_runs(options);
  const Judgement judgement = judge_scale(options, runs);
  const nlohmann::json json = scale_json(options, judgement, runs);
  EXPECT_EQ(json.at("name"), "scale");
  EXPECT_EQ(json.at("costs_ns").at("message"), 1.25);
  EXPECT_EQ(json.at("runs").size(), 9U);
  EXPECT_EQ(json.at("runs").at(0).at("server_busy").at("card_in"), 0.5);
  const std::string page = report_html(scale_subject(options), judgement, reported_runs(options, runs));
  EXPECT_THAT(
      page, AllOf(HasSubstr("applied-row 1.25"), HasSubstr("--workers 128 --servers 4"), HasSubstr("<svg")));
}

}  // namespace
}  // namespace verbena::apps
