#include "apps/experiment/experiment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/report/format.hpp"

namespace verbena::apps {

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHeld:
      return "held";
    case Verdict::kDidNotHold:
      return "DID NOT HOLD";
    case Verdict::kNotSeen:
      break;
  }
  return "not seen";
}

PlannedRun plan_run(const ExperimentOptions& options, std::string_view application, const std::string& model,
                    std::chrono::nanoseconds item_time) {
  if (options.item_time > item_time.zero()) item_time = options.item_time;
  PlannedRun run{
      .label = fmt::format("{} {}", application, model),
      .application = std::string(application),
      .consistency = model,
      .arguments = {std::string(application), fmt::format("--servers={}", options.servers),
                    fmt::format("--workers={}", options.workers), fmt::format("--consistency={}", model),
                    "--read-path=cached", fmt::format("--seed={}", options.seed)}};
  add_arguments(run,
                {fmt::format("--data={}", data_of(options, application)), item_time_argument(item_time)});
  if (!options.network.empty()) run.arguments.push_back(fmt::format("--network={}", options.network));
  return run;
}

void add_arguments(PlannedRun& run, const std::vector<std::string>& arguments) {
  run.arguments.insert(run.arguments.end(), arguments.begin(), arguments.end());
}

const std::string& data_of(const ExperimentOptions& options, std::string_view application) {
  if (application == "kge") return options.triples;
  if (application == "ctr" || application == "sketch") return options.examples;
  return application == "lda" || application == "word2vec" ? options.documents : options.ratings;
}

std::int64_t iterations_of(const ExperimentOptions& options, std::int64_t usual) {
  return options.iterations > 0 ? options.iterations : usual;
}

std::vector<std::string> training_arguments(const ExperimentOptions& options, const std::string& application,
                                            const std::string& data, std::int64_t iterations,
                                            std::int64_t evaluations) {
  std::vector<std::string> arguments = {application, fmt::format("--data={}", data)};
  const std::string every =
      fmt::format("--evaluate-every={}", std::max<std::int64_t>(iterations / evaluations, 1));
  if (application == "sketch") {  // which draws no numbers, and has so many iterations as it has
    arguments.push_back(every);
    return arguments;
  }
  arguments.push_back(fmt::format("--seed={}", options.seed));
  if (application == "ctr") {
    arguments.insert(arguments.end(), {fmt::format("--passes={}", iterations), "--test-fraction=0"});
  } else {
    arguments.insert(arguments.end(), {fmt::format("--iterations={}", iterations), every});
  }
  return arguments;
}

std::vector<std::uint32_t> doubled_up_to(std::uint32_t most) {
  std::vector<std::uint32_t> counts;
  for (std::uint32_t count = 1; count < most; count *= 2) counts.push_back(count);
  counts.push_back(most);
  return counts;
}

std::string item_time_argument(std::chrono::nanoseconds item_time) {
  return fmt::format("--slow=worker=all,item={}ns", item_time.count());
}

std::vector<std::string> factorization_arguments(const ExperimentOptions& options) {
  constexpr std::uint32_t kBlocksPerWorker = 5;
  return {fmt::format("--clocks-per-iteration={}", kBlocksPerWorker * options.workers), "--rank=64",
          "--learning-rate=0.01", "--decay=1", "--allocation=static"};
}

std::vector<std::string> models_of(const ExperimentOptions& options, const std::vector<std::string>& models) {
  return options.models.empty() ? models : options.models;
}

namespace {

template <class X>
Points points_of(const RunFigures& run, const X& x) {
  Points points;
  for (const IterationRecord& iteration : run.iterations) {
    const auto value = iteration.objectives.find(run.objective);
    if (value != iteration.objectives.end() && std::isfinite(value->second)) {
      points.emplace_back(x(iteration), value->second);
    }
  }
  return points;
}

}  // namespace

Points by_iteration(const RunFigures& run) {
  return points_of(run, [](const IterationRecord& record) { return static_cast<double>(record.iteration); });
}

Points by_second(const RunFigures& run) {
  return points_of(run, [](const IterationRecord& record) { return record.training_seconds; });
}

const RunFigures* find_run(const std::vector<RunFigures>& runs, std::string_view application,
                           std::string_view model, double straggler, double budget_mb_per_s) {
  for (const RunFigures& run : runs) {
    const PlannedRun& planned = run.planned;
    if (planned.application == application && planned.consistency == model &&
        planned.straggler == straggler && planned.budget_mb_per_s == budget_mb_per_s) {
      return run.failure.empty() ? &run : nullptr;
    }
  }
  return nullptr;
}

std::optional<Target> target_of(const RunFigures& run, double share) {
  const Points points = by_iteration(run);
  if (points.size() < 2) return std::nullopt;
  const double way = points.back().second - points.front().second;
  if (way == 0) return std::nullopt;
  return Target{.objective = points.front().second + share * way, .way = way};
}

std::optional<double> seconds_to(const Points& points, const Target& target) {
  const double sign = target.way < 0 ? -1 : 1;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto& [seconds, objective] = points[i];
    if (sign * (objective - target.objective) < 0) continue;
    if (i == 0) return seconds;
    const auto& [before_seconds, before] = points[i - 1];
    return before_seconds + (seconds - before_seconds) * (target.objective - before) / (objective - before);
  }
  return std::nullopt;
}

std::optional<double> ahead_in_the_end(const RunFigures& run, const RunFigures& measure,
                                       const Target& target) {
  const Points own = by_iteration(run);
  const Points measures = by_iteration(measure);
  if (own.empty() || measures.empty()) return std::nullopt;
  return (own.back().second - measures.back().second) / target.way;
}

std::optional<double> mean_clock_differential(const RunFigures& run) {
  return mean_clock_differential(StalenessHistogram{run.reads_by_lag});
}

double share_of_reads(const RunFigures& run, std::size_t lag) {
  const double all = static_cast<double>(
      std::accumulate(run.reads_by_lag.begin(), run.reads_by_lag.end(), std::uint64_t{0}));
  return all > 0 && lag < run.reads_by_lag.size() ? static_cast<double>(run.reads_by_lag[lag]) / all : 0;
}

Verdict verdict_of(bool held) {
  return held ? Verdict::kHeld : Verdict::kDidNotHold;
}

std::string times_text(const std::optional<double>& times) {
  return times ? fmt::format("{:.2f}×", *times) : "–";
}

std::string seconds_text(const std::optional<double>& seconds) {
  return seconds ? format_seconds(*seconds) : "never";
}

}  // namespace verbena::apps
