// `verbena experiment cost`: what the parameter server costs each application, beside one plain thread.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "apps/experiment/experiment.hpp"
#include "apps/experiment/rounds.hpp"
#include "apps/report/format.hpp"
#include "apps/report/svg_chart.hpp"
#include "base/cores.hpp"

namespace verbena::apps {
namespace experiment_cost {
namespace {

constexpr std::uint32_t kRounds = 3;  // other work on the host may disturb one run

constexpr double kMostTimeOfOne = 1.1;     // one worker's time, in parts of the plain loop's
constexpr double kLeastShareOfCore = 0.8;  // speed of each of several workers, in parts of the plain loop's
/// Of what the plain loop gains after its first pass: runs that learn as much may fall short by so much. More
/// than plain loops that differ in their seeds do at the applications that have no tolerance of their own
/// (docs/experiments.md).
constexpr double kTolerance = 0.05;

constexpr const char* kPlain = "plain loop";
constexpr const char* kFirstPass = "plain loop, first pass";  // from where gains are counted
constexpr const char* kDefault = "default";

/// The rounds in which a single worker on the node of a single server is run in a way, too: all where it is
/// judged by that, one where it is only to be seen.
enum class OfOne : std::uint8_t { kNever, kFirstRound, kAllRounds };

/// How rows come to workers.
struct Way {
  const char* name;
  std::vector<std::string> arguments;
  OfOne of_one = OfOne::kNever;
};

constexpr const char* kLocalize = "localize";
constexpr const char* kIntent = "intent";

/// `default_of_one`: that in which such a worker is run by default, which is not run again. Under asp it
/// would do what it does under essp:1, since it has nobody to wait for.
std::vector<Way> all_ways(std::string_view default_of_one) {
  const auto unless_default = [&](std::string_view name) {
    return name == default_of_one ? OfOne::kNever : OfOne::kFirstRound;
  };
  return {{kDefault, {}, OfOne::kAllRounds},
          {"bsp", {"--consistency=bsp", "--allocation=static"}, OfOne::kAllRounds},
          {"essp:1", {"--consistency=essp:1", "--allocation=static"}, OfOne::kFirstRound},
          {"asp", {"--consistency=asp", "--allocation=static"}},
          {kLocalize, {"--consistency=sequential", "--allocation=localize"}, unless_default(kLocalize)},
          {kIntent, {"--consistency=asp", "--allocation=intent"}, unless_default(kIntent)}};
}

/// Of ctr, whose rows stay on their servers.
std::vector<Way> ways_of_ftrl() {
  return {{kDefault, {}, OfOne::kAllRounds},
          {"bsp", {"--consistency=bsp"}, OfOne::kAllRounds},
          {"essp:1", {"--consistency=essp:1"}, OfOne::kFirstRound},
          {"asp", {"--consistency=asp"}}};
}

/// Of ctr by blocks, which is bsp by default, and must know after how many clocks it sees a step.
std::vector<Way> ways_of_blocks() {
  return {{kDefault, {}, OfOne::kAllRounds},
          {"essp:1", {"--consistency=essp:1"}, OfOne::kFirstRound},
          {"bounded-delay:1", {"--consistency=bounded-delay:1"}}};
}

/// Nobody reads what others count before the end.
std::vector<Way> ways_of_sketch() {
  return {{kDefault, {}, OfOne::kAllRounds},
          {"bsp", {"--consistency=bsp"}, OfOne::kAllRounds},
          {"essp:1", {"--consistency=essp:1"}, OfOne::kFirstRound}};
}

/// What is trained. Runs take a second or two each on one core.
struct Task {
  const char* name;  ///< unique
  const char* application;
  std::int64_t iterations;
  std::vector<std::string> arguments;
  bool is_small = false;                           ///< on the small ratings
  std::vector<std::int64_t> peer_iterations = {};  ///< the peer is run with each; none: no peer does it
  std::int64_t rank = 0;                           ///< the peer's, as PeerTask has it
  std::vector<double> peer_tolerances = {0};       ///< the peer is run with each
  std::vector<Way> ways = all_ways(kLocalize);
  double tolerance = kTolerance;
  /// The plain loop's first pass is looked at in a run of all passes: a single one would train otherwise, for
  /// the rate falls until the last one, or cannot be had.
  bool first_of_all = false;
  std::int64_t evaluations = 10;  ///< in the first round; later ones are evaluated only in the end
  const char* objective = "";     ///< as PlannedRun has it
};

std::vector<Task> tasks() {
  // On the way kge is evaluated only on valid triples.
  return {{.name = "kge",
           .application = "kge",
           .iterations = 5,
           .arguments = {},
           .tolerance = 0.15,
           .evaluations = 2,  // each takes longer than an iteration
           .objective = "valid_mrr"},
          {"mf, rank 100", "mf", 12, {"--rank=100"}, false, {30}, 100},
          {"mf, rank 16", "mf", 50, {"--rank=16"}, false, {60}, 16},
          {"mf, small", "mf", 400, {"--rank=16", "--decay=0.99"}, true},
          {.name = "lda",
           .application = "lda",
           .iterations = 60,
           .arguments = {"--topics=50", "--stop-words=english", "--top-words=0"},
           .peer_iterations = {60},
           .rank = 50,
           .ways = all_ways(kIntent),
           .evaluations = 6},  // as often as MALLET is
          {.name = "word2vec",
           .application = "word2vec",
           .iterations = 8,
           .arguments = {"--top-words=0"},
           .peer_iterations = {1, 8},  // fastText is evaluated only in the end
           .tolerance = 0.2,
           .first_of_all = true,
           .evaluations = 4},
          {.name = "sketch",
           .application = "sketch",
           .iterations = 10,
           .arguments = {"--top=1"},
           .ways = ways_of_sketch(),
           .first_of_all = true,
           .objective = "relative_error"},
          {.name = "ctr, ftrl",
           .application = "ctr",
           .iterations = 5,
           .arguments = {"--solver=ftrl"},
           .ways = ways_of_ftrl()},
          {.name = "ctr, block",
           .application = "ctr",
           .iterations = 10,
           .arguments = {"--solver=block", "--l1=1"},
           .peer_iterations = {1},
           .peer_tolerances = {0.1, 0.01, 0.001},
           .ways = ways_of_blocks()}};
}

Task task_of(const PlannedRun& run) {
  std::vector<Task> all = tasks();
  return *std::find_if(all.begin(), all.end(), [&](const Task& task) { return task.name == run.task; });
}

class CostExperiment final : public Experiment {
 public:
  [[nodiscard]] std::string_view name() const override { return "cost"; }
  [[nodiscard]] std::string_view description() const override {
    return "what the parameter server costs: each application beside one plain thread";
  }
  [[nodiscard]] std::string_view method() const override {
    return "Every application, once as a plain loop (one thread, no parameter server) and once as a job "
           "on this host, with 1, 2, 4, … workers and with --workers of them: as it is by default, and in "
           "each other way in which rows can come to them. bsp, essp:1, asp: rows stay on their servers, "
           "are cached and pulled, and updates are pushed. localize, intent: rows move to the workers; "
           "with one server they are trained where they lie. Rows of ctr and sketch stay in all of their "
           "ways; ctr's default is ssp:1, and bsp by blocks, and sketch's is asp. With one server, a single "
           "worker is not run under asp and bounded-delay:1, since it has nobody to wait for, and not in "
           "the way that is its default under another name (localize; lda: intent); it is run in all "
           "rounds by default and under bsp, and once in the other ways. "
           "small: mf on a hundred thousand ratings, whose iterations take less than a millisecond. "
           "Speed is that of the median iteration, the first one left out, evaluation not included. All "
           "runs of a task are made in rounds, by turns: a run is shown by the median of its rounds, "
           "and its ratio to the plain loop is taken within each round. The objective is that after the "
           "same number of iterations; beside it are the part of the plain loop's gain that this is, "
           "counted from what the plain loop reaches in its first pass, and the seconds of training until "
           "it was as much of that gain as is expected. For that the plain loop and all jobs are evaluated "
           "on their way, in the first round; in others, which are not disturbed by it, only in the end, "
           "and the same iterations are taken to have led as far. What lies between two evaluations is "
           "interpolated, as it is for other programs. kge is evaluated by its valid triples, sketch by how "
           "far the counts are from those of all examples after each tenth of them (which stands for a "
           "pass), ctr in each iteration and round: ftrl by the loss of the iteration's examples before "
           "they are learnt from, block by the sum of all losses and the weights' cost, --l1. Other "
           "programs that do "
           "the same are run beside ours, with their own defaults, if they are installed or named: "
           "LIBMF (mf-train), timed from one line of its output to the next, so that its evaluation of "
           "every iteration is included; MALLET (mallet), timed likewise by tens of iterations; fastText "
           "without character n-grams (subwords), with the speed "
           "that it prints itself, of which the vectors that it writes are judged as word2vec's are; and "
           "liblinear (liblinear-train -s 6), which has one thread and "
           "lowers the objective of ctr, block. The last two say how far they came only in the end, so that "
           "they are run to several ends (1 and 8 passes; three tolerances, of which 0.01 is the default): "
           "those of their runs that end sooner are the points between which is interpolated. The time "
           "that liblinear takes to read the examples is left out, as it is of ours: the shortest of three "
           "runs that end before the first step.";
  }
  [[nodiscard]] bool needs_documents() const override { return true; }
  [[nodiscard]] bool needs_triples() const override { return true; }
  [[nodiscard]] bool needs_examples() const override { return true; }
  [[nodiscard]] bool needs_small_ratings() const override { return true; }
  [[nodiscard]] bool compares_models() const override { return false; }
  [[nodiscard]] bool makes_rounds() const override { return true; }
  [[nodiscard]] bool runs_peers() const override { return true; }
  void set_defaults(ExperimentOptions& options) const override {
    options.servers = 1;
    options.workers = std::max(2U, base::cores_at_hand());
  }
  void complete(ExperimentOptions& options) const override {
    if (options.rounds == 0) options.rounds = kRounds;
  }
  [[nodiscard]] std::vector<PlannedRun> plan(const ExperimentOptions& options) const override;
  [[nodiscard]] Judgement judge(const std::vector<RunFigures>& runs) const override;
};

PlannedRun plan_task(const ExperimentOptions& options, const Task& task, const std::string& way,
                     std::uint32_t workers, std::uint32_t round) {
  const bool is_first = way == kFirstPass;
  const std::int64_t iterations =
      is_first && !task.first_of_all ? 1 : iterations_of(options, task.iterations);
  const std::int64_t evaluations = is_first ? iterations : round == 1 ? task.evaluations : 1;
  const std::string& data = task.is_small ? options.small_ratings : data_of(options, task.application);
  PlannedRun run{.label = workers == 0 ? fmt::format("{}: {}", task.name, way)
                                       : fmt::format("{}: {}, {} worker{}", task.name, way, workers,
                                                     workers == 1 ? "" : "s"),
                 .application = task.application,
                 .task = task.name,
                 .objective = task.objective,
                 .workers = workers,
                 .allocation = way,
                 .arguments = training_arguments(options, task.application, data, iterations, evaluations)};
  add_arguments(run, task.arguments);
  return run;
}

/// The peers that can do the task, with one thread and, if they can use them, with as many as there are
/// workers.
std::vector<PlannedRun> plan_peers(const ExperimentOptions& options, const Task& task) {
  std::vector<PlannedRun> runs;
  for (const auto& [peer, program] : options.peers) {
    if (peer->application() != task.application) continue;
    std::vector<PeerTask> trainings;
    std::set<std::int64_t> iterations;
    for (const std::int64_t usual : task.peer_iterations) iterations.insert(iterations_of(options, usual));
    for (const std::int64_t each : iterations) {
      for (const double tolerance : task.peer_tolerances)
        trainings.push_back({.iterations = each, .rank = task.rank, .tolerance = tolerance});
    }
    for (PeerTask& training : trainings) {
      std::string name(peer->name());
      if (training.tolerance > 0) name += fmt::format(" to {}", training.tolerance);
      if (task.peer_iterations.size() > 1)
        name += fmt::format(", {} pass{}", training.iterations, training.iterations == 1 ? "" : "es");
      for (const std::uint32_t threads :
           std::set<std::uint32_t>{1, peer->has_threads() ? options.workers : 1}) {
        training.threads = threads;
        runs.push_back(
            {.label = fmt::format("{}: {}, {} thread{}", task.name, name, threads, threads == 1 ? "" : "s"),
             .application = task.application,
             .task = task.name,
             .workers = threads,
             .consistency = "none",
             .allocation = name,
             .peer = peer,
             .program = program,
             .peer_task = training});
      }
    }
  }
  return runs;
}

std::vector<PlannedRun> CostExperiment::plan(const ExperimentOptions& options) const {
  const bool is_one_node = options.servers == 1 && options.network.empty();
  std::vector<PlannedRun> runs;
  for (const Task& task : tasks()) {
    for (std::uint32_t round = 1; round <= options.rounds; ++round) {
      const auto add = [&](PlannedRun run) {
        run.round = round;
        if (round > 1) run.label += fmt::format(", round {}", round);
        runs.push_back(std::move(run));
      };
      const auto add_plain = [&](const char* way) {
        PlannedRun plain = plan_task(options, task, way, 0, round);
        plain.consistency = "none";
        add_arguments(plain, {"--baseline"});
        add(std::move(plain));
      };
      if (round == 1) add_plain(kFirstPass);  // which is the same in all rounds
      add_plain(kPlain);
      for (PlannedRun& run : plan_peers(options, task)) add(std::move(run));
      for (const std::uint32_t workers : doubled_up_to(options.workers)) {
        for (const Way& way : task.ways) {
          const bool is_left_out =
              way.of_one == OfOne::kNever || (way.of_one == OfOne::kFirstRound && round > 1);
          if (workers == 1 && is_one_node && is_left_out) continue;
          PlannedRun run = plan_task(options, task, way.name, workers, round);
          add_arguments(run,
                        {fmt::format("--servers={}", options.servers), fmt::format("--workers={}", workers)});
          if (!options.network.empty()) add_arguments(run, {fmt::format("--network={}", options.network)});
          if (options.item_time.count() > 0) add_arguments(run, {item_time_argument(options.item_time)});
          add_arguments(run, way.arguments);
          add(std::move(run));
        }
      }
    }
  }
  return runs;
}

/// Items a second in the median iteration but the first; nullopt if there is none that counts items.
std::optional<double> speed_of(const RunFigures& run) {
  std::vector<double> speeds;
  const std::size_t first = run.iterations.size() > 1 ? 1 : 0;
  for (std::size_t i = first; i < run.iterations.size(); ++i) {
    const IterationRecord& each = run.iterations[i];
    if (each.seconds > 0 && each.items > 0) speeds.push_back(each.items / each.seconds);
  }
  return median(std::move(speeds));
}

/// In the end; of the run that shows the first pass, after that.
std::optional<double> objective_of(const RunFigures& run) {
  const Points points = by_iteration(run);
  if (points.empty()) return std::nullopt;
  const bool is_first = run.planned.allocation == kFirstPass && task_of(run.planned).first_of_all;
  return is_first ? points.front().second : points.back().second;
}

/// Whether the objective grows or falls as the model becomes better.
bool falls(std::string_view objective) {
  return objective.ends_with("rmse") || objective.ends_with("loss") || objective.ends_with("error") ||
         objective == "objective";
}

/// Adds how far a run was after iterations in which only the same run of another round was evaluated.
void add_points_of_iterations(const RunFigures& run, const RunFigures& evaluated, Points& points) {
  for (const auto& [iteration, objective] : by_iteration(evaluated)) {
    for (const IterationRecord& own : run.iterations) {
      if (static_cast<double>(own.iteration) == iteration && !own.objectives.contains(run.objective))
        points.emplace_back(own.training_seconds, objective);
    }
  }
}

/// How far a run was at which time. Where it was evaluated only in the end, other runs know points on its
/// way: of ours that of the first round, after the same iterations; of a peer, which is run to several ends,
/// those that have ended sooner.
Points way_of(const RunFigures& run, const std::vector<RunFigures>& runs) {
  Points points = by_second(run);
  if (points.size() != 1) return points;
  for (const RunFigures& other : runs) {
    const PlannedRun& planned = other.planned;
    if (planned.task != run.planned.task || planned.peer != run.planned.peer ||
        planned.workers != run.planned.workers || !other.failure.empty())
      continue;
    if (planned.peer == nullptr && planned.allocation == run.planned.allocation && planned.round == 1 &&
        run.planned.round > 1)
      add_points_of_iterations(run, other, points);
    if (planned.peer != nullptr && planned.round == run.planned.round &&
        other.training_seconds < run.training_seconds) {
      const Points sooner = by_second(other);
      points.insert(points.end(), sooner.begin(), sooner.end());
    }
  }
  std::sort(points.begin(), points.end());
  return points;
}

/// The runs of one task in one way with so many workers: a round each.
class Contender {
 public:
  Contender(const std::vector<RunFigures>& runs, const PlannedRun& like) : like_(like) {
    for (const RunFigures& run : runs) {
      const PlannedRun& planned = run.planned;
      if (planned.task != like.task || !run.failure.empty()) continue;
      if (planned.allocation == kPlain) plain_.push_back(&run);
      if (planned.allocation == kFirstPass) first_pass_.push_back(&run);
      if (planned.allocation == like.allocation && planned.workers == like.workers) {
        own_.push_back(&run);
        ways_.push_back(way_of(run, runs));
      }
    }
  }
  [[nodiscard]] const PlannedRun& planned() const { return like_; }
  [[nodiscard]] bool is_plain() const { return like_.allocation == kPlain; }
  /// The plain loop's first pass, which has no speed to be compared.
  [[nodiscard]] bool is_first_pass() const { return like_.allocation == kFirstPass; }
  /// Which part of the plain loop's gain a run that learns as much has at least.
  [[nodiscard]] double least_share() const { return 1 - task_of(like_).tolerance; }
  [[nodiscard]] bool is_job() const { return !is_plain() && !is_first_pass() && like_.peer == nullptr; }
  [[nodiscard]] bool is_default() const { return like_.allocation == kDefault; }
  [[nodiscard]] std::string name() const {
    if (is_plain() || is_first_pass()) return like_.allocation;
    return fmt::format("{}, {} {}{}{}", like_.allocation, like_.workers,
                       like_.peer == nullptr ? "worker" : "thread", like_.workers == 1 ? "" : "s",
                       own_.size() == 1 && plain_.size() > 1 ? ", once" : "");
  }
  [[nodiscard]] std::optional<double> speed() const {
    std::vector<double> speeds;
    for (const RunFigures* const run : own_) {
      if (const auto speed = speed_of(*run)) speeds.push_back(*speed);
    }
    return median(std::move(speeds));
  }
  /// In parts of the plain loop's speed.
  [[nodiscard]] std::optional<double> ratio() const {
    std::vector<double> ratios;
    for (const RunFigures* const run : own_) {
      for (const RunFigures* const plain : plain_) {
        if (plain->planned.round != run->planned.round) continue;
        const auto ours = speed_of(*run);
        const auto theirs = speed_of(*plain);
        if (ours && theirs && *theirs > 0) ratios.push_back(*ours / *theirs);
      }
    }
    return median(std::move(ratios));
  }
  [[nodiscard]] std::optional<double> objective() const { return median_objective(own_); }
  [[nodiscard]] std::optional<double> plain_objective() const { return median_objective(plain_); }
  [[nodiscard]] std::optional<double> objective_of_first_pass() const {
    return median_objective(first_pass_);
  }
  /// What the plain loop gains after its first pass; below 0 where the objective falls. nullopt: it does not
  /// become better, or there are no such runs.
  [[nodiscard]] std::optional<double> plain_gain() const {
    const std::optional<double> first = objective_of_first_pass();
    const std::optional<double> last = plain_objective();
    if (!first || !last || own_.empty()) return std::nullopt;
    const double gain = *last - *first;
    return (falls(objective_name()) ? gain < 0 : gain > 0) ? std::optional(gain) : std::nullopt;
  }
  /// Which part of that gain this reaches in the end.
  [[nodiscard]] std::optional<double> share_of_gain() const {
    const std::optional<double> ours = objective();
    const std::optional<double> gain = plain_gain();
    if (!ours || !gain) return std::nullopt;
    return (*ours - *objective_of_first_pass()) / *gain + 0.0;  // never −0
  }
  /// Training time until a run had reached as much of that gain as a run that learns as much must.
  [[nodiscard]] std::optional<double> seconds_to_quality() const {
    const std::optional<double> gain = plain_gain();
    if (!gain) return std::nullopt;
    const Target target{.objective = *objective_of_first_pass() + least_share() * *gain, .way = *gain};
    std::vector<double> seconds;
    for (const Points& way : ways_) {
      if (const auto reached = seconds_to(way, target)) seconds.push_back(*reached);
    }
    return seconds.size() < own_.size() ? std::nullopt : median(std::move(seconds));
  }
  [[nodiscard]] double share_waited() const {
    std::vector<double> shares;
    for (const RunFigures* const run : own_) shares.push_back(run->share_waited);
    return median(std::move(shares)).value_or(0);
  }
  [[nodiscard]] std::string objective_name() const { return own_.empty() ? "" : own_.front()->objective; }

