// `verbena experiment convergence`: what a looser consistency model costs and gains: the objective per
// iteration and per second, and how large a staleness may be.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "apps/experiment/experiment.hpp"
#include "apps/report/format.hpp"
#include "apps/report/svg_chart.hpp"

namespace verbena::apps {
namespace experiment_convergence {
namespace {

struct Trained {
  std::string_view application;
  /// The first model is the one with which the others are compared. VAP's bound is in the units of the
  /// application.
  std::vector<std::string> models;
};
const std::vector<Trained>& trained() {
  static const std::vector<Trained> kTrained = {
      {"mf", {"bsp", "ssp:1", "essp:1", "bounded-delay:1", "a-bsp", "asp", "sequential", "vap:1"}},
      {"lda", {"bsp", "ssp:1", "essp:1", "bounded-delay:1", "a-bsp", "asp", "sequential", "vap:10000"}},
  };
  return kTrained;
}
constexpr std::array<std::uint32_t, 3> kLargeStaleness = {4, 16, 64};

constexpr auto kRatingTime = std::chrono::nanoseconds(250);
constexpr auto kTokenTime = std::chrono::nanoseconds(500);

constexpr double kGoal = 0.95;  // of BSP's way
// How much two runs of the same kind differ:
constexpr double kNoiseOfTimes = 0.1;
constexpr double kNoiseOfEnds = 0.02;    // of BSP's way
constexpr double kSameObjective = 0.05;  // of BSP's way

class Convergence final : public Experiment {
 public:
  [[nodiscard]] std::string_view name() const override { return "convergence"; }
  [[nodiscard]] std::string_view description() const override {
    return "objective per iteration and per second, LDA and MF, all models; and a large s";
  }
  [[nodiscard]] std::string_view method() const override {
    return "Each model trains the same factorization and the same topics from the same start, as many "
           "iterations as BSP. The goal is 95 % of the way that BSP's objective goes from its first "
           "evaluation to its last. Seconds are those of training, without evaluation; each rating takes 250 "
           "ns and each "
           "token 500 ns, whatever they take here. All workers meet at "
           "each evaluation, whatever the model: every 4 iterations in mf, 5 in lda. In mf an iteration is "
           "20 clocks of four workers, "
           "for every model and s; in lda it is as many as there are workers, times s + 1.";
  }
  [[nodiscard]] bool needs_documents() const override { return true; }
  [[nodiscard]] std::vector<PlannedRun> plan(const ExperimentOptions& options) const override;
  [[nodiscard]] Judgement judge(const std::vector<RunFigures>& runs) const override;
};

PlannedRun plan_one(const ExperimentOptions& options, std::string_view application,
                    const std::string& model) {
  PlannedRun run = plan_run(options, application, model, application == "mf" ? kRatingTime : kTokenTime);
  const bool mf = application == "mf";
  add_arguments(run, {fmt::format("--iterations={}", iterations_of(options, mf ? 40 : 100)),
                      fmt::format("--evaluate-every={}", mf ? 4 : 5)});
  add_arguments(run, mf ? factorization_arguments(options)
                        : std::vector<std::string>{"--topics=50", "--stop-words=english", "--top-words=0",
                                                   "--allocation=static"});
  return run;
}

std::vector<std::string> eager_and_lazy(std::uint32_t staleness) {
  return {fmt::format("ssp:{}", staleness), fmt::format("essp:{}", staleness)};
}

std::vector<PlannedRun> Convergence::plan(const ExperimentOptions& options) const {
  std::vector<PlannedRun> runs;
  for (const auto& [application, models] : trained()) {
    for (const std::string& model : models_of(options, models)) {
      runs.push_back(plan_one(options, application, model));
    }
    if (!options.models.empty()) continue;  // the user asked for certain models only
    for (const std::uint32_t staleness : kLargeStaleness) {
      for (const std::string& model : eager_and_lazy(staleness)) {
        runs.push_back(plan_one(options, application, model));
      }
    }
  }
  return runs;
}

/// The runs of one application, and what they are compared with.
struct Compared {
  const std::vector<RunFigures>& all;
  std::string_view application;
  const RunFigures* bsp = nullptr;
  std::optional<Target> goal;

