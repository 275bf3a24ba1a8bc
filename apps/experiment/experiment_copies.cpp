// `verbena experiment copies`: what copies of servers cost under BSP, beside the same job without them.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "apps/experiment/experiment.hpp"
#include "apps/experiment/other_build.hpp"
#include "apps/experiment/rounds.hpp"
#include "apps/report/format.hpp"
#include "apps/report/svg_chart.hpp"
#include "base/cores.hpp"

namespace verbena::apps {
namespace experiment_copies {
namespace {

constexpr std::uint32_t kRounds = 3;  // other work on the host may disturb one run
constexpr std::uint32_t kMostWorkers = 4;

constexpr double kMostWithCopy = 1.25;    // an iteration's time, in parts of that without copies
constexpr double kMostWithBefore = 1.02;  // without copies, in parts of another build's
/// Of what workers push: each copy gets it, and some bytes with each message.
constexpr double kMostBytes = 1.1;

/// What is trained: runs of a second or so.
struct CopiedTask {
  const char* application;
  std::int64_t iterations;
  std::vector<std::string> arguments;
};

std::vector<CopiedTask> copied_tasks() {
  return {{"lda", 40, {"--topics=50", "--stop-words=english", "--top-words=0", "--allocation=static"}},
          {"mf", 40, {"--rank=16", "--allocation=static"}},
          {"ctr", 3, {"--solver=ftrl"}}};
}

class Copies final : public Experiment {
 public:
  [[nodiscard]] std::string_view name() const override { return "copies"; }
  [[nodiscard]] std::string_view description() const override {
    return "what copies of servers cost: jobs under BSP, with --replicas and without";
  }
  [[nodiscard]] std::string_view method() const override {
    return "lda, mf (rank 16) and ctr (ftrl) under BSP with one server and 1, 2, 4, … workers up to "
           "--workers: "
           "without copies, and with --replicas copies of the server. The two are run by turns, in rounds; a "
           "ratio is taken within a round, and shown are the middle one and the least and the largest. Time "
           "is that of the median iteration, the first one left out, evaluation not included. Processor "
           "time is what all processes of the run have used in all, with their start and with reading the "
           "data, as their parent is told when they end: the copies' share is what one copy more asks of "
           "the host, and how busy the cores were shows whether the host had it to give. Where they were "
           "busy without copies, a copy takes processor time from the others, and the ratio of times is the "
           "host's more than the protocol's. Bytes are those of the messages with the workers' updates, and "
           "those of the records that went to copies. With --before another build is run without copies, "
           "too: what their mere possibility costs.";
  }
  [[nodiscard]] bool needs_documents() const override { return true; }
  [[nodiscard]] bool needs_examples() const override { return true; }
  [[nodiscard]] bool compares_models() const override { return false; }
  [[nodiscard]] bool compares_copies() const override { return true; }
  [[nodiscard]] bool makes_rounds() const override { return true; }
  void set_defaults(ExperimentOptions& options) const override {
    options.servers = 1;
    options.workers = kMostWorkers;
    options.replicas = 1;
  }
  void complete(ExperimentOptions& options) const override {
    if (options.rounds == 0) options.rounds = kRounds;
  }
  [[nodiscard]] std::vector<PlannedRun> plan(const ExperimentOptions& options) const override;
  [[nodiscard]] Judgement judge(const std::vector<RunFigures>& runs) const override;
};

PlannedRun plan_copied(const ExperimentOptions& options, const CopiedTask& task, std::uint32_t workers,
                       std::uint32_t replicas) {
  PlannedRun run{
      .label = fmt::format("{}, {} worker{}, {} cop{}", task.application, workers, workers == 1 ? "" : "s",
                           replicas, replicas == 1 ? "y" : "ies"),
      .application = task.application,
      .task = task.application,
      .workers = workers,
      .replicas = replicas,
      .consistency = "bsp",
      .arguments = training_arguments(options, task.application, data_of(options, task.application),
                                      iterations_of(options, task.iterations))};
  add_arguments(run, task.arguments);
  add_arguments(run, {"--consistency=bsp", fmt::format("--servers={}", options.servers),
                      fmt::format("--workers={}", workers)});
  if (replicas > 0) add_arguments(run, {fmt::format("--replicas={}", replicas)});
  if (options.item_time.count() > 0) add_arguments(run, {item_time_argument(options.item_time)});
  if (!options.network.empty()) add_arguments(run, {fmt::format("--network={}", options.network)});
  return run;
}

std::vector<PlannedRun> Copies::plan(const ExperimentOptions& options) const {
  std::vector<PlannedRun> runs;
  for (const CopiedTask& task : copied_tasks()) {
    for (const std::uint32_t workers : doubled_up_to(options.workers)) {
      for (std::uint32_t round = 1; round <= options.rounds; ++round) {
        const auto add = [&](PlannedRun run) {
          run.round = round;
          if (round > 1) run.label += fmt::format(", round {}", round);
          runs.push_back(std::move(run));
        };
        const PlannedRun without = plan_copied(options, task, workers, 0);
        if (!options.before.empty()) add(by_other_build(without, options.before));
        add(without);
        add(plan_copied(options, task, workers, options.replicas));
      }
    }
  }
  return runs;
}

/// The median iteration but the first; nullopt: there is none.
std::optional<double> seconds_an_iteration(const RunFigures& run) {
  std::vector<double> seconds;
  const std::size_t first = run.iterations.size() > 1 ? 1 : 0;
  for (std::size_t i = first; i < run.iterations.size(); ++i) {
    const IterationRecord& each = run.iterations[i];
    if (each.seconds > 0 && each.items > 0) seconds.push_back(each.seconds);
  }
  return median(std::move(seconds));
}

double copies_share(const RunFigures& run) {
  const double all = run.processor_time.all_seconds();
  return all > 0 ? run.processor_time.copies_seconds / all : 0;
}

/// Of the cores that this host has for the run, on average.
double busy_share(const RunFigures& run) {
  const double had = run.elapsed_seconds * base::cores_at_hand();
  return had > 0 ? run.processor_time.all_seconds() / had : 0;
}

/// What one run of a round is in parts of another one.
struct Spread {
  double middle = 0;
  double least = 0;
  double most = 0;
};

/// The runs of one task with so many workers: those with copies, without, and of another build.
class Comparison {
 public:
  Comparison(const std::vector<RunFigures>& runs, const PlannedRun& like) : like_(like) {
    for (const RunFigures& run : runs) {
      const PlannedRun& planned = run.planned;
      if (planned.task != like.task || planned.workers != like.workers) continue;
      copies_ = std::max(copies_, planned.replicas);
      has_before_ |= planned.peer != nullptr;
      if (!run.failure.empty()) continue;
      (planned.peer != nullptr ? before_ : planned.replicas > 0 ? with_ : without_).push_back(&run);
    }
  }
  [[nodiscard]] const std::string& task() const { return like_.task; }
  [[nodiscard]] std::uint32_t copies() const { return copies_; }
  [[nodiscard]] bool has_before() const { return has_before_; }
  [[nodiscard]] std::uint32_t workers() const { return like_.workers; }
  [[nodiscard]] std::string workers_text() const {
    return fmt::format("{} worker{}", workers(), workers() == 1 ? "" : "s");
  }
  [[nodiscard]] std::optional<Spread> times() const { return spread(with_, without_, seconds_an_iteration); }
  [[nodiscard]] std::optional<Spread> times_of_before() const {
    return spread(without_, before_, seconds_an_iteration);
  }
  [[nodiscard]] std::optional<Spread> processor_times() const {
    return spread(with_, without_, [](const RunFigures& run) {
      const double seconds = run.processor_time.all_seconds();
      return seconds > 0 ? std::optional(seconds) : std::nullopt;
    });
  }
  [[nodiscard]] std::optional<double> seconds_without() const {
    return median_of(without_, seconds_an_iteration);
  }
  [[nodiscard]] std::optional<double> copies_part() const { return median_of(with_, copies_share); }
  [[nodiscard]] std::optional<double> busy_with() const { return median_of(with_, busy_share); }
  [[nodiscard]] std::optional<double> busy_without() const { return median_of(without_, busy_share); }
  [[nodiscard]] std::optional<double> pushed_bytes() const {
    return median_of(with_, [](const RunFigures& run) { return static_cast<double>(run.update_bytes); });
  }
  [[nodiscard]] std::optional<double> copied_bytes() const {
    return median_of(with_, [](const RunFigures& run) { return static_cast<double>(run.bytes_to_copies); });
  }
  /// What went to copies, in parts of what workers have pushed.
  [[nodiscard]] std::optional<double> share_copied() const {
    const std::optional<double> pushed = pushed_bytes();
    if (!pushed || *pushed <= 0) return std::nullopt;
    return *copied_bytes() / *pushed;
  }

