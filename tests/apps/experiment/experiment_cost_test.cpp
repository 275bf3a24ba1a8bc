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
                   .objective = !plan.objective.empty()     ? plan.objective
                                : plan.application == "mf"  ? "test_rmse"
                                : plan.task == "ctr, ftrl"  ? "progressive_log_loss"
                                : plan.application == "ctr" ? "objective"
                                                            : "held_out_mrr"};
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
      const std::set<std::string> falling = {"mf", "ctr", "sketch"};
      const bool falls = falling.contains(plan.application);
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
    EXPECT_THAT(run.arguments,
                Contains(run.task == "mf, small"                                   ? "--data=s.tsv"
                         : run.application == "mf"                                 ? "--data=r.tsv"
                         : run.application == "kge"                                ? "--data=t"
                         : run.application == "ctr" || run.application == "sketch" ? "--data=e"
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
  EXPECT_EQ(of_task.size(), 9U);
  for (const auto& [task, count] : of_task) {
    const int ways_of_two = task == "ctr, ftrl" ? 4 : task == "ctr, block" || task == "sketch" ? 3 : 6;
    const int ways_of_one = task == "ctr, block" ? 1 : 2;
    const int once = task == "ctr, ftrl" || task == "ctr, block" || task == "sketch" ? 1 : 2;
    EXPECT_EQ(count, 1 + once + 3 * (1 + ways_of_one + ways_of_two)) << task << ", in three rounds";
  }
}

/// But not twice in the same one.
TEST_F(CostTest, ASingleWorkerIsRunInTheWaysThatAreItsOwn) {
  std::map<std::string, std::set<std::string>> ways;
  for (const PlannedRun& run : make_cost_experiment()->plan(options())) {
    if (run.workers == 1) ways[run.task].insert(run.allocation);
  }
  using Names = std::set<std::string>;
  EXPECT_EQ(ways["kge"], (Names{"default", "bsp", "essp:1", "intent"}));
  EXPECT_EQ(ways["mf, small"], ways["kge"]);
  EXPECT_EQ(ways["word2vec"], ways["kge"]);
  EXPECT_EQ(ways["lda"], (Names{"default", "bsp", "essp:1", "localize"}));
  EXPECT_EQ(ways["sketch"], (Names{"default", "bsp", "essp:1"}));
  EXPECT_EQ(ways["ctr, ftrl"], (Names{"default", "bsp", "essp:1"}));
  EXPECT_EQ(ways["ctr, block"], (Names{"default", "essp:1"}));
  // With several servers its default is another one.
  ExperimentOptions several = options();
  several.servers = 2;
  Names ways_of_kge;
  for (const PlannedRun& run : make_cost_experiment()->plan(several)) {
    if (run.workers == 1 && run.task == "kge") ways_of_kge.insert(run.allocation);
  }
  EXPECT_EQ(ways_of_kge, (Names{"default", "bsp", "essp:1", "asp", "localize", "intent"}));
}

/// So that the time to a quality is not that of the whole run. The first round is enough for that.
TEST_F(CostTest, RunsAreEvaluatedOnTheirWay) {
  const std::map<std::string, std::pair<std::string, std::string>> every = {
      {"kge", {"2", "5"}},          {"mf, rank 100", {"1", "12"}}, {"mf, rank 16", {"5", "50"}},
      {"mf, small", {"40", "400"}}, {"lda", {"10", "60"}},         {"word2vec", {"2", "8"}},
      {"sketch", {"1", "10"}}};
  for (const PlannedRun& run : make_cost_experiment()->plan(options())) {
    if (run.application == "ctr") continue;  // which knows its loss after each pass
    const auto& [in_first_round, in_others] = every.at(run.task);
    EXPECT_THAT(run.arguments,
                Contains("--evaluate-every=" + (run.allocation == "plain loop, first pass" ? "1"
                                                : run.round == 1                           ? in_first_round
                                                                                           : in_others)))
        << run.label;
    EXPECT_EQ(run.objective, run.task == "kge" ? "valid_mrr" : run.task == "sketch" ? "relative_error" : "");
  }
}

/// The plain loop gains 1; a job has 95 % of it in the midst of its fourth iteration. That is seen in the
/// first round only, in which an iteration takes 1 s; in the others it takes 2 and 3 s.
TEST_F(CostTest, TimeToQualityIsBetweenTwoEvaluations) {
  std::vector<RunFigures> runs;
  for (const PlannedRun& plan : make_cost_experiment()->plan(options())) {
    if (plan.task != "mf, small") continue;
    runs.push_back(run_of(plan, 1, plan.allocation == "plain loop, first pass" ? 2 : 1));
    if (plan.allocation != "default") continue;
    const std::map<double, double> objectives = {{1, 1.5}, {2, 1.2}, {3, 1.1}, {4, 1}};
    runs.back().iterations.clear();
    const double seconds = plan.round;
    for (const auto& [iteration, objective] : objectives) {
      const bool is_evaluated = plan.round == 1 || iteration == 4;
      runs.back().iterations.push_back({.iteration = static_cast<std::int64_t>(iteration),
                                        .items = 1000,
                                        .seconds = seconds,
                                        .training_seconds = seconds * iteration,
                                        .objectives = {{"train_rmse", 1}}});
      if (is_evaluated) runs.back().iterations.back().objectives["test_rmse"] = objective;
    }
  }
  const auto judged = make_cost_experiment()->judge(runs);
  std::map<std::string, std::vector<std::string>> rows;
  for (const auto& row : judged.tables.front().rows) rows[row[1]] = row;
  EXPECT_THAT(rows["default, 2 workers"], ElementsAre(_, _, _, _, _, "1", "100.0 %", "7.00", _));
  EXPECT_THAT(rows["bsp, 1 worker"], Contains("100.0 %"));
  EXPECT_THAT(rows["essp:1, 1 worker, once"], Contains("100.0 %"));
  EXPECT_EQ(rows["plain loop, first pass"][7], "–");
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
  EXPECT_EQ(
      peers,
      (std::map<std::string, Names>{
          {"mf, rank 100", {"LIBMF, 1", "LIBMF, 2"}},
          {"mf, rank 16", {"LIBMF, 1", "LIBMF, 2"}},
          {"lda", {"MALLET, 1", "MALLET, 2"}},
          {"word2vec",
           {"fastText, 1 pass, 1", "fastText, 1 pass, 2", "fastText, 8 passes, 1", "fastText, 8 passes, 2"}},
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

/// Its runs that end sooner are what evaluations are to others: half of what is between 0.1 s and 0.3 s.
TEST_F(CostTest, EndsOfAPeerArePointsOnItsWay) {
  ExperimentOptions with_peer = options();
  with_peer.peers.push_back({make_liblinear(), "program"});
  std::vector<RunFigures> runs;
  for (const PlannedRun& plan : make_cost_experiment()->plan(with_peer)) {
    if (plan.task != "ctr, block") continue;
    runs.push_back(run_of(plan, 1, plan.allocation == "plain loop, first pass" ? 120 : 100));
    if (plan.peer == nullptr) continue;
    // Another round is disturbed, and its points are not those of this one.
    const double longer = plan.round == 2 ? 100 : 1;
    const std::map<double, std::pair<double, double>> ends = {
        {0.1, {0.1, 102}}, {0.01, {0.3, 100}}, {0.001, {3, 100}}};
    const auto& [seconds, objective] = ends.at(plan.peer_task.tolerance);
    runs.back().training_seconds = seconds * longer;
    runs.back().iterations = {{.iteration = 1,
                               .seconds = seconds * longer,
                               .training_seconds = seconds * longer,
                               .objectives = {{"objective", objective}}}};
  }
  const auto judged = make_cost_experiment()->judge(runs);
  std::map<std::string, std::vector<std::string>> rows;
  for (const auto& row : judged.tables.front().rows) rows[row[1]] = row;
  EXPECT_EQ(rows["liblinear to 0.1, 1 thread"][7], "–");
  EXPECT_EQ(rows["liblinear to 0.01, 1 thread"][7], "0.20");
  EXPECT_EQ(rows["liblinear to 0.001, 1 thread"][7], "0.20");
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
  for (const char* task : {"mf, small", "sketch", "ctr, ftrl", "ctr, block"}) {
    EXPECT_EQ(verdict(runs_with({.objective_of_two = 1.04}), learns(task)), Verdict::kHeld) << task;
    EXPECT_EQ(verdict(runs_with({.objective_of_two = 1.06}), learns(task)), Verdict::kDidNotHold) << task;
    EXPECT_EQ(verdict(runs_with({.objective_of_two = 0.5}), learns(task)), Verdict::kHeld) << task;
  }
  // As much less as plain loops with other seeds may have.
  const std::map<std::string, double> least = {{"lda", 0.95}, {"kge", 0.85}, {"word2vec", 0.8}};
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
      runs.back().iterations[i].objectives = {{"held_out_mrr", i == 0 ? 0.6 : 1}};
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
