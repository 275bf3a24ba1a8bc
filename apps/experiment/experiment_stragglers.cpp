// `verbena experiment stragglers`: what one slow worker costs all workers, and which model helps against it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "apps/experiment/experiment.hpp"
#include "apps/report/format.hpp"
#include "apps/report/svg_chart.hpp"

namespace verbena::apps {
namespace experiment_stragglers {
namespace {

/// The first model is the one with which the others are compared.
constexpr std::array kModels = {"bsp", "a-bsp", "ssp:4", "essp:4"};
constexpr std::array<double, 4> kSlower = {1, 2, 3, 4};
constexpr std::int64_t kIterations = 24;
constexpr std::uint32_t kSlowWorker = 1;
/// Marks runs in which each worker pauses from time to time, instead of one worker being slow all the time.
constexpr double kPauses = 0;
constexpr const char* kPause = "worker=all,pause=20ms,every=20";

/// Managed communication.
constexpr const char* kManagedModel = "essp:4";
constexpr double kBudgetMbPerS = 50;

/// The time of a rating. Moving rows takes the time that it needs on this host, but that is little compared
/// with this.
constexpr auto kRatingTime = std::chrono::microseconds(1);

constexpr double kGoal = 0.9;  // of the way of BSP without a straggler
constexpr double kABspGain = 2;
constexpr double kABspAt = 3;
constexpr double kManagedAt = 3;
constexpr double kManagedLoss = 1.1;

class Stragglers final : public Experiment {
 public:
  [[nodiscard]] std::string_view name() const override { return "stragglers"; }
  [[nodiscard]] std::string_view description() const override {
    return "time to an objective with one slow worker, or with pauses of all";
  }
  [[nodiscard]] std::string_view method() const override {
    return "Matrix factorization; each rating takes a worker 1 µs, and worker 1 2, 3 and 4 times as long. "
           "The goal is the same for all: 90 % of the way that BSP's objective goes without a straggler. "
           "Seconds are those of training, without evaluation. In the last runs no worker is slow, but each "
           "stands still for 20 ms before one of its clocks in 20; there workers meet for evaluation only "
           "every fourth iteration. An iteration is 20 clocks, for every model: workers take turns with 20 "
           "blocks of items.";
  }
  [[nodiscard]] std::vector<PlannedRun> plan(const ExperimentOptions& options) const override;
  [[nodiscard]] Judgement judge(const std::vector<RunFigures>& runs) const override;
};

/// One of the models that are compared, with its budget.
struct Contender {
  std::string model;
  double budget_mb_per_s = 0;  ///< 0: none
  friend bool operator==(const Contender&, const Contender&) = default;
};
Contender managed_essp() {
  return {kManagedModel, kBudgetMbPerS};
}

Contender contender_of(const PlannedRun& run) {
  return {run.consistency, run.budget_mb_per_s};
}
std::string text_of(const Contender& contender) {
  if (contender.budget_mb_per_s == 0) return contender.model;
  return fmt::format("{}, {:g} MB/s", contender.model, contender.budget_mb_per_s);
}

PlannedRun plan_one(const ExperimentOptions& options, const Contender& contender, double slower) {
  const std::string& model = contender.model;
  PlannedRun run = plan_run(options, "mf", model, kRatingTime);
  run.straggler = slower;
  run.budget_mb_per_s = contender.budget_mb_per_s;
  if (run.budget_mb_per_s > 0) {
    run.label = fmt::format("mf {}", text_of(contender));
    add_arguments(run, {fmt::format("--budget={:g}", run.budget_mb_per_s)});
  }
  // An A-BSP iteration that ends early has fewer examples, so that it takes more iterations to the goal.
  const std::int64_t usual = model.starts_with("a-bsp") ? 2 * kIterations : kIterations;
  add_arguments(run, {fmt::format("--iterations={}", iterations_of(options, usual))});
  add_arguments(run, factorization_arguments(options));
  if (slower == kPauses) {
    run.label += " with pauses";
    add_arguments(run, {fmt::format("--slow={}", kPause), "--evaluate-every=4"});
  } else if (slower > 1) {
    run.label += fmt::format(", {:g}× slower", slower);
    add_arguments(run, {fmt::format("--slow=worker={},factor={:g}", kSlowWorker, slower)});
  }
  return run;
}

std::vector<PlannedRun> Stragglers::plan(const ExperimentOptions& options) const {
  const std::vector<std::string> models = models_of(options, {kModels.begin(), kModels.end()});
  std::vector<PlannedRun> runs;
  for (const double slower : kSlower) {
    for (const std::string& model : models) runs.push_back(plan_one(options, {model}, slower));
  }
  if (options.models.empty()) runs.push_back(plan_one(options, managed_essp(), kManagedAt));
  for (const std::string& model : models) runs.push_back(plan_one(options, {model}, kPauses));
  return runs;
}

/// All runs, by contender and slowness, and the time that each takes to the same goal.
struct Times {
  const std::vector<RunFigures>& runs;
  std::optional<Target> goal;
  std::vector<Contender> contenders;

