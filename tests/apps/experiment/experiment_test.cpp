// What experiments plan, and how they judge given figures.
#include "apps/experiment/experiment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/experiment/experiment_report.hpp"
#include "apps/report/svg_chart.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A run whose objective falls from 2 to 1 in even steps.
RunFigures falling(const PlannedRun& planned, double seconds, int iterations = 11) {
  RunFigures run{.planned = planned, .objective = "rmse"};
  for (int i = 0; i < iterations; ++i) {
    const double part = static_cast<double>(i) / (iterations - 1);
    run.iterations.push_back({.iteration = i + 1,
                              .items = 100,
                              .training_seconds = seconds * (i + 1) / iterations,
                              .objectives = {{"rmse", 2 - part}}});
  }
  run.training_seconds = seconds;
  run.share_waited_by_worker = {0, 0, 0, 0};
  return run;
}

PlannedRun planned(std::string application, std::string model, double straggler = 1) {
  return {.label = application + model + std::to_string(straggler),
          .application = std::move(application),
          .consistency = std::move(model),
          .straggler = straggler,
          .arguments = {"mf"}};
}

std::vector<RunFigures> all_fail(const Experiment& experiment, const ExperimentOptions& options) {
  std::vector<RunFigures> runs;
  for (const PlannedRun& plan : experiment.plan(options)) {
    runs.push_back({.planned = plan, .failure = "server 0 was killed"});
  }
  return runs;
}

Verdict verdict_of(const Judgement& judgement, const std::string& expectation) {
  for (const Finding& finding : judgement.findings) {
    if (finding.expectation.find(expectation) != std::string::npos) return finding.verdict;
  }
  ADD_FAILURE() << "no expectation contains: " << expectation;
  return Verdict::kNotSeen;
}

TEST(ExperimentTest, TargetIsAPartOfTheWay) {
  const auto target = target_of(falling(planned("mf", "bsp"), 11), 0.9);
  ASSERT_TRUE(target.has_value());
  EXPECT_NEAR(target->objective, 1.1, 1e-12);
  EXPECT_NEAR(target->way, -1, 1e-12);
  RunFigures once = falling(planned("mf", "bsp"), 11, 2);
  once.iterations.pop_back();
  EXPECT_FALSE(target_of(once, 0.9).has_value());
}

TEST(ExperimentTest, TimeToTheTargetIsBetweenTwoEvaluations) {
  const Target target{.objective = 1.95, .way = -1};
  EXPECT_NEAR(*seconds_to(falling(planned("mf", "bsp"), 11), target), 1.5, 1e-9);
  EXPECT_NEAR(*seconds_to(falling(planned("mf", "bsp"), 11), {.objective = 2, .way = -1}), 1, 1e-9);
  EXPECT_FALSE(seconds_to(falling(planned("mf", "bsp"), 11), {.objective = 0.9, .way = -1}).has_value());
  // An objective that rises.
  RunFigures rising = falling(planned("lda", "bsp"), 11);
  for (IterationRecord& record : rising.iterations) record.objectives["rmse"] *= -1;
  EXPECT_NEAR(*seconds_to(rising, {.objective = -1.95, .way = 1}), 1.5, 1e-9);
}

TEST(ExperimentTest, AheadIsInPartsOfTheWay) {
  const RunFigures measure = falling(planned("mf", "bsp"), 11);
  RunFigures worse = measure;
  worse.iterations.back().objectives["rmse"] = 1.2;
  const Target target = *target_of(measure, 0.95);
  EXPECT_NEAR(*ahead_in_the_end(worse, measure, target), -0.2, 1e-12);
  EXPECT_NEAR(*ahead_in_the_end(measure, worse, target), 0.2, 1e-12);
}

TEST(ExperimentTest, IterationsThatWereNotEvaluatedAreLeftOut) {
  RunFigures run = falling(planned("mf", "bsp"), 11);
  run.iterations[3].objectives.clear();
  EXPECT_EQ(by_iteration(run).size(), 10U);
}