  [[nodiscard]] const RunFigures* of(const std::string& model) const {
    return find_run(all, application, model);
  }
};

Compared compare(const std::vector<RunFigures>& runs, std::string_view application) {
  Compared compared{.all = runs, .application = application, .bsp = find_run(runs, application, "bsp")};
  if (compared.bsp != nullptr) compared.goal = target_of(*compared.bsp, kGoal);
  return compared;
}

Finding judge_end(const Compared& runs, const RunFigures& run) {
  Finding finding{.expectation =
                      fmt::format("{}: {} ends within {:.0f} % of BSP's way of where BSP ends",
                                  runs.application, run.planned.consistency, 100 * kSameObjective)};
  if (!run.failure.empty()) {
    finding.found = run.failure;
    finding.verdict = Verdict::kDidNotHold;
    return finding;
  }
  const auto ahead = runs.goal ? ahead_in_the_end(run, *runs.bsp, *runs.goal) : std::nullopt;
  if (!ahead) {
    finding.found = "BSP itself failed";
    return finding;
  }
  finding.found = fmt::format("{} {} against {}: {:.1f} % of the way {}", run.objective,
                              format_objective(by_iteration(run).back().second),
                              format_objective(by_iteration(*runs.bsp).back().second), 100 * std::abs(*ahead),
                              *ahead < 0 ? "behind" : "ahead");
  finding.verdict = verdict_of(*ahead >= -kSameObjective);
  return finding;
}

Finding judge_time(const Compared& runs, std::uint32_t staleness) {
  Finding finding{.expectation = fmt::format("{}: ESSP({}) is not slower to the goal than SSP({})",
                                             runs.application, staleness, staleness)};
  const std::vector<std::string> models = eager_and_lazy(staleness);
  const RunFigures* lazy = runs.of(models[0]);
  const RunFigures* eager = runs.of(models[1]);
  if (lazy == nullptr || eager == nullptr || !runs.goal) {
    finding.found = "one of the runs failed";
    return finding;
  }
  const auto lazy_seconds = seconds_to(*lazy, *runs.goal);
  const auto eager_seconds = seconds_to(*eager, *runs.goal);
  finding.found = fmt::format("ESSP {}, SSP {} (differences of {:.0f} % are noise)",
                              seconds_text(eager_seconds), seconds_text(lazy_seconds), 100 * kNoiseOfTimes);
  if (!lazy_seconds && !eager_seconds) return finding;
  const bool held = eager_seconds && (!lazy_seconds || *eager_seconds <= (1 + kNoiseOfTimes) * *lazy_seconds);
  finding.verdict = verdict_of(held);
  return finding;
}

Finding judge_robustness(const Compared& runs, std::uint32_t staleness) {
  Finding finding{
      .expectation = fmt::format(
          "{}, s = {}: ESSP ends no farther behind BSP than SSP does ({:.0f} % of the way are noise)",
          runs.application, staleness, 100 * kNoiseOfEnds)};
  const std::vector<std::string> models = eager_and_lazy(staleness);
  const RunFigures* lazy = runs.of(models[0]);
  const RunFigures* eager = runs.of(models[1]);
  if (eager == nullptr) {
    finding.found = "ESSP failed";
    finding.verdict = lazy != nullptr ? Verdict::kDidNotHold : Verdict::kNotSeen;
    return finding;
  }
  if (lazy == nullptr) {
    finding.found = "SSP failed, ESSP did not";
    finding.verdict = Verdict::kHeld;
    return finding;
  }
  const auto ahead = [&](const RunFigures& run) {
    return runs.goal ? ahead_in_the_end(run, *runs.bsp, *runs.goal) : std::nullopt;
  };
  const auto eager_ahead = ahead(*eager);
  const auto lazy_ahead = ahead(*lazy);
  if (!eager_ahead || !lazy_ahead) {
    finding.found = "BSP itself failed";
    return finding;
  }
  finding.found =
      fmt::format("of BSP's way: ESSP {:+.2f} %, SSP {:+.2f} %", 100 * *eager_ahead, 100 * *lazy_ahead);
  finding.verdict = verdict_of(*eager_ahead >= *lazy_ahead - kNoiseOfEnds);
  return finding;
}

bool has_staleness(const RunFigures& run, std::uint32_t staleness) {
  for (const std::string& model : eager_and_lazy(staleness)) {
    if (run.planned.consistency == model) return true;
  }
  return false;
}

bool is_large(const RunFigures& run) {
  for (const std::uint32_t staleness : kLargeStaleness) {
    if (has_staleness(run, staleness)) return true;
  }
  return false;
}

void add_charts(const Compared& runs, Judgement& judgement) {
  const auto chart = [&](const char* x_label, bool large, Points (*points)(const RunFigures&)) {
    CurveChart curves{.x_label = x_label, .y_label = "objective", .series = {}};
    for (const RunFigures& run : runs.all) {
      if (run.planned.application != runs.application || is_large(run) != large || !run.failure.empty()) {
        continue;
      }
      curves.y_label = run.objective;
      curves.series.push_back({.label = run.planned.consistency,
                               .points = points(run),
                               .dashed = curves.series.size() >= kSeriesColours});
    }
    return curves;
  };
  const std::string application(runs.application);
  const CurveChart by_iterations = chart("iteration", false, by_iteration);
  judgement.charts.push_back({application + ": objective per iteration", to_svg(by_iterations), ""});
  judgement.charts.push_back(
      {application + ": objective per second", to_svg(chart("seconds of training", false, by_second)), ""});
  const CurveChart large = chart("iteration", true, by_iteration);
  if (large.series.empty()) return;
  judgement.charts.push_back({application + ": objective per iteration, large s", to_svg(large), ""});
}

void add_rows(const Compared& runs, ReportTable& table) {
  for (const RunFigures& run : runs.all) {
    if (run.planned.application != runs.application || !run.failure.empty()) continue;
    const Points points = by_iteration(run);
    const auto ahead = runs.goal ? ahead_in_the_end(run, *runs.bsp, *runs.goal) : std::nullopt;
    const auto seconds = runs.goal ? seconds_to(run, *runs.goal) : std::nullopt;
    const auto mean = mean_clock_differential(run);
    table.rows.push_back({run.planned.application, run.planned.consistency,
                          points.empty() ? "–" : format_objective(points.back().second),
                          ahead ? fmt::format("{:+.2f} %", 100 * *ahead + 0.0) : "–", seconds_text(seconds),
                          format_seconds(run.training_seconds), mean ? fmt::format("{:.2f}", *mean) : "–",
                          format_share(run.share_waited)});
  }
}

Judgement Convergence::judge(const std::vector<RunFigures>& runs) const {
  Judgement judgement;
  ReportTable table{.title = "Convergence",
                    .head = {"", "model", "objective", "ahead of BSP", "to the goal", "training",
                             "mean differential", "waited"},
                    .rows = {}};
  for (const Trained& each : trained()) {
    const std::string_view application = each.application;
    const Compared compared = compare(runs, application);
    for (const RunFigures& run : runs) {
      const bool measured = run.planned.application == application && run.planned.consistency != "bsp";
      if (measured && !is_large(run)) judgement.findings.push_back(judge_end(compared, run));
    }
    constexpr std::uint32_t kUsual = 1;
    const auto is_there = [&](std::uint32_t staleness) {
      for (const RunFigures& run : runs) {
        if (run.planned.application == application && has_staleness(run, staleness)) return true;
      }
      return false;
    };
    if (is_there(kUsual)) judgement.findings.push_back(judge_time(compared, kUsual));
    for (const std::uint32_t staleness : kLargeStaleness) {
      if (is_there(staleness)) judgement.findings.push_back(judge_robustness(compared, staleness));
    }
    add_charts(compared, judgement);
    add_rows(compared, table);
  }
  judgement.tables.push_back(std::move(table));
  return judgement;
}

}  // namespace
}  // namespace experiment_convergence

std::unique_ptr<Experiment> make_convergence_experiment() {
  return std::make_unique<experiment_convergence::Convergence>();
}

}  // namespace verbena::apps