  [[nodiscard]] const RunFigures* run(const Contender& contender, double slower) const {
    return find_run(runs, "mf", contender.model, slower, contender.budget_mb_per_s);
  }
  [[nodiscard]] std::optional<double> of(const Contender& contender, double slower) const {
    const RunFigures* const found = run(contender, slower);
    return found == nullptr || !goal ? std::nullopt : seconds_to(*found, *goal);
  }
  /// How many times sooner than BSP the contender reaches the goal.
  [[nodiscard]] std::optional<double> gain(const Contender& contender, double slower) const {
    const auto own = of(contender, slower);
    const auto bsp = of({"bsp"}, slower);
    return own && bsp && *own > 0 ? std::optional(*bsp / *own) : std::nullopt;
  }
};

Times times_of(const std::vector<RunFigures>& runs) {
  Times times{.runs = runs, .goal = std::nullopt, .contenders = {}};
  if (const RunFigures* measure = find_run(runs, "mf", "bsp")) times.goal = target_of(*measure, kGoal);
  for (const RunFigures& run : runs) {
    const Contender contender = contender_of(run.planned);
    if (std::find(times.contenders.begin(), times.contenders.end(), contender) == times.contenders.end()) {
      times.contenders.push_back(contender);
    }
  }
  return times;
}

/// Judges whether `gain` is at least `least` and at most `most`.
void judge_gain(Finding& finding, const std::optional<double>& gain, double least, double most) {
  if (!gain) {
    finding.found = "there is no such run, or it failed, or it did not reach the goal";
    return;
  }
  finding.found = times_text(gain);
  finding.verdict = verdict_of(*gain >= least && *gain <= most);
}

std::vector<Finding> findings_of(const Times& times) {
  constexpr double kAny = 1e9;
  std::vector<Finding> findings;
  for (const double slower : kSlower) {
    if (slower == 1) continue;
    Finding& finding = findings.emplace_back();
    finding.expectation = fmt::format(
        "BSP goes with its slowest worker: {0:g}× slower, it needs about {0:g} times as long (0.75 to 1.25 "
        "of that)",
        slower);
    const auto with = times.of({"bsp"}, slower);
    const auto without = times.of({"bsp"}, 1);
    const auto ratio = with && without ? std::optional(*with / *without) : std::nullopt;
    judge_gain(finding, ratio, 0.75 * slower, 1.25 * slower);
  }
  Finding& a_bsp = findings.emplace_back();
  a_bsp.expectation = fmt::format(
      "A-BSP is at the goal at least {:g} times sooner than BSP with one worker of four {:g}× slower (its "
      "paper has up to 2.36)",
      kABspGain, kABspAt);
  judge_gain(a_bsp, times.gain({"a-bsp"}, kABspAt), kABspGain, kAny);
  for (const char* model : {"ssp:4", "essp:4"}) {
    Finding& lasting = findings.emplace_back();
    lasting.expectation = fmt::format(
        "{} does not help against a worker that is always {:g}× slower: its bound is soon used up (0.75 "
        "to 1.5 times BSP's speed)",
        model, kABspAt);
    judge_gain(lasting, times.gain({model}, kABspAt), 0.75, 1.5);
    Finding& pauses = findings.emplace_back();
    pauses.expectation =
        fmt::format("{} hides pauses: at the goal at least 1.2 times sooner than BSP", model);
    judge_gain(pauses, times.gain({model}, kPauses), 1.2, kAny);
  }
  return findings;
}

Finding managed_finding(const Times& times) {
  Finding finding{
      .expectation = fmt::format(
          "beside a worker that is {:g}× slower, ESSP with managed communication ({:g} MB/s a link) is "
          "at the goal no later than {:g} times SSP's time: what the others do does not wait for the "
          "straggler's clock",
          kManagedAt, kBudgetMbPerS, kManagedLoss)};
  const auto managed = times.of(managed_essp(), kManagedAt);
  const auto ssp = times.of({"ssp:4"}, kManagedAt);
  judge_gain(finding, managed && ssp && *managed > 0 ? std::optional(*ssp / *managed) : std::nullopt,
             1 / kManagedLoss, 1e9);
  if (finding.verdict != Verdict::kNotSeen)
    finding.found = fmt::format("SSP {}, managed ESSP {}, ESSP {}", seconds_text(ssp), seconds_text(managed),
                                seconds_text(times.of({kManagedModel}, kManagedAt)));
  return finding;
}

std::string slowness_text(double slower) {
  if (slower == kPauses) return "pauses";
  return slower == 1 ? "none" : fmt::format("{:g}× slower", slower);
}

ReportTable table_of(const Times& times) {
  ReportTable table{.title = "Time to the goal",
                    .head = {"straggler", "model", "to the goal", "sooner than BSP", "training", "waited",
                             "the straggler waited", "examples an iteration"},
                    .rows = {}};
  for (const RunFigures& run : times.runs) {
    if (!run.failure.empty()) continue;
    const PlannedRun& planned = run.planned;
    const Contender contender = contender_of(planned);
    double items = 0;
    for (const IterationRecord& iteration : run.iterations) items += iteration.items;
    const auto iterations = static_cast<double>(std::max<std::size_t>(run.iterations.size(), 1));
    const bool lasting = planned.straggler > 1 && run.share_waited_by_worker.size() > kSlowWorker;
    table.rows.push_back({slowness_text(planned.straggler), text_of(contender),
                          seconds_text(times.of(contender, planned.straggler)),
                          times_text(times.gain(contender, planned.straggler)),
                          format_seconds(run.training_seconds), format_share(run.share_waited),
                          lasting ? format_share(run.share_waited_by_worker[kSlowWorker]) : "–",
                          format_count(items / iterations)});
  }
  return table;
}

void add_charts(const Times& times, Judgement& judgement) {
  CurveChart seconds{.x_label = "times slower", .y_label = "seconds to the goal", .series = {}};
  for (const Contender& contender : times.contenders) {
    Series series{.label = text_of(contender), .points = {}};
    for (const double slower : kSlower) {
      if (const auto time = times.of(contender, slower)) series.points.emplace_back(slower, *time);
    }
    seconds.series.push_back(std::move(series));
  }
  judgement.charts.push_back(
      {"Time to the goal, one worker slower", to_svg(seconds), "Seconds of training until the goal."});
  for (const double slower : {kABspAt, kPauses}) {
    CurveChart curves{.x_label = "seconds of training", .y_label = "objective", .series = {}};
    for (const Contender& contender : times.contenders) {
      const RunFigures* const run = times.run(contender, slower);
      if (run == nullptr) continue;
      curves.y_label = run->objective;
      curves.series.push_back({.label = text_of(contender), .points = by_second(*run)});
    }
    judgement.charts.push_back({slower == kPauses ? std::string("Workers that pause now and then")
                                                  : fmt::format("One worker {:g}× slower", slower),
                                to_svg(curves), ""});
  }
}

Judgement Stragglers::judge(const std::vector<RunFigures>& runs) const {
  const Times times = times_of(runs);
  Judgement judgement;
  judgement.findings = findings_of(times);
  judgement.findings.push_back(managed_finding(times));
  judgement.tables.push_back(table_of(times));
  add_charts(times, judgement);
  return judgement;
}

}  // namespace
}  // namespace experiment_stragglers

std::unique_ptr<Experiment> make_stragglers_experiment() {
  return std::make_unique<experiment_stragglers::Stragglers>();
}

}  // namespace verbena::apps