TEST(ExperimentTest, RunsSayAllThatTheyAreMadeWith) {
  const ExperimentOptions options{.ratings = "r.tsv",
                                  .documents = "d.tsv",
                                  .item_time = std::chrono::nanoseconds(400),
                                  .network = "latency=1ms"};
  const auto experiments = [] {
    std::vector<std::unique_ptr<Experiment>> all;
    all.push_back(make_staleness_experiment());
    all.push_back(make_convergence_experiment());
    all.push_back(make_stragglers_experiment());
    return all;
  }();
  for (const auto& experiment : experiments) {
    std::set<std::string> labels;
    for (const PlannedRun& run : experiment->plan(options)) {
      EXPECT_TRUE(labels.insert(run.label).second) << run.label;
      EXPECT_EQ(run.arguments.front(), run.application);
      EXPECT_THAT(run.arguments, AllOf(Contains("--consistency=" + run.consistency),
                                       Contains("--slow=worker=all,item=400ns"),
                                       Contains("--read-path=cached"), Contains("--network=latency=1ms"),
                                       Contains(run.application == "lda" ? "--data=d.tsv" : "--data=r.tsv")));
    }
    EXPECT_GE(labels.size(), 8U);
  }
}

TEST(ExperimentTest, AskedForModelsAreTheOnlyOnes) {
  const ExperimentOptions options{.ratings = "r", .documents = "d", .models = {"bsp", "ssp:7"}};
  EXPECT_EQ(make_convergence_experiment()->plan(options).size(), 4U);
  EXPECT_EQ(make_stragglers_experiment()->plan(options).size(), 10U);
}