 private:
  using Runs = std::vector<const RunFigures*>;
  template <class Figure>
  static std::optional<Spread> spread(const Runs& runs, const Runs& others, const Figure& figure) {
    std::vector<double> ratios;
    for (const RunFigures* const run : runs) {
      for (const RunFigures* const other : others) {
        if (run->planned.round != other->planned.round) continue;
        const std::optional<double> ours = figure(*run);
        const std::optional<double> theirs = figure(*other);
        if (ours && theirs && *theirs > 0) ratios.push_back(*ours / *theirs);
      }
    }
    if (ratios.empty()) return std::nullopt;
    const auto [least, most] = std::ranges::minmax(ratios);
    return Spread{.middle = *median(ratios), .least = least, .most = most};
  }
  template <class Figure>
  static std::optional<double> median_of(const Runs& runs, const Figure& figure) {
    std::vector<double> all;
    for (const RunFigures* const run : runs) {
      if (const std::optional<double> one = figure(*run)) all.push_back(*one);
    }
    return median(std::move(all));
  }

  PlannedRun like_;
  std::uint32_t copies_ = 0;
  bool has_before_ = false;
  Runs with_;
  Runs without_;
  Runs before_;
};

std::vector<Comparison> comparisons_of(const std::vector<RunFigures>& runs) {
  std::vector<Comparison> comparisons;
  std::set<std::pair<std::string, std::uint32_t>> seen;
  for (const RunFigures& run : runs) {
    if (seen.emplace(run.planned.task, run.planned.workers).second)
      comparisons.emplace_back(runs, run.planned);
  }
  return comparisons;
}

constexpr const char* kNoSuchRuns = "there are no such runs, or they failed";

Finding judge_times(std::string expectation, const std::optional<Spread>& times, double most) {
  Finding finding{.expectation = std::move(expectation), .found = kNoSuchRuns};
  if (!times) return finding;
  finding.found = fmt::format("{:.2f} times as long, in single rounds {:.2f} to {:.2f}", times->middle,
                              times->least, times->most);
  finding.verdict = verdict_of(times->middle <= most);
  return finding;
}

Finding judge_copies(const Comparison& each) {
  Finding finding = judge_times(
      fmt::format("{}, {}: with {} an iteration takes at most {:g} times as long", each.task(),
                  each.workers_text(),
                  each.copies() == 1 ? "a copy" : fmt::format("{} copies", each.copies()), kMostWithCopy),
      each.times(), kMostWithCopy);
  if (finding.verdict != Verdict::kNotSeen)
    finding.found += fmt::format(
        "; copies used {} of the processor time, the cores were {} busy, without "
        "copies {}",
        format_share(each.copies_part().value_or(0)), format_share(each.busy_with().value_or(0)),
        format_share(each.busy_without().value_or(0)));
  return finding;
}

Finding judge_bytes(const Comparison& each) {
  const double most = kMostBytes * each.copies();
  Finding finding{.expectation = fmt::format(
                      "{}, {}: at most {:g} times the bytes of the updates that workers push go to "
                      "copies",
                      each.task(), each.workers_text(), most),
                  .found = kNoSuchRuns};
  const std::optional<double> share = each.share_copied();
  if (!share) return finding;
  finding.found = fmt::format("{:.3f} times", *share);
  finding.verdict = verdict_of(*share <= most);
  return finding;
}

std::string number_text(const std::optional<double>& number, int digits, double unit = 1) {
  return number ? fmt::format("{:.{}f}", *number / unit, digits) : "–";
}
std::string share_text(const std::optional<double>& share) {
  return share ? format_share(*share) : "–";
}
std::string bounds_text(const std::optional<Spread>& spread) {
  return spread ? fmt::format("{:.2f} – {:.2f}", spread->least, spread->most) : "–";
}
std::string middle_text(const std::optional<Spread>& spread) {
  return spread ? times_text(spread->middle) : "–";
}

ReportTable copies_table(const std::vector<Comparison>& comparisons) {
  ReportTable table{.title = "An iteration with copies, and what it takes, in parts of one without",
                    .head = {"task", "workers", "ms without", "time", "rounds", "processor time",
                             "copies' share", "cores busy", "without", "MB pushed", "MB to copies", "bytes"},
                    .rows = {}};
  for (const Comparison& each : comparisons) {
    table.rows.push_back({each.task(), std::to_string(each.workers()),
                          number_text(each.seconds_without(), 2, 1e-3), middle_text(each.times()),
                          bounds_text(each.times()), middle_text(each.processor_times()),
                          share_text(each.copies_part()), share_text(each.busy_with()),
                          share_text(each.busy_without()), number_text(each.pushed_bytes(), 1, 1e6),
                          number_text(each.copied_bytes(), 1, 1e6), times_text(each.share_copied())});
  }
  return table;
}

ReportTable before_table(const std::vector<Comparison>& comparisons) {
  ReportTable table{.title = "An iteration without copies, in parts of the other build's",
                    .head = {"task", "workers", "time", "rounds"},
                    .rows = {}};
  for (const Comparison& each : comparisons)
    table.rows.push_back({each.task(), std::to_string(each.workers()), middle_text(each.times_of_before()),
                          bounds_text(each.times_of_before())});
  return table;
}

Judgement Copies::judge(const std::vector<RunFigures>& runs) const {
  const std::vector<Comparison> comparisons = comparisons_of(runs);
  Judgement judgement;
  BarChart chart{.title = "An iteration with copies", .bars = {}};
  bool has_before = false;
  for (const Comparison& each : comparisons) {
    judgement.findings.push_back(judge_copies(each));
    judgement.findings.push_back(judge_bytes(each));
    const std::optional<Spread> times = each.times();
    chart.bars.push_back({fmt::format("{}, {}", each.task(), each.workers_text()), times ? times->middle : 0,
                          middle_text(times)});
    if (!each.has_before()) continue;
    has_before = true;
    judgement.findings.push_back(judge_times(
        fmt::format("{}, {}: without copies an iteration takes at most {:g} times as long as by the other "
                    "build",
                    each.task(), each.workers_text(), kMostWithBefore),
        each.times_of_before(), kMostWithBefore));
  }
  judgement.tables.push_back(copies_table(comparisons));
  if (has_before) judgement.tables.push_back(before_table(comparisons));
  judgement.charts.push_back(
      {.title = "An iteration with copies: times one without", .svg = to_svg(chart), .note = ""});
  return judgement;
}

}  // namespace
}  // namespace experiment_copies

std::unique_ptr<Experiment> make_copies_experiment() {
  return std::make_unique<experiment_copies::Copies>();
}

}  // namespace verbena::apps
