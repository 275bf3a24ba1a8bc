// What `verbena experiment copies` plans, and how it judges given figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/experiment/experiment.hpp"
#include "apps/experiment/experiment_report.hpp"
#include "apps/experiment/other_build.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ExperimentOptions copies_options(const std::string& before = "") {
  ExperimentOptions options{.ratings = "r.tsv", .documents = "d", .examples = "e"};
  make_copies_experiment()->set_defaults(options);
  options.before = before;
  make_copies_experiment()->complete(options);
  return options;
}

/// In milliseconds, an iteration.
struct CopiesTimes {
  double without = 10;
  double with = 12;
  double before = 10;
  std::uint64_t bytes_to_copies = 1010;
};

/// The first iteration, and everything in the third round, takes long.
std::vector<RunFigures> copies_runs(const CopiesTimes& times, const std::string& before = "") {
  std::vector<RunFigures> runs;
  for (const PlannedRun& plan : make_copies_experiment()->plan(copies_options(before))) {
    RunFigures& run = runs.emplace_back(RunFigures{.planned = plan});
    const double ms = plan.peer != nullptr ? times.before : plan.replicas > 0 ? times.with : times.without;
    for (int i = 1; i <= 4; ++i) {
      const double seconds = i == 1 ? 7 : ms / 1000 * (plan.round == 3 ? 5 : 1);
      run.iterations.push_back({.iteration = i, .items = 100, .seconds = seconds});
    }
    run.elapsed_seconds = 2;
    run.processor_time = {.workers_seconds = 2, .servers_seconds = 1};
    if (plan.replicas == 0) continue;
    run.processor_time.copies_seconds = 1;
    run.update_bytes = 1000;
    run.bytes_to_copies = times.bytes_to_copies;
  }
  return runs;
}

std::map<std::string, Finding> copies_findings(const std::vector<RunFigures>& runs) {
  std::map<std::string, Finding> findings;
  for (const Finding& finding : make_copies_experiment()->judge(runs).findings)
    findings[finding.expectation] = finding;
  return findings;
}

constexpr const char* kTimeOfLda =
    "lda, 2 workers: with a copy an iteration takes at most 1.25 times as long";
constexpr const char* kBytesOfLda =
    "lda, 2 workers: at most 1.1 times the bytes of the updates that workers push go to copies";
constexpr const char* kBeforeOfLda =
    "lda, 2 workers: without copies an iteration takes at most 1.02 times as long as by the other build";

TEST(CopiesTest, RunsWithAndWithoutCopiesTakeTurns) {
  const std::vector<PlannedRun> plan = make_copies_experiment()->plan(copies_options());
  EXPECT_EQ(plan.size(), 3U * 3 * 3 * 2);
  std::set<std::string> labels;
  std::set<std::uint32_t> workers;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const PlannedRun& run = plan[i];
    EXPECT_TRUE(labels.insert(run.label).second) << run.label;
    workers.insert(run.workers);
    EXPECT_EQ(run.replicas, i % 2);
    EXPECT_THAT(run.arguments, AllOf(Contains("--consistency=bsp"), Contains("--servers=1"),
                                     Contains("--workers=" + std::to_string(run.workers))));
    if (run.replicas == 0) {
      EXPECT_THAT(run.arguments, Not(Contains(HasSubstr("--replicas"))));
    } else {
      // Nothing else differs.
      std::vector<std::string> without = plan[i - 1].arguments;
      without.emplace_back("--replicas=1");
      EXPECT_EQ(run.arguments, without);
    }
  }
  EXPECT_THAT(workers, ElementsAre(1, 2, 4));
}

TEST(CopiesTest, TheMiddleRatioOfTheRoundsCounts) {
  auto findings = copies_findings(copies_runs({}));
  ASSERT_EQ(findings.count(kTimeOfLda), 1U);
  EXPECT_EQ(findings[kTimeOfLda].verdict, Verdict::kHeld);
  EXPECT_THAT(findings[kTimeOfLda].found,
              AllOf(HasSubstr("1.20 times as long, in single rounds 1.20 to 1.20"),
                    HasSubstr("copies used 25.0 % of the processor time")));
  EXPECT_EQ(findings[kBytesOfLda].verdict, Verdict::kHeld);
  EXPECT_EQ(findings[kBytesOfLda].found, "1.010 times");
  EXPECT_EQ(findings.count(kBeforeOfLda), 0U);
  findings = copies_findings(copies_runs({.with = 13, .bytes_to_copies = 1101}));
  EXPECT_EQ(findings[kTimeOfLda].verdict, Verdict::kDidNotHold);
  EXPECT_EQ(findings[kBytesOfLda].verdict, Verdict::kDidNotHold);
}

TEST(CopiesTest, RunsThatFailedAreNotSeen) {
  std::vector<RunFigures> runs = copies_runs({});
  for (RunFigures& run : runs) {
    if (run.planned.replicas > 0) run.failure = "it has fallen over";
  }
  auto findings = copies_findings(runs);
  EXPECT_EQ(findings[kTimeOfLda].verdict, Verdict::kNotSeen);
  EXPECT_EQ(findings[kBytesOfLda].verdict, Verdict::kNotSeen);
}

TEST(CopiesTest, AnotherBuildIsRunWithoutCopies) {
  auto findings = copies_findings(copies_runs({.before = 9.9}, "old/verbena"));
  EXPECT_EQ(findings[kBeforeOfLda].verdict, Verdict::kHeld);
  EXPECT_EQ(findings[kTimeOfLda].verdict, Verdict::kHeld) << "beside this build's";
  findings = copies_findings(copies_runs({.before = 9.7}, "old/verbena"));
  EXPECT_EQ(findings[kBeforeOfLda].verdict, Verdict::kDidNotHold);
}

TEST(CopiesTest, TheOtherBuildMakesTheSameRunAndIsReadByItsMetrics) {
  const PlannedRun run{.label = "run", .application = "mf", .arguments = {"mf", "--data=r.tsv"}};
  const PlannedRun other = by_other_build(run, "old/verbena");
  EXPECT_EQ(command_line(other), "old/verbena run mf --data=r.tsv --quiet --metrics=/dev/stdout");
  EXPECT_NE(other.label, run.label);
  const auto read =
      other.peer->read(R"({"kind": "iteration", "iteration": 3, "items": 50, "seconds": 0.25})", {}, 9);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->iteration, 3);
  EXPECT_EQ(read->items, 50);
  EXPECT_EQ(read->seconds, 0.25);
  for (const char* line : {"", "mf: trained", "{", "[1]", R"({"kind": "summary"})",
                           R"({"kind": "iteration"})", R"({"kind": 7})"})
    EXPECT_FALSE(other.peer->read(line, {}, 9).has_value()) << line;
}

TEST(CopiesTest, NumbersSayWhatCopiesUsed) {
  const auto experiment = make_copies_experiment();
  const std::vector<RunFigures> runs = copies_runs({}, "old/verbena");
  const nlohmann::json json = experiment_json(*experiment, "here", experiment->judge(runs), runs);
  const nlohmann::json& made = json.at("runs").at(2);
  EXPECT_EQ(made.at("replicas"), 1);
  EXPECT_EQ(made.at("processor_seconds").at("copies"), 1);
  EXPECT_EQ(made.at("bytes_to_copies"), 1010);
  EXPECT_EQ(made.at("update_bytes"), 1000);
  EXPECT_FALSE(json.at("runs").at(0).contains("processor_seconds"))
      << "of the other build they are not known";
}

}  // namespace
}  // namespace verbena::apps