TEST(StalenessTest, HoldsWhereEsspIsFresher) {
  const auto experiment = make_staleness_experiment();
  std::vector<RunFigures> runs;
  for (const PlannedRun& plan : experiment->plan({.ratings = "r"})) {
    RunFigures run{.planned = plan};
    const bool eager = plan.consistency.starts_with("essp");
    const auto staleness = static_cast<std::size_t>(std::stoul(plan.consistency.substr(eager ? 5 : 4)));
    run.reads_by_lag.assign(staleness + 1, eager ? 1 : 100);
    if (eager) run.reads_by_lag[0] = 1000;
    runs.push_back(run);
  }
  Judgement judgement = experiment->judge(runs);
  for (const Finding& finding : judgement.findings) {
    EXPECT_EQ(finding.verdict, Verdict::kHeld) << finding.expectation << ": " << finding.found;
  }
  EXPECT_EQ(judgement.tables[0].rows.size(), 8U);

  // An equal mean is not closer.
  runs[1].reads_by_lag = runs[0].reads_by_lag;
  judgement = experiment->judge(runs);
  EXPECT_EQ(verdict_of(judgement, "s = 1: ESSP's mean"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict_of(judgement, "s = 2: ESSP's mean"), Verdict::kHeld);
}

TEST(ConvergenceTest, HoldsWhereEsspIsNoWorse) {
  const auto experiment = make_convergence_experiment();
  std::vector<RunFigures> runs;
  for (const PlannedRun& plan : experiment->plan({.ratings = "r", .documents = "d"})) {
    runs.push_back(falling(plan, 10));
  }
  Judgement judgement = experiment->judge(runs);
  for (const Finding& finding : judgement.findings) {
    EXPECT_EQ(finding.verdict, Verdict::kHeld) << finding.expectation << ": " << finding.found;
  }
  for (RunFigures& run : runs) {
    if (run.planned.label == "mf essp:1") {
      for (IterationRecord& record : run.iterations) record.training_seconds *= 1.2;
    }
    if (run.planned.label == "lda essp:16") run.iterations.back().objectives["rmse"] = 1.3;
    if (run.planned.label == "lda essp:1") run.iterations.back().objectives["rmse"] = 1.3;
    if (run.planned.label == "mf essp:64") run.failure = "training has diverged";
  }
  judgement = experiment->judge(runs);
  EXPECT_EQ(verdict_of(judgement, "mf: ESSP(1) is not slower"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict_of(judgement, "lda, s = 16"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict_of(judgement, "lda, s = 4"), Verdict::kHeld);
  EXPECT_EQ(verdict_of(judgement, "lda: essp:1 ends"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict_of(judgement, "mf, s = 64"), Verdict::kDidNotHold);
}

TEST(StragglersTest, ABspIsJudgedByItsGain) {
  const auto experiment = make_stragglers_experiment();
  const std::vector<PlannedRun> plan = experiment->plan({.ratings = "r"});
  const auto managed =
      std::find_if(plan.begin(), plan.end(), [](const PlannedRun& run) { return run.budget_mb_per_s > 0; });
  ASSERT_NE(managed, plan.end());
  EXPECT_THAT(managed->arguments, Contains("--budget=50"));
  EXPECT_THAT(managed->arguments, Contains("--consistency=essp:4"));
  const auto runs_with = [&](double a_bsp_seconds) {
    std::vector<RunFigures> runs;
    for (const double slower : {1.0, 2.0, 3.0, 4.0}) {
      runs.push_back(falling(planned("mf", "bsp", slower), 10 * slower));
      runs.push_back(falling(planned("mf", "a-bsp", slower), a_bsp_seconds));
      runs.push_back(falling(planned("mf", "ssp:4", slower), 9 * slower));
      runs.push_back(falling(planned("mf", "essp:4", slower), 9 * slower));
    }
    runs.push_back(falling(*managed, a_bsp_seconds + 14));
    runs.push_back(falling(planned("mf", "bsp", 0), 20));
    runs.push_back(falling(planned("mf", "ssp:4", 0), 10));
    runs.push_back(falling(planned("mf", "essp:4", 0), 18));
    return runs;
  };
  Judgement judgement = experiment->judge(runs_with(14));
  EXPECT_EQ(verdict_of(judgement, "A-BSP is at the goal"), Verdict::kHeld);
  EXPECT_EQ(verdict_of(judgement, "BSP goes with its slowest worker: 3×"), Verdict::kHeld);
  EXPECT_EQ(verdict_of(judgement, "ssp:4 hides pauses"), Verdict::kHeld);
  EXPECT_EQ(verdict_of(judgement, "essp:4 hides pauses"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict_of(judgement, "essp:4 does not help"), Verdict::kHeld);
  EXPECT_EQ(verdict_of(judgement, "beside a worker that is 3× slower, ESSP"), Verdict::kHeld)
      << "SSP takes 27 s, managed ESSP 28 s";
  judgement = experiment->judge(runs_with(16));
  EXPECT_EQ(verdict_of(judgement, "A-BSP is at the goal"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict_of(judgement, "beside a worker that is 3× slower, ESSP"), Verdict::kDidNotHold)
      << "SSP takes 27 s, managed ESSP 30 s";
}

TEST(ExperimentTest, WhatFailedIsNoVerdict) {
  const ExperimentOptions options{.ratings = "r", .documents = "d"};
  for (const auto& make : {make_staleness_experiment, make_stragglers_experiment}) {
    const auto experiment = make();
    const std::vector<RunFigures> runs = all_fail(*experiment, options);
    const Judgement judgement = experiment->judge(runs);
    for (const Finding& finding : judgement.findings) {
      EXPECT_EQ(finding.verdict, Verdict::kNotSeen) << finding.expectation;
    }
    EXPECT_THAT(experiment_text(*experiment, "here", judgement, runs),
                HasSubstr("failed: mf essp:4: server 0 was killed"));
  }
  const auto convergence = make_convergence_experiment();
  EXPECT_EQ(verdict_of(convergence->judge(all_fail(*convergence, options)), "mf, s = 4"), Verdict::kNotSeen);
}

/// An experiment with fixed findings.
class OneExpectation final : public Experiment {
 public:
  [[nodiscard]] std::string_view name() const override { return "one-expectation"; }
  [[nodiscard]] std::string_view description() const override { return "nothing & more"; }
  [[nodiscard]] std::string_view method() const override { return "by <hand>"; }
  [[nodiscard]] std::vector<PlannedRun> plan(const ExperimentOptions& /*options*/) const override {
    return {};
  }
  [[nodiscard]] Judgement judge(const std::vector<RunFigures>& /*runs*/) const override {
    return {.findings = {{"up", "1 < 2", Verdict::kHeld},
                         {"down", "2", Verdict::kDidNotHold},
                         {"aside", "-", Verdict::kNotSeen}},
            .tables = {{"Table", {"×", "model", "time"}, {{"−1", "bsp", "1.00 s"}, {"long", "a", "2 s"}}}},
            .charts = {{"Chart", to_svg(CurveChart{"x", "y", {{"<a>", {{1, 2}, {2, 1}}}}}), "note"}}};
  }
};

TEST(ExperimentReportTest, SaysPlainlyWhatDidNotHold) {
  const OneExpectation experiment;
  // One run in three rounds, of which the last failed.
  std::vector<RunFigures> runs(3, falling(planned("mf", "bsp"), 10));
  runs.back().failure = "killed";
  const Judgement judgement = experiment.judge(runs);
  const std::string text = experiment_text(experiment, "here", judgement, runs);
  EXPECT_THAT(text, HasSubstr("DID NOT HOLD  expected: down\n              found:    2\n"));
  EXPECT_THAT(text, HasSubstr("held          expected: up\n"));
  EXPECT_THAT(text, HasSubstr("3 expectations: 1 did not hold, 1 not seen, 1 held\n"));
  EXPECT_THAT(text, HasSubstr("  ×     model    time\n  −1    bsp    1.00 s\n  long  a         2 s\n"));

  const std::string page = experiment_html(experiment, "here", judgement, runs);
  EXPECT_THAT(
      page, AllOf(HasSubstr("nothing &amp; more"), HasSubstr("by &lt;hand&gt;"), HasSubstr("found: 1 &lt; 2"),
                  HasSubstr("<b>DID NOT HOLD</b>"), HasSubstr("&lt;a&gt;"), Not(HasSubstr("<script")),
                  HasSubstr("<pre>verbena run mf\nverbena run mf\n  failed: killed\n</pre>")));

  const nlohmann::json json = experiment_json(experiment, "here", judgement, runs);
  EXPECT_EQ(json.at("schema"), 1);
  EXPECT_EQ(json.at("findings").at(1).at("verdict"), "DID NOT HOLD");
  EXPECT_EQ(json.at("runs").at(0).at("iterations").size(), 11U);
  EXPECT_EQ(json.at("runs").at(0).at("command"), "verbena run mf");
}

TEST(CurveChartTest, DrawsWhatIsFinite) {
  const CurveChart chart{.x_label = "x",
                         .y_label = "y",
                         .series = {{.label = "one", .points = {{1, 1}, {2, std::nan("")}, {3, 2}}},
                                    {.label = "two", .points = {}, .dashed = true}}};
  const std::string svg = to_svg(chart);
  EXPECT_THAT(svg, AllOf(HasSubstr("one, x 1: 1"), HasSubstr("one, x 3: 2"), Not(HasSubstr("nan")),
                         HasSubstr(">two<"), HasSubstr("series s1 dashed")));
  EXPECT_THAT(to_svg(CurveChart{"x", "y", {}}), HasSubstr("not measured"));
  EXPECT_THAT(to_svg(CurveChart{"x", "y", {{"point", {{5, 5}}}}}), Not(HasSubstr("nan")));
}

TEST(CurveChartTest, LegendTakesAsManyRowsAsItNeeds) {
  CurveChart chart{.x_label = "x", .y_label = "y", .series = {}};
  const auto height = [&] {
    const std::string svg = to_svg(chart);
    return std::stod(svg.substr(svg.find("viewBox=\"0 0 640 ") + 17));
  };
  chart.series.assign(3, {.label = "bounded-delay:1", .points = {{0, 1}, {1, 2}}});
  const double one_row = height();
  chart.series.assign(4, chart.series.front());
  EXPECT_GT(height(), one_row);
}

class AllocationTest : public ::testing::Test {
 protected:
  static ExperimentOptions options() {
    ExperimentOptions options{.ratings = "r.tsv", .documents = "d", .triples = "t"};
    make_allocation_experiment()->complete(options);
    return options;
  }
  /// Runs in which all iterations but the first take `seconds` on average, which are given by allocation.
  static std::vector<RunFigures> runs_with(const std::map<std::string, double>& seconds) {
    std::vector<RunFigures> runs;
    for (const PlannedRun& plan : make_allocation_experiment()->plan(options())) {
      RunFigures run{.planned = plan, .training_seconds = 10};
      // The last iteration is short: then the slowest worker has the host to itself.
      const double mean = seconds.at(plan.allocation);
      run.iterations = {{.iteration = 1, .seconds = 100, .training_seconds = 100},
                        {.iteration = 2, .seconds = 1.5 * mean, .training_seconds = 100 + 1.5 * mean},
                        {.iteration = 3, .seconds = 0.5 * mean, .training_seconds = 100 + 2 * mean}};
      if (plan.allocation == "localize") {
        run.share_local = 0.95;
        run.rows_moved = 120;
        run.move_p50_seconds = 0.0015;
      }
      runs.push_back(std::move(run));
    }
    return runs;
  }
  static Judgement judge(const std::vector<RunFigures>& runs) {
    return make_allocation_experiment()->judge(runs);
  }

  const std::map<std::string, double> as_expected_ = {{"plain loop", 1.5},
                                                      {"classic, by triple", 40},
                                                      {"classic", 8},
                                                      {"prefetch", 4},
                                                      {"blocks", 2},
                                                      {"localize", 1},
                                                      {"intent", 1.05},
                                                      {"localize, near", 0.5},
                                                      {"intent, near", 0.5},
                                                      {"localize, near, by triple", 7},
                                                      {"intent, near, by triple", 7}};
};

TEST_F(AllocationTest, PlansEachWayOnEachNumberOfNodes) {
  const std::map<std::string, std::string> data = {{"mf", "r.tsv"}, {"kge", "t"}, {"word2vec", "d"}};
  std::map<std::string, int> of_application;
  std::set<std::string> labels;
  for (const PlannedRun& run : make_allocation_experiment()->plan(options())) {
    EXPECT_TRUE(labels.insert(run.label).second) << run.label;
    ++of_application[run.application];
    EXPECT_EQ(run.arguments.front(), run.application);
    EXPECT_THAT(run.arguments, Contains("--data=" + data.at(run.application)));
    if (run.allocation == "plain loop") {
      EXPECT_THAT(run.arguments, AllOf(Contains("--baseline"), Not(Contains(HasSubstr("--network")))));
      continue;
    }
    const std::string nodes = std::to_string(run.nodes);
    EXPECT_THAT(run.arguments, AllOf(Contains("--servers=" + nodes), Contains("--workers=" + nodes),
                                     Contains("--consistency=" + run.consistency),
                                     Contains("--network=latency=10us,bandwidth=10Gb/s,hosts=nodes")));
  }
  EXPECT_EQ(of_application,
            (std::map<std::string, int>{
                {"mf", 3 * (1 + 2 * 5)}, {"kge", 3 * (1 + 2 * 9)}, {"word2vec", 3 * (1 + 2 * 4)}}))
      << "in three rounds";
}

TEST_F(AllocationTest, WhatIsGivenIsTaken) {
  ExperimentOptions options{.nodes = {3}, .rounds = 1, .network = "latency=1ms"};
  make_allocation_experiment()->complete(options);
  EXPECT_EQ(make_allocation_experiment()->plan(options).size(), 3U + 5 + 9 + 4);
  for (const PlannedRun& run : make_allocation_experiment()->plan(options)) {
    if (run.allocation == "plain loop") continue;
    EXPECT_EQ(run.nodes, 3U);
    EXPECT_THAT(run.arguments, Contains("--network=latency=1ms"));
  }
  EXPECT_THAT(circumstances(*make_allocation_experiment(), options, 2),
              HasSubstr("3 nodes of a server and a worker each on 2 cores"));
}

TEST_F(AllocationTest, IsJudgedByAllIterationsButTheFirst) {
  const Judgement judgement = judge(runs_with(as_expected_));
  EXPECT_EQ(judgement.findings.size(), 6U * 4 + 4 + 2 * 3)
      << "word2vec's frequent words are not expected to be near";
  for (const Finding& finding : judgement.findings) {
    EXPECT_EQ(finding.verdict, Verdict::kHeld) << finding.expectation << ": " << finding.found;
  }
  EXPECT_EQ(judgement.charts.size(), 6U);
  ASSERT_EQ(judgement.tables.size(), 1U);
  const ReportTable& table = judgement.tables.front();
  EXPECT_EQ(table.rows.size(), 3U + 2 * 5 + 2 * 9 + 2 * 4);
  EXPECT_THAT(table.rows,
              Contains(std::vector<std::string>{"mf, 2 nodes", "localize", "1.00 s", "0.67×", "8.00×",
                                                "0.0 %", "95.0 %", "12", "1.5 ms", "–"}));
  EXPECT_THAT(table.rows, Contains(std::vector<std::string>{"kge, alone", "plain loop", "1.50 s", "1.00×",
                                                            "–", "–", "–", "–", "–", "–"}));
}

TEST_F(AllocationTest, RoundsAreComparedOneByOneAndTheMiddleCounts) {
  std::vector<RunFigures> runs = runs_with(as_expected_);
  for (RunFigures& run : runs) {
    const std::uint32_t round = run.planned.round;
    const bool intent = run.planned.allocation == "intent";
    for (IterationRecord& iteration : run.iterations) {
      if (round == 1) iteration.training_seconds *= 3;            // the host was busy in the whole round
      if (round == 2 && intent) iteration.training_seconds *= 9;  // the host was busy in one run
    }
    if (intent && round == 3) run.share_waited = 0.5;
  }
  const Judgement judgement = judge(runs);
  for (const Finding& finding : judgement.findings) {
    EXPECT_EQ(finding.verdict, Verdict::kHeld) << finding.expectation << ": " << finding.found;
  }
  const std::vector<std::vector<std::string>>& rows = judgement.tables.front().rows;
  EXPECT_THAT(rows, Contains(std::vector<std::string>{"mf, 2 nodes", "intent", "3.15 s", "0.70×", "7.62×",
                                                      "0.0 %", "–", "–", "–", "–"}));
  std::vector<std::string> first_task;
  for (std::size_t row = 0; row < 6; ++row) first_task.push_back(rows[row][1]);
  EXPECT_THAT(first_task, ElementsAre("plain loop", "classic", "prefetch", "blocks", "localize", "intent"));
}

TEST_F(AllocationTest, EachExpectationCanFail) {
  const auto verdict = [&](const std::string& changed, double seconds, const std::string& expectation) {
    std::map<std::string, double> all = as_expected_;
    all[changed] = seconds;
    return verdict_of(judge(runs_with(all)), expectation);
  };
  const std::string by_triple =
      "kge, 2 nodes: with rows that move, by localize or by intent, and a triple a step, an iteration";
  EXPECT_EQ(verdict("classic", 3.9, "mf, 2 nodes: with rows that move"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict("localize", 7, "mf, 2 nodes: with rows that move"), Verdict::kHeld)
      << "intent is fast enough";
  EXPECT_EQ(verdict("classic", 3.9, "kge, 2 nodes: with rows that move, by localize or by intent, an"),
            Verdict::kHeld)
      << "runs with near negatives are fast enough";
  EXPECT_EQ(verdict("classic", 1.9, "kge, 2 nodes: with rows that move, by localize or by intent, an"),
            Verdict::kDidNotHold);
  EXPECT_EQ(verdict("classic, by triple", 27, by_triple), Verdict::kDidNotHold);
  EXPECT_EQ(verdict("localize, near, by triple", 11, by_triple), Verdict::kHeld) << "intent is fast enough";
  EXPECT_EQ(verdict("localize, near, by triple", 6, "kge, 4 nodes: intent, near, by triple takes"),
            Verdict::kDidNotHold);
  EXPECT_EQ(verdict("classic", 1.9, by_triple), Verdict::kHeld);
  EXPECT_EQ(verdict("intent, near", 0.6, "kge, 4 nodes: intent, near takes"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict("intent", 1.2, "kge, 4 nodes: intent takes"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict("prefetch", 0.9, "kge, 4 nodes: intent takes"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict("prefetch", 9, "mf, 4 nodes: to fetch ahead"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict("localize", 5, "mf, 4 nodes: to fetch ahead"), Verdict::kDidNotHold);
  EXPECT_EQ(verdict("plain loop", 0.9, "mf, 4 nodes: the classic parameter server"), Verdict::kDidNotHold);
  std::vector<RunFigures> runs = runs_with(as_expected_);
  for (RunFigures& run : runs) run.share_local = 0.8;
  EXPECT_EQ(verdict_of(judge(runs), "mf, 2 nodes: under localize"), Verdict::kDidNotHold);
}

TEST_F(AllocationTest, WhatFailedIsNotSeen) {
  std::vector<RunFigures> runs = runs_with(as_expected_);
  for (RunFigures& run : runs) {
    if (run.planned.allocation == "localize") run.failure = "server 0 was killed";
    if (run.planned.allocation == "prefetch") run.iterations.resize(1);
  }
  const Judgement judgement = judge(runs);
  EXPECT_EQ(verdict_of(judgement, "mf, 2 nodes: with rows that move"), Verdict::kHeld);
  EXPECT_EQ(verdict_of(judgement, "mf, 2 nodes: to fetch ahead"), Verdict::kNotSeen);
  EXPECT_EQ(verdict_of(judgement, "mf, 2 nodes: under localize"), Verdict::kNotSeen);
  EXPECT_EQ(verdict_of(judgement, "mf, 2 nodes: the classic"), Verdict::kNotSeen);
  for (const Finding& finding : judge(all_fail(*make_allocation_experiment(), options())).findings) {
    EXPECT_EQ(finding.verdict, Verdict::kNotSeen);
  }
}

}  // namespace
}  // namespace verbena::apps
