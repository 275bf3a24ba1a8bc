// `verbena experiment allocation`: compares rows that move to where they are used with rows that stay.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <span>

#include "apps/experiment/experiment.hpp"
#include "apps/experiment/rounds.hpp"
#include "apps/report/format.hpp"
#include "apps/report/svg_chart.hpp"

namespace verbena::apps {
namespace experiment_allocation {
namespace {

constexpr std::array<std::uint32_t, 2> kNodes = {2, 4};
constexpr std::uint32_t kRounds = 3;  // other work on the host may disturb one run
constexpr const char* kNetwork = "latency=10us,bandwidth=10Gb/s,hosts=nodes";

constexpr double kGain = 4;          // gain of rows that move over the classic parameter server
constexpr double kIntentLoss = 1.1;  // compared with the best placement by hand
constexpr double kMostlyLocal = 0.9;

/// Ways to have rows at hand; a run's allocation is the name of one.
constexpr const char* kPlain = "plain loop";
constexpr const char* kClassic = "classic";
constexpr const char* kClassicByTriple = "classic, by triple";
constexpr const char* kPrefetch = "prefetch";
constexpr const char* kBlocks = "blocks";
constexpr const char* kLocalize = "localize";
constexpr const char* kIntent = "intent";
constexpr const char* kNearLocalize = "localize, near";
constexpr const char* kNearIntent = "intent, near";
constexpr const char* kLocalizeByTriple = "localize, near, by triple";
constexpr const char* kIntentByTriple = "intent, near, by triple";
constexpr std::array kMoving = {kLocalize, kIntent, kNearLocalize, kNearIntent};
constexpr std::array kMovingByTriple = {kLocalizeByTriple, kIntentByTriple};

constexpr const char* kGraph = "kge";
constexpr const char* kWords = "word2vec";

struct Contender {
  const char* name;
  const char* consistency;
  std::vector<std::string> arguments;
  std::int64_t iterations;  ///< more for contenders that finish soon
};

/// What is trained.
struct Task {
  const char* application;
  std::int64_t iterations;  ///< iterations of the plain loop
  std::vector<std::string> arguments;
  std::vector<Contender> contenders;
};

/// Rows are requested a mini-batch of steps ahead: a single step ends before a row can come.
constexpr const char* kRowsStay = "--allocation=static";

std::vector<std::string> by_triple(const char* allocation) {
  return {fmt::format("--allocation={}", allocation), "--near-negatives=1", "--batch=1", "--lookahead=64"};
}

std::vector<Task> tasks() {
  return {{.application = "mf",
           .iterations = 40,
           .arguments = {"--rank=100"},
           .contenders = {{kClassic, "sequential", {kRowsStay, "--batch=64", "--lookahead=0"}, 7},
                          {kPrefetch, "sequential", {kRowsStay, "--batch=64"}, 7},
                          {kBlocks, "bsp", {}, 200},
                          {kLocalize, "sequential", {"--allocation=localize"}, 200},
                          {kIntent, "asp", {"--allocation=intent"}, 200}}},
          {.application = kGraph,
           .iterations = 7,
           .arguments = {},
           .contenders = {{kClassicByTriple, "sequential", {kRowsStay, "--batch=1", "--lookahead=0"}, 2},
                          {kLocalizeByTriple, "sequential", by_triple("localize"), 5},
                          {kIntentByTriple, "asp", by_triple("intent"), 5},
                          {kClassic, "sequential", {kRowsStay, "--lookahead=0"}, 4},
                          {kPrefetch, "sequential", {kRowsStay}, 7},
                          {kLocalize, "sequential", {"--allocation=localize"}, 7},
                          {kIntent, "asp", {"--allocation=intent"}, 7},
                          {kNearLocalize, "sequential", {"--allocation=localize", "--near-negatives=1"}, 15},
                          {kNearIntent, "asp", {"--allocation=intent", "--near-negatives=1"}, 15}}},
          {.application = kWords,
           .iterations = 5,
           .arguments = {"--batch=1024", "--top-words=0"},
           .contenders = {{kClassic, "sequential", {kRowsStay, "--lookahead=0"}, 3},
                          {kPrefetch, "sequential", {kRowsStay}, 3},
                          {kLocalize, "sequential", {"--allocation=localize"}, 12},
                          {kIntent, "asp", {"--allocation=intent"}, 12}}}};
}

class AllocationExperiment final : public Experiment {
 public:
  [[nodiscard]] std::string_view name() const override { return "allocation"; }
  [[nodiscard]] std::string_view description() const override {
    return "rows that move to where they are used, against rows that stay: time of an iteration";
  }
  [[nodiscard]] std::string_view method() const override {
    return "Matrix factorization, knowledge-graph embeddings and word vectors on 2 and 4 nodes, each a "
           "server and a worker, with a network between the nodes (of 10 Gb/s and 10 µs, unless --network "
           "says otherwise) and none within one. classic: rows stay on their servers; those of each "
           "mini-batch (64 ratings or triples, 1,024 words) are pulled, and the worker waits for them, "
           "trains, and pushes. prefetch: as classic, but the next rows come while "
           "these are trained. blocks (mf): rows stay, but a worker pulls those of a block of items once a "
           "clock. localize: rows move to the worker's node before they are trained; in mf a block of "
           "items at a time, which goes from worker to worker. intent: workers say what they are about to "
           "train, and the servers move or copy it. near (kge): wrong answers are drawn from the rows that "
           "are near. by triple (kge): a step is a single triple, as that of the papers' parameter servers "
           "is; rows that move are asked for 64 of them ahead. The plain loop is one thread without a "
           "parameter server. Times are of an iteration: "
           "from when the slowest worker had trained the first, which begins with no row where it is "
           "used, until the slowest had trained the last; evaluation is not in them. All runs of a task are "
           "made in rounds, by turns: a run is shown by "
           "the middle one of its rounds, and two are compared within each round, of which the middle "
           "ratio counts. A host with fewer cores than there are workers and servers cannot show how more "
           "nodes are faster, only what each way costs.";
  }
  [[nodiscard]] bool needs_documents() const override { return true; }
  [[nodiscard]] bool needs_triples() const override { return true; }
  [[nodiscard]] bool compares_models() const override { return false; }
  [[nodiscard]] bool compares_nodes() const override { return true; }
  [[nodiscard]] bool makes_rounds() const override { return true; }
  void complete(ExperimentOptions& options) const override {
    if (options.nodes.empty()) options.nodes.assign(kNodes.begin(), kNodes.end());
    if (options.network.empty()) options.network = kNetwork;
    if (options.rounds == 0) options.rounds = kRounds;
  }
  [[nodiscard]] std::vector<PlannedRun> plan(const ExperimentOptions& options) const override;
  [[nodiscard]] Judgement judge(const std::vector<RunFigures>& runs) const override;
};

/// What all runs of a task share.
std::vector<std::string> common_arguments(const ExperimentOptions& options, const Task& task,
                                          std::int64_t usual_iterations) {
  const std::int64_t iterations = iterations_of(options, usual_iterations);
  std::vector<std::string> arguments =
      training_arguments(options, task.application, data_of(options, task.application), iterations);
  arguments.insert(arguments.end(), task.arguments.begin(), task.arguments.end());
  return arguments;
}

PlannedRun plan_plain_loop(const ExperimentOptions& options, const Task& task) {
  PlannedRun run{.label = fmt::format("{} {}", task.application, kPlain),
                 .application = task.application,
                 .consistency = "none",
                 .allocation = kPlain,
                 .nodes = 1,
                 .arguments = common_arguments(options, task, task.iterations)};
  run.arguments.emplace_back("--baseline");
  return run;
}

PlannedRun plan_contender(const ExperimentOptions& options, const Task& task, const Contender& contender,
                          std::uint32_t nodes) {
  PlannedRun run{.label = fmt::format("{} {}, {} nodes", task.application, contender.name, nodes),
                 .application = task.application,
                 .consistency = contender.consistency,
                 .allocation = contender.name,
                 .nodes = nodes,
                 .arguments = common_arguments(options, task, contender.iterations)};
  add_arguments(run, {fmt::format("--servers={}", nodes), fmt::format("--workers={}", nodes),
                      fmt::format("--consistency={}", contender.consistency),
                      fmt::format("--network={}", options.network)});
  if (options.item_time.count() > 0) add_arguments(run, {item_time_argument(options.item_time)});
  add_arguments(run, contender.arguments);
  return run;
}

std::vector<PlannedRun> AllocationExperiment::plan(const ExperimentOptions& options) const {
  std::vector<PlannedRun> runs;
  for (const Task& task : tasks()) {
    for (std::uint32_t round = 1; round <= options.rounds; ++round) {
      const auto add = [&](PlannedRun run) {
        run.round = round;
        if (round > 1) run.label += fmt::format(", round {}", round);
        runs.push_back(std::move(run));
      };
      add(plan_plain_loop(options, task));
      for (const std::uint32_t nodes : options.nodes) {
        for (const Contender& contender : task.contenders) {
          add(plan_contender(options, task, contender, nodes));
        }
      }
    }
  }
  return runs;
}

/// The mean time of all iterations but the first; nullopt if there is no second one, or the run failed. The
/// worker that is slowest in the first iteration need not be the slowest in the end. It is not the median,
/// because workers that finish early leave the host to the slowest one, and its last iterations are then
/// short.
std::optional<double> iteration_seconds(const RunFigures* run) {
  if (run == nullptr || run->iterations.size() < 2) return std::nullopt;
  const std::vector<IterationRecord>& all = run->iterations;
  return (all.back().training_seconds - all.front().training_seconds) / static_cast<double>(all.size() - 1);
}

/// The runs of one application on `nodes` nodes.
struct Field {
  std::string application;
  std::uint32_t nodes;
  const std::vector<RunFigures>& runs;

