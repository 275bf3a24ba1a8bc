// `verbena experiment staleness`: how old the rows are that a worker reads; compares SSP with ESSP.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "apps/experiment/experiment.hpp"
#include "apps/report/format.hpp"
#include "apps/report/svg_chart.hpp"

namespace verbena::apps {
namespace experiment_staleness {
namespace {

constexpr std::array<std::uint32_t, 4> kStaleness = {1, 2, 4, 8};
constexpr std::int64_t kIterations = 50;
constexpr auto kRatingTime = std::chrono::microseconds(1);  // of a rating

std::string model(std::string_view name, std::uint32_t staleness) {
  return fmt::format("{}:{}", name, staleness);
}

class Staleness final : public Experiment {
 public:
  [[nodiscard]] std::string_view name() const override { return "staleness"; }
  [[nodiscard]] std::string_view description() const override {
    return "how old what a worker reads is: SSP against ESSP, s = 1, 2, 4, 8";
  }
  [[nodiscard]] std::string_view method() const override {
    return "Matrix factorization in which every worker reads every row at each clock, as the papers have it. "
           "Each read's clock differential is counted: the newest clock surely included minus the reader's "
           "clock, −1 at best and −1 − s at worst. Each rating takes 1 µs, whatever it takes here. SSP keeps "
           "a row until it is too old and then fetches it; "
           "ESSP is sent each changed row as soon as all workers have finished a clock.";
  }
  [[nodiscard]] bool compares_models() const override { return false; }
  [[nodiscard]] std::vector<PlannedRun> plan(const ExperimentOptions& options) const override;
  [[nodiscard]] Judgement judge(const std::vector<RunFigures>& runs) const override;
};

std::vector<PlannedRun> Staleness::plan(const ExperimentOptions& options) const {
  const std::int64_t iterations = iterations_of(options, kIterations);
  std::vector<PlannedRun> runs;
  for (const std::uint32_t staleness : kStaleness) {
    for (const std::string_view name : {"ssp", "essp"}) {
      PlannedRun run = plan_run(options, "mf", model(name, staleness), kRatingTime);
      // All workers train the same items at the same time, the popular ones many times a clock: that needs
      // tiny steps. The objective is evaluated only once, because evaluating reads rows. Long rows are read
      // in several lots all over a clock.
      add_arguments(
          run, {fmt::format("--iterations={}", iterations), fmt::format("--evaluate-every={}", iterations),
                "--clocks-per-iteration=1", "--rank=256", "--learning-rate=0.00002", "--decay=1"});
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

std::optional<double> mean_of(const RunFigures* run) {
  if (run == nullptr) return std::nullopt;
  return mean_clock_differential(*run);
}

Finding judge_mean(std::uint32_t staleness, const RunFigures* ssp, const RunFigures* essp) {
  Finding finding{
      .expectation = fmt::format("s = {}: ESSP's mean clock differential is strictly closer to −1 than SSP's",
                                 staleness)};
  const auto lazy = mean_of(ssp);
  const auto eager = mean_of(essp);
  if (!lazy || !eager) {
    finding.found = "one of the two runs failed";
    return finding;
  }
  finding.found = fmt::format("ESSP {:.3f}, SSP {:.3f}", *eager, *lazy);
  finding.verdict = verdict_of(*eager > *lazy);
  return finding;
}

Finding judge_fresh_end(std::uint32_t staleness, const RunFigures* ssp, const RunFigures* essp) {
  Finding finding{.expectation = fmt::format(
                      "s = {}: ESSP's reads are concentrated at the fresh end (more than half at −1), SSP's "
                      "are spread over the window",
                      staleness)};
  if (ssp == nullptr || essp == nullptr) {
    finding.found = "one of the two runs failed";
    return finding;
  }
  const double lazy = share_of_reads(*ssp, 0);
  const double eager = share_of_reads(*essp, 0);
  finding.found = fmt::format("at −1: ESSP {}, SSP {}", format_share(eager), format_share(lazy));
  finding.verdict = verdict_of(eager > 0.5 && eager > lazy);
  return finding;
}

/// How the means change with s.
Finding judge_growth(const std::vector<RunFigures>& runs) {
  Finding finding{.expectation =
                      "as s grows, SSP's reads grow older; ESSP's do not keep pace: at s = 8 they are less "
                      "than half as far from −1"};
  const auto mean = [&](std::string_view name, std::uint32_t staleness) {
    return mean_of(find_run(runs, "mf", model(name, staleness)));
  };
  const auto first = mean("ssp", kStaleness.front());
  const auto lazy = mean("ssp", kStaleness.back());
  const auto eager = mean("essp", kStaleness.back());
  if (!first || !lazy || !eager) {
    finding.found = "one of the runs failed";
    return finding;
  }
  finding.found = fmt::format("SSP from {:.3f} to {:.3f}, ESSP to {:.3f}", *first, *lazy, *eager);
  const bool held = *lazy < *first && -1 - *eager < (-1 - *lazy) / 2;
  finding.verdict = verdict_of(held);
  return finding;
}

ReportChart distribution(std::uint32_t staleness, const RunFigures* ssp, const RunFigures* essp) {
  BarChart chart{.title = fmt::format("share of reads by clock differential, s = {}", staleness)};
  for (std::size_t lag = 0; lag <= staleness; ++lag) {
    for (const auto& [name, run] : {std::pair("essp", essp), std::pair("ssp", ssp)}) {
      if (run == nullptr) continue;
      const double share = share_of_reads(*run, lag);
      chart.bars.push_back({fmt::format("−{} {}", lag + 1, name), share, format_share(share)});
    }
  }
  return {fmt::format("Reads by clock differential, s = {}", staleness), to_svg(chart), ""};
}

Judgement Staleness::judge(const std::vector<RunFigures>& runs) const {
  Judgement judgement;
  ReportTable table{.title = "Clock differentials",
                    .head = {"model", "mean", "at −1", "at −2", "older", "rows read", "waited"},
                    .rows = {}};
  CurveChart means{.x_label = "s", .y_label = "mean clock differential", .series = {}};
  for (const std::string_view name : {"ssp", "essp"}) {
    Series series{.label = std::string(name), .points = {}};
    for (const std::uint32_t staleness : kStaleness) {
      const auto mean = mean_of(find_run(runs, "mf", model(name, staleness)));
      if (mean) series.points.emplace_back(staleness, *mean);
    }
    means.series.push_back(std::move(series));
  }
  judgement.charts.push_back({"Mean clock differential by s", to_svg(means), "−1 is the freshest there is."});
  for (const std::uint32_t staleness : kStaleness) {
    const RunFigures* ssp = find_run(runs, "mf", model("ssp", staleness));
    const RunFigures* essp = find_run(runs, "mf", model("essp", staleness));
    judgement.findings.push_back(judge_mean(staleness, ssp, essp));
    judgement.findings.push_back(judge_fresh_end(staleness, ssp, essp));
    judgement.charts.push_back(distribution(staleness, ssp, essp));
  }
  judgement.findings.push_back(judge_growth(runs));
  for (const RunFigures& run : runs) {
    const auto mean = mean_clock_differential(run);
    if (!mean) continue;  // the run failed, which is reported elsewhere
    double reads = 0;
    for (const std::uint64_t count : run.reads_by_lag) reads += static_cast<double>(count);
    const double newest = share_of_reads(run, 0);
    const double next = share_of_reads(run, 1);
    table.rows.push_back({run.planned.consistency, fmt::format("{:.3f}", *mean), format_share(newest),
                          format_share(next), format_share(std::abs(1 - newest - next)), format_count(reads),
                          format_share(run.share_waited)});
  }
  judgement.tables.push_back(std::move(table));
  return judgement;
}

}  // namespace
}  // namespace experiment_staleness

std::unique_ptr<Experiment> make_staleness_experiment() {
  return std::make_unique<experiment_staleness::Staleness>();
}

}  // namespace verbena::apps
