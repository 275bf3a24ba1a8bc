// What `verbena experiment cost` plans, and how it judges given figures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "apps/experiment/experiment.hpp"
#include "apps/experiment/experiment_report.hpp"

namespace verbena::apps {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CostTest : public ::testing::Test {
 protected:
  static ExperimentOptions options(std::uint32_t workers = 2) {
    ExperimentOptions options{
        .ratings = "r.tsv", .small_ratings = "s.tsv", .documents = "d", .triples = "t", .examples = "e"};
    make_cost_experiment()->set_defaults(options);
    options.workers = workers;
    make_cost_experiment()->complete(options);
    return options;
  }
  /// Iterations of 1000 items in `seconds` each, but for the first, which takes long, and the last of the
  /// second round.
  static RunFigures run_of(const PlannedRun& plan, double seconds, double objective) {
    RunFigures run{.planned = plan,
                   .objective = plan.application == "mf"    ? "test_rmse"
                                : plan.task == "ctr, ftrl"  ? "progressive_log_loss"
                                : plan.application == "ctr" ? "objective"
                                                            : "test_mrr"};
    for (int i = 1; i <= 5; ++i) {
      const bool is_odd = i == 1 || (i == 5 && plan.round == 2);
      run.iterations.push_back({.iteration = i, .items = 1000, .seconds = is_odd ? 10 : seconds});
    }
    run.iterations.back().objectives = {{run.objective, objective}};
    return run;
  }
  struct Figures {
    double plain = 1;
    double one = 1.05;
    double two = 0.6;
    double objective_of_two = 1;
    double first_above = 2;  ///< after one pass, of an objective that falls; others are 0 then
  };
  static std::vector<RunFigures> runs_with(const Figures& figures) {
    std::vector<RunFigures> runs;
    for (const PlannedRun& plan : make_cost_experiment()->plan(options())) {
      // The host is half as fast in the third round.
      const double host = plan.round == 3 ? 2 : 1;
      const double seconds = plan.workers == 0   ? figures.plain
                             : plan.workers == 1 ? figures.one
                                                 : figures.two;
      runs.push_back(run_of(plan, seconds * host, plan.workers == 2 ? figures.objective_of_two : 1));
      if (plan.allocation != "plain loop, first pass") continue;
      RunFigures& first_pass = runs.back();
      const bool falls = plan.application == "mf" || plan.application == "ctr";
      first_pass.iterations.back().objectives[first_pass.objective] = falls ? figures.first_above : 0;
    }
    return runs;
  }
  static Verdict verdict(const std::vector<RunFigures>& runs, const std::string& expectation) {
    for (const Finding& finding : make_cost_experiment()->judge(runs).findings) {
      if (finding.expectation.find(expectation) != std::string::npos) return finding.verdict;
    }
    ADD_FAILURE() << "no expectation contains: " << expectation;
    return Verdict::kNotSeen;
  }
};

TEST_F(CostTest, PlansEachTaskInEachWay) {
  std::set<std::string> labels;
  std::map<std::string, int> of_task;
  for (const PlannedRun& run : make_cost_experiment()->plan(options())) {
    EXPECT_TRUE(labels.insert(run.label).second) << run.label;
    ++of_task[run.task];
    EXPECT_EQ(run.arguments.front(), run.application);
    EXPECT_THAT(run.arguments, Contains(run.task == "mf, small"    ? "--data=s.tsv"
                                        : run.application == "mf"  ? "--data=r.tsv"
                                        : run.application == "kge" ? "--data=t"
                                        : run.application == "ctr" ? "--data=e"
                                                                   : "--data=d"));
    if (run.workers == 0) {
      EXPECT_THAT(run.arguments, AllOf(Contains("--baseline"), Not(Contains(HasSubstr("--workers")))));
    } else {
      EXPECT_THAT(run.arguments,
                  AllOf(Contains("--servers=1"), Contains("--workers=" + std::to_string(run.workers))));
    }
    // Who types the short command gets the default.
    if (run.allocation == "default") {
      EXPECT_THAT(run.arguments,
                  AllOf(Not(Contains(HasSubstr("--consistency"))), Not(Contains(HasSubstr("--allocation")))));
    }
  }
  EXPECT_EQ(of_task.size(), 8U);
  for (const auto& [task, count] : of_task) {
    const int ways_of_two = task == "ctr, ftrl" ? 4 : task == "ctr, block" ? 3 : 6;
    const int ways_of_one = task == "ctr, block" ? 1 : 2;
    EXPECT_EQ(count, 1 + 3 * (1 + ways_of_one + ways_of_two)) << task << ", in three rounds";
  }
}

TEST_F(CostTest, CtrHasPassesAndRowsThatStay) {
  for (const PlannedRun& run : make_cost_experiment()->plan(options())) {
    if (run.application != "ctr") continue;
    const std::string passes = run.allocation == "plain loop, first pass" ? "--passes=1"
                               : run.task == "ctr, block"                 ? "--passes=10"
                                                                          : "--passes=5";
    EXPECT_THAT(
        run.arguments,
        AllOf(Contains(passes), Contains("--test-fraction=0"), Not(Contains(HasSubstr("--iterations"))),
              Not(Contains(HasSubstr("--evaluate"))), Not(Contains(HasSubstr("--allocation")))));
  }
}

TEST_F(CostTest, PeersAreOfOneTask) {
  ExperimentOptions with_peers = options();
  for (const auto& peer : make_peers()) with_peers.peers.push_back({peer, "program"});
  std::map<std::string, std::set<std::string>> peers;
  for (const PlannedRun& run : make_cost_experiment()->plan(with_peers)) {
    if (run.peer != nullptr) peers[run.task].insert(run.allocation + ", " + std::to_string(run.workers));
  }
  using Names = std::set<std::string>;
  EXPECT_EQ(peers,
            (std::map<std::string, Names>{
                {"mf, rank 100", {"LIBMF, 1", "LIBMF, 2"}},
                {"mf, rank 16", {"LIBMF, 1", "LIBMF, 2"}},
                {"lda", {"MALLET, 1", "MALLET, 2"}},
                {"word2vec", {"fastText, 1", "fastText, 2"}},
                {"ctr, block", {"liblinear to 0.1, 1", "liblinear to 0.01, 1", "liblinear to 0.001, 1"}},
            }));
}

/// liblinear says no more than how far it came in which time.
TEST_F(CostTest, TimeToQualityNeedsNoSpeed) {
  ExperimentOptions with_peer = options();
  with_peer.peers.push_back({make_liblinear(), "program"});
  std::vector<RunFigures> runs;
  for (const PlannedRun& plan : make_cost_experiment()->plan(with_peer)) {
    if (plan.task != "ctr, block") continue;
    runs.push_back(run_of(plan, 1, plan.allocation == "plain loop, first pass" ? 120 : 100));
    if (plan.peer == nullptr) continue;
    const double objective = plan.peer_task.tolerance == 0.1 ? 102 : 100.5;
    runs.back().iterations = {{.iteration = 1,
                               .seconds = 0.25,
                               .training_seconds = 0.25,
                               .objectives = {{"objective", objective}}}};
  }
  const auto judged = make_cost_experiment()->judge(runs);
  std::map<std::string, std::vector<std::string>> rows;
  for (const auto& row : judged.tables.front().rows) rows[row[1]] = row;
  EXPECT_THAT(rows["liblinear to 0.1, 1 thread"],
              ElementsAre("ctr, block", _, "–", "–", _, _, "90.0 %", "–", ""));
  EXPECT_THAT(rows["liblinear to 0.01, 1 thread"],
              ElementsAre("ctr, block", _, "–", "–", _, _, "97.5 %", "0.25", ""));
}

TEST_F(CostTest, MoreCoresMeanMoreWorkers) {
  std::set<std::uint32_t> counts;
  for (const PlannedRun& run : make_cost_experiment()->plan(options(6))) counts.insert(run.workers);
  EXPECT_EQ(counts, (std::set<std::uint32_t>{0, 1, 2, 4, 6}));
}

TEST_F(CostTest, JudgesSpeedWithinEachRound) {
  EXPECT_EQ(verdict(runs_with({}), "lda: by default one worker takes"), Verdict::kHeld);
  EXPECT_EQ(verdict(runs_with({.one = 1.2}), "lda: by default one worker takes"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict(runs_with({}), "kge: by default 2 workers are"), Verdict::kHeld);
  EXPECT_EQ(verdict(runs_with({.two = 0.65}), "kge: by default 2 workers are"), Verdict::kDidNotHold);
}

std::string learns(const char* task) {
  return std::string(task) + ": by default 2 workers learn";
}

/// The plain loop gets from 2 to 1, or, where the objective grows, from 0 to 1.
TEST_F(CostTest, JudgesQualityByThePlainLoopsGain) {
  for (const char* task : {"mf, small", "ctr, ftrl", "ctr, block"}) {
    EXPECT_EQ(verdict(runs_with({.objective_of_two = 1.04}), learns(task)), Verdict::kHeld) << task;
    EXPECT_EQ(verdict(runs_with({.objective_of_two = 1.06}), learns(task)), Verdict::kDidNotHold) << task;
    EXPECT_EQ(verdict(runs_with({.objective_of_two = 0.5}), learns(task)), Verdict::kHeld) << task;
  }
  // As much less as plain loops with other seeds may have.
  const std::map<std::string, double> least = {{"lda", 0.95}, {"kge", 0.9}, {"word2vec", 0.8}};
  for (const auto& [task, share] : least) {
    EXPECT_EQ(verdict(runs_with({.objective_of_two = 1.06}), learns(task.c_str())), Verdict::kHeld) << task;
    EXPECT_EQ(verdict(runs_with({.objective_of_two = share + 0.01}), learns(task.c_str())), Verdict::kHeld)
        << task;
    EXPECT_EQ(verdict(runs_with({.objective_of_two = share - 0.01}), learns(task.c_str())),
              Verdict::kDidNotHold)
        << task;
  }
}

/// Its rate falls until the last pass, so a single one would not be the first of many.
TEST_F(CostTest, TheFirstPassOfWord2vecIsThatOfAllPasses) {
  std::vector<RunFigures> runs;
  for (const PlannedRun& plan : make_cost_experiment()->plan(options())) {
    if (plan.task != "word2vec") continue;
    runs.push_back(run_of(plan, 1, plan.workers == 2 ? 0.9 : 1));
    if (plan.allocation != "plain loop, first pass") continue;
    EXPECT_THAT(plan.arguments, AllOf(Contains("--iterations=8"), Contains("--evaluate-every=1")));
    for (std::size_t i = 0; i < runs.back().iterations.size(); ++i)
      runs.back().iterations[i].objectives = {{"test_mrr", i == 0 ? 0.6 : 1}};
  }
  for (const Finding& finding : make_cost_experiment()->judge(runs).findings) {
    if (finding.expectation.find("2 workers learn") == std::string::npos) continue;
    EXPECT_THAT(finding.found, HasSubstr("after 0.6: 75.0 % of its gain"));
    EXPECT_EQ(finding.verdict, Verdict::kDidNotHold);
  }
}

/// An objective that changes little in all says much by little: 1.004 is less than half of what was to gain.
TEST_F(CostTest, SmallGainsAreJudgedByWhatTheyAre) {
  EXPECT_EQ(verdict(runs_with({.objective_of_two = 1.004, .first_above = 1.006}), learns("ctr, ftrl")),
            Verdict::kDidNotHold);
  EXPECT_EQ(verdict(runs_with({.objective_of_two = 1.0002, .first_above = 1.006}), learns("ctr, ftrl")),
            Verdict::kHeld);
}

TEST_F(CostTest, WhereThePlainLoopGainsNothingNothingIsJudged) {
  const std::vector<RunFigures> runs = runs_with({.objective_of_two = 1, .first_above = 0.9});
  EXPECT_EQ(verdict(runs, learns("mf, small")), Verdict::kNotSeen);
  EXPECT_EQ(verdict(runs, learns("kge")), Verdict::kHeld);
}

TEST_F(CostTest, SaysWhichPartOfTheGainWasReached) {
  const auto judged = make_cost_experiment()->judge(runs_with({.objective_of_two = 1.03}));
  std::map<std::string, std::vector<std::string>> rows;
  for (const auto& row : judged.tables.front().rows) {
    if (row[0] == "mf, small") rows[row[1]] = row;
  }
  EXPECT_THAT(rows["plain loop, first pass"], ElementsAre(_, _, "", "", "test_rmse", "2", "0.0 %", "–", ""));
  EXPECT_THAT(rows["plain loop"], ElementsAre(_, _, Not(""), "", _, "1", "100.0 %", Not("–"), ""));
  EXPECT_THAT(rows["default, 2 workers"], ElementsAre(_, _, _, "1.67×", _, "1.03", "97.0 %", Not("–"), _));
}

TEST_F(CostTest, WhatFailedIsNotSeen) {
  std::vector<RunFigures> runs = runs_with({});
  for (RunFigures& run : runs) {
    if (run.planned.task == "lda" && run.planned.workers == 2) run.failure = "server 0 was killed";
    if (run.planned.task == "kge" && run.planned.workers == 0) run.failure = "out of memory";
  }
  EXPECT_EQ(verdict(runs, "lda: by default 2 workers are"), Verdict::kNotSeen);
  EXPECT_EQ(verdict(runs, "lda: by default one worker takes"), Verdict::kHeld);
  EXPECT_EQ(verdict(runs, "kge: by default 2 workers are"), Verdict::kNotSeen);
  EXPECT_EQ(verdict(runs, "kge: by default 2 workers learn"), Verdict::kNotSeen);
}

TEST_F(CostTest, ShowsWhatItRanOn) {
  EXPECT_THAT(circumstances(*make_cost_experiment(), options(), 2),
              AllOf(HasSubstr("2 workers and 1 server on 2 cores"), Not(HasSubstr("row cache"))));
  const std::vector<RunFigures> runs = runs_with({});
  EXPECT_THAT(experiment_text(*make_cost_experiment(), "here", make_cost_experiment()->judge(runs), runs),
              AllOf(HasSubstr("default, 2 workers"), HasSubstr("1.67×"), HasSubstr("essp:1, 2 workers")));
}

}  // namespace
}  // namespace verbena::apps