  /// The runs with this allocation that did not fail, one for each round.
  [[nodiscard]] std::vector<const RunFigures*> rounds(std::string_view allocation) const {
    std::vector<const RunFigures*> found;
    for (const RunFigures& each : runs) {
      const PlannedRun& planned = each.planned;
      const bool here = planned.nodes == nodes || planned.allocation == kPlain;
      if (here && planned.application == application && planned.allocation == allocation &&
          each.failure.empty())
        found.push_back(&each);
    }
    return found;
  }
  /// The middle one of rounds(), by the seconds of an iteration.
  [[nodiscard]] const RunFigures* run(std::string_view allocation) const {
    const auto seconds_or_more = [](const RunFigures* run) {
      return iteration_seconds(run).value_or(std::numeric_limits<double>::infinity());
    };
    return middle_of(rounds(allocation), seconds_or_more).value_or(nullptr);
  }
  [[nodiscard]] std::optional<double> seconds(std::string_view allocation) const {
    return iteration_seconds(run(allocation));
  }
  /// How many times as long `slow` takes as `fast`: the median of the rounds.
  [[nodiscard]] std::optional<double> times(std::string_view slow, std::string_view fast) const {
    std::vector<double> ratios;
    for (const RunFigures* const slow_run : rounds(slow)) {
      for (const RunFigures* const fast_run : rounds(fast)) {
        if (slow_run->planned.round != fast_run->planned.round) continue;
        const auto longer = iteration_seconds(slow_run);
        const auto shorter = iteration_seconds(fast_run);
        if (longer && shorter && *shorter > 0) ratios.push_back(*longer / *shorter);
      }
    }
    return median(ratios);
  }
  [[nodiscard]] std::string name() const { return fmt::format("{}, {} nodes", application, nodes); }
};

constexpr const char* kNoRun = "there is no such run, or it failed, or it had a single iteration";

std::string time_text(const std::optional<double>& seconds) {
  return seconds ? format_short_time(*seconds) : "–";
}

Finding judge_gain_over(const Field& field, const char* classic, std::span<const char* const> all_moving,
                        std::string_view steps) {
  Finding finding{.expectation = fmt::format("{}: with rows that move, by localize or by intent, {}an "
                                             "iteration takes at most 1/{:g} of the time of "
                                             "the classic parameter server",
                                             field.name(), steps, kGain)};
  double best = 0;
  for (const char* const moving : all_moving) {
    const auto times = field.times(classic, moving);
    if (!times) continue;
    finding.found +=
        fmt::format("{}{} {} as fast", finding.found.empty() ? "" : ", ", moving, times_text(times));
    best = std::max(best, *times);
  }
  if (best == 0) {
    finding.found = kNoRun;
  } else {
    finding.verdict = verdict_of(best >= kGain);
  }
  return finding;
}

Finding judge_gain(const Field& field) {
  return judge_gain_over(field, kClassic, kMoving, "");
}

Finding judge_gain_by_triple(const Field& field) {
  return judge_gain_over(field, kClassicByTriple, kMovingByTriple, "and a triple a step, ");
}

/// Compares `intended` with the best of `placed_by_hand`; all of them draw the same negatives.
Finding judge_intent_against(const Field& field, const char* intended,
                             std::initializer_list<const char*> placed_by_hand) {
  Finding finding{.expectation = fmt::format(
                      "{}: {} takes at most {:g} times as long as the best of what is placed by hand",
                      field.name(), intended, kIntentLoss)};
  std::optional<double> most;
  std::string_view best;
  for (const char* const other : placed_by_hand) {
    const auto times = field.times(intended, other);
    if (!times || (most && *most >= *times)) continue;
    most = times;
    best = other;
  }
  if (!most) {
    finding.found = kNoRun;
    return finding;
  }
  finding.found = fmt::format("{} {}, {} {}: {:.2f} times", intended, time_text(field.seconds(intended)),
                              best, time_text(field.seconds(best)), *most);
  finding.verdict = verdict_of(*most <= kIntentLoss);
  return finding;
}

Finding judge_intent(const Field& field) {
  return judge_intent_against(field, kIntent, {kClassic, kPrefetch, kBlocks, kLocalize});
}

Finding judge_near_intent(const Field& field) {
  return judge_intent_against(field, kNearIntent, {kNearLocalize});
}

Finding judge_intent_by_triple(const Field& field) {
  return judge_intent_against(field, kIntentByTriple, {kLocalizeByTriple});
}

Finding judge_prefetch(const Field& field) {
  Finding finding{
      .expectation = fmt::format(
          "{}: to fetch ahead hides a part of the network: prefetch is faster than classic, and rows that "
          "move are faster still",
          field.name())};
  const auto gain = field.times(kClassic, kPrefetch);
  const auto rest = field.times(kPrefetch, kLocalize);
  if (!gain || !rest) {
    finding.found = kNoRun;
    return finding;
  }
  finding.found = fmt::format("prefetch {} as fast as classic, localize {} as fast as prefetch",
                              times_text(gain), times_text(rest));
  finding.verdict = verdict_of(*gain > 1 && *rest > 1);
  return finding;
}

Finding judge_locality(const Field& field) {
  Finding finding{.expectation =
                      fmt::format("{}: under localize at least {} of the rows pulled and pushed lie on the "
                                  "worker's node",
                                  field.name(), format_share(kMostlyLocal))};
  const RunFigures* const run = field.run(kLocalize);
  if (run == nullptr || !run->share_local) {
    finding.found = kNoRun;
    return finding;
  }
  finding.found = format_share(*run->share_local);
  finding.verdict = verdict_of(*run->share_local >= kMostlyLocal);
  return finding;
}

Finding judge_plain_loop(const Field& field) {
  Finding finding{
      .expectation = fmt::format(
          "{}: the classic parameter server is slower than one thread without any, localize faster",
          field.name())};
  const auto classic = field.times(kClassic, kPlain);
  const auto localize = field.times(kPlain, kLocalize);
  if (!classic || !localize) {
    finding.found = kNoRun;
    return finding;
  }
  finding.found = fmt::format("classic takes {} the plain loop's time, localize {}", times_text(classic),
                              times_text(1 / *localize));
  finding.verdict = verdict_of(*classic > 1 && *localize > 1);
  return finding;
}

/// Each field once, in the order of the runs.
std::vector<Field> fields_of(const std::vector<RunFigures>& runs) {
  std::vector<Field> fields;
  for (const RunFigures& run : runs) {
    const PlannedRun& planned = run.planned;
    if (planned.allocation == kPlain) continue;
    const bool known = std::any_of(fields.begin(), fields.end(), [&](const Field& field) {
      return field.application == planned.application && field.nodes == planned.nodes;
    });
    if (!known) fields.push_back({planned.application, planned.nodes, runs});
  }
  return fields;
}

ReportTable table_of(const std::vector<Field>& fields, const std::vector<RunFigures>& runs) {
  ReportTable table{.title = "Iterations",
                    .head = {"task", "rows", "iteration", "of the plain loop's", "sooner than classic",
                             "waited", "local", "rows moved a second", "a move p50", "p99"},
                    .rows = {}};
  const auto add = [&](const std::string& task, const Field& field, const RunFigures& run) {
    const std::string& allocation = run.planned.allocation;
    const bool plain = allocation == kPlain;
    const double seconds = run.training_seconds;
    const auto moves = static_cast<double>(run.rows_moved);
    table.rows.push_back(
        {task, allocation, time_text(field.seconds(allocation)), times_text(field.times(allocation, kPlain)),
         plain ? "–" : times_text(field.times(kClassic, allocation)),
         plain ? "–" : format_share(run.share_waited), run.share_local ? format_share(*run.share_local) : "–",
         moves > 0 && seconds > 0 ? format_count(moves / seconds) : "–", time_text(run.move_p50_seconds),
         time_text(run.move_p99_seconds)});
  };
  std::string application;
  for (const Field& field : fields) {
    const RunFigures* const plain = field.run(kPlain);
    if (plain != nullptr && field.application != application)
      add(fmt::format("{}, alone", field.application), field, *plain);
    application = field.application;
    for (const RunFigures& each : runs) {
      const PlannedRun& planned = each.planned;
      const bool first = planned.round == 1 && planned.allocation != kPlain;
      if (!first || planned.application != field.application || planned.nodes != field.nodes) continue;
      if (const RunFigures* const run = field.run(planned.allocation)) add(field.name(), field, *run);
    }
  }
  return table;
}

ReportChart chart_of(const Field& field) {
  BarChart chart{.title = fmt::format("{}: seconds of an iteration", field.name()), .bars = {}};
  const auto add = [&](const char* allocation) {
    const auto seconds = field.seconds(allocation);
    if (seconds) chart.bars.push_back({allocation, *seconds, time_text(seconds)});
  };
  for (const char* const still : {kPlain, kClassicByTriple, kClassic, kPrefetch, kBlocks}) add(still);
  for (const char* const moving : kMovingByTriple) add(moving);
  for (const char* const moving : kMoving) add(moving);
  return {fmt::format("{}: time of an iteration", field.name()), to_svg(chart), "Shorter is better."};
}

Judgement AllocationExperiment::judge(const std::vector<RunFigures>& runs) const {
  const std::vector<Field> fields = fields_of(runs);
  Judgement judgement;
  for (const Field& field : fields) {
    for (const auto& judge : {judge_gain, judge_intent, judge_prefetch, judge_plain_loop}) {
      judgement.findings.push_back(judge(field));
    }
    if (field.application == kGraph) {
      for (const auto& judge : {judge_gain_by_triple, judge_near_intent, judge_intent_by_triple}) {
        judgement.findings.push_back(judge(field));
      }
    }
    // Frequent words are used on all nodes at the same time, and are best left where they are.
    if (field.application != kWords) judgement.findings.push_back(judge_locality(field));
    judgement.charts.push_back(chart_of(field));
  }
  judgement.tables.push_back(table_of(fields, runs));
  return judgement;
}

}  // namespace
}  // namespace experiment_allocation

std::unique_ptr<Experiment> make_allocation_experiment() {
  return std::make_unique<experiment_allocation::AllocationExperiment>();
}

}  // namespace verbena::apps