 private:
  static std::optional<double> median_objective(const std::vector<const RunFigures*>& runs) {
    std::vector<double> objectives;
    for (const RunFigures* const run : runs) {
      if (const auto objective = objective_of(*run)) objectives.push_back(*objective);
    }
    return median(std::move(objectives));
  }

  PlannedRun like_;
  std::vector<const RunFigures*> own_;
  std::vector<Points> ways_;  ///< of these
  std::vector<const RunFigures*> plain_;
  std::vector<const RunFigures*> first_pass_;
};

std::vector<Contender> contenders_of(const std::vector<RunFigures>& runs) {
  std::vector<Contender> contenders;
  for (const RunFigures& run : runs) {
    if (run.planned.round == 1) contenders.emplace_back(runs, run.planned);
  }
  return contenders;
}

constexpr const char* kNoRun = "there is no such run, or it failed";

Finding judge_speed(const Contender& contender) {
  const std::uint32_t workers = contender.planned().workers;
  const double least = workers == 1 ? 1 / kMostTimeOfOne : kLeastShareOfCore * workers;
  Finding finding{
      .expectation =
          workers == 1
              ? fmt::format("{}: by default one worker takes at most {:g} times as long as the plain loop",
                            contender.planned().task, kMostTimeOfOne)
              : fmt::format("{}: by default {} workers are at least {:g} times as fast as the plain loop",
                            contender.planned().task, workers, least)};
  const std::optional<double> ratio = contender.ratio();
  if (!ratio) {
    finding.found = kNoRun;
    return finding;
  }
  finding.found = workers == 1 ? fmt::format("{:.2f} times as long", 1 / *ratio)
                               : fmt::format("{:.2f} times as fast", *ratio);
  finding.verdict = verdict_of(*ratio >= least);
  return finding;
}

Finding judge_quality(const Contender& contender) {
  const std::uint32_t workers = contender.planned().workers;
  const std::string who = workers == 1 ? "1 worker learns" : fmt::format("{} workers learn", workers);
  Finding finding{.expectation = fmt::format("{}: by default {} as much as the plain loop: at least {:g} % "
                                             "of what it gains after its first pass",
                                             contender.planned().task, who, contender.least_share() * 100)};
  const std::optional<double> ours = contender.objective();
  const std::optional<double> plain = contender.plain_objective();
  const std::optional<double> first = contender.objective_of_first_pass();
  if (!ours || !plain || !first) {
    finding.found = kNoRun;
    return finding;
  }
  const std::optional<double> share = contender.share_of_gain();
  finding.found = fmt::format("{} {}, the plain loop {} after {}{}", contender.objective_name(),
                              format_objective(*ours), format_objective(*plain), format_objective(*first),
                              share ? fmt::format(": {} of its gain", format_share(*share))
                                    : ": it gains nothing after its first pass");
  if (share) finding.verdict = verdict_of(*share >= contender.least_share());
  return finding;
}

std::string speed_text(const std::optional<double>& speed) {
  return speed ? fmt::format("{:.3g}", *speed / 1e6) : "–";
}

ReportTable table_of(const std::vector<Contender>& contenders) {
  ReportTable table{
      .title = "Millions of items a second, and times the plain loop's speed",
      .head = {"task", "run", "M/s", "plain loop ×", "objective", "", "gain", "s to gain", "waited"}};
  for (const Contender& each : contenders) {
    const std::optional<double> objective = each.objective();
    const std::optional<double> quality = each.is_first_pass() ? std::nullopt : each.seconds_to_quality();
    const std::optional<double> share = each.share_of_gain();
    table.rows.push_back({each.planned().task, each.name(),
                          each.is_first_pass() ? "" : speed_text(each.speed()),
                          each.is_plain() || each.is_first_pass() ? "" : times_text(each.ratio()),
                          each.objective_name(), objective ? format_objective(*objective) : "–",
                          share ? format_share(*share) : "–", quality ? fmt::format("{:.2f}", *quality) : "–",
                          each.is_job() ? fmt::format("{:.1f} %", each.share_waited() * 100) : ""});
  }
  return table;
}

ReportChart chart_of(const std::string& task, const std::vector<Contender>& contenders) {
  BarChart chart{.title = fmt::format("{}: speed", task), .bars = {}};
  for (const Contender& each : contenders) {
    if (each.planned().task != task || each.is_first_pass()) continue;
    const std::optional<double> ratio = each.is_plain() ? std::optional(1.0) : each.ratio();
    chart.bars.push_back({each.name(), ratio.value_or(0), times_text(ratio)});
  }
  return {.title = fmt::format("{}: times the plain loop's speed", task), .svg = to_svg(chart), .note = ""};
}

Judgement CostExperiment::judge(const std::vector<RunFigures>& runs) const {
  const std::vector<Contender> contenders = contenders_of(runs);
  Judgement judgement;
  std::set<std::string> charted;
  for (const Contender& each : contenders) {
    if (charted.insert(each.planned().task).second)
      judgement.charts.push_back(chart_of(each.planned().task, contenders));
    if (!each.is_default()) continue;
    judgement.findings.push_back(judge_speed(each));
    judgement.findings.push_back(judge_quality(each));
  }
  judgement.tables.push_back(table_of(contenders));
  return judgement;
}

}  // namespace
}  // namespace experiment_cost

std::unique_ptr<Experiment> make_cost_experiment() {
  return std::make_unique<experiment_cost::CostExperiment>();
}

}  // namespace verbena::apps
