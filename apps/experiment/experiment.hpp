// An experiment: expectations that are written down first, runs of the launcher one after another, and what
// was found. plan() and judge() are functions of their arguments; experiment_command.cpp makes the runs
// between the two.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/peers/peer.hpp"
#include "apps/report/run_record.hpp"

namespace verbena::apps {

struct ExperimentOptions {
  std::string ratings;              ///< for mf
  std::string small_ratings;        ///< likewise, few
  std::string documents;            ///< for lda
  std::string triples;              ///< for kge
  std::string examples;             ///< for ctr
  std::vector<std::string> models;  ///< as for --consistency; empty: the experiment's own models
  std::uint32_t servers = 2;
  std::uint32_t workers = 4;
  std::uint32_t replicas = 0;  ///< copies of each server, where jobs with and without are compared
  std::string before;          ///< another build of this program to run beside this one; empty: none
  /// Instead of servers and workers: the sizes of the jobs in nodes, each of which is a server and a worker.
  std::vector<std::uint32_t> nodes;
  std::int64_t iterations = 0;  ///< 0: as many as the experiment needs
  std::uint32_t rounds = 0;     ///< how often each run is made, in turns; 0: the experiment's own value
  std::uint64_t seed = 1;
  /// The time that each rating or token takes a worker, whatever it needs on this host (see slowdown.hpp). It
  /// must be long enough that all workers together need only a part of the host's cores, so that each runs as
  /// if it had its own core. 0: the experiment's own value.
  std::chrono::nanoseconds item_time{0};
  std::string network;  ///< as for --network; empty: no network is imitated
  /// Programs to run beside ours: prepared.
  struct PeerProgram {
    std::shared_ptr<const Peer> peer;
    std::string program;  ///< a path, or a name in PATH
  };
  std::vector<PeerProgram> peers;
};

/// A run to be made, with the arguments of `verbena run`, or of a peer.
struct PlannedRun {
  std::string label;  ///< unique in the experiment
  std::string application;
  std::string task;                    ///< what is trained, if an application is run on several data
  std::string objective;               ///< what it is judged by; empty: the application's main objective
  std::uint32_t workers = 0;           ///< if runs differ in it; 0: none
  std::uint32_t replicas = 0;          ///< copies of each server
  std::string consistency;             ///< as for --consistency
  double straggler = 1;                ///< one worker is this many times slower than the others; 1: none
  double budget_mb_per_s = 0;          ///< of managed communication, as for --budget; 0: none
  std::string allocation;              ///< how rows come to workers, if runs differ in it
  std::uint32_t nodes = 0;             ///< nodes of the job, if runs differ in it
  std::uint32_t round = 1;             ///< counts runs that are alike
  std::vector<std::string> arguments;  ///< after `verbena run`
  std::shared_ptr<const Peer> peer;    ///< nullptr: none
  std::string program;                 ///< the peer's
  PeerTask peer_task;
};

/// What an experiment sees of a run.
struct RunFigures {
  PlannedRun planned;
  std::string failure;  ///< empty: it has succeeded; otherwise the other fields are not set
  std::string objective;
  std::vector<IterationRecord> iterations;
  double training_seconds = 0;
  double throughput = 0;
  double share_waited = 0;
  std::vector<double> share_waited_by_worker;
  std::vector<std::uint64_t> reads_by_lag;
  std::optional<double> share_local;  ///< part of the rows of dynamic tables that were pulled and pushed
  std::uint64_t rows_moved = 0;
  std::uint64_t rows_replicated = 0;
  /// Time from a localize, or from an intent for which rows moved, until the last of these rows has come;
  /// nullopt if there was none.
  std::optional<double> move_p50_seconds;
  std::optional<double> move_p99_seconds;
  double elapsed_seconds = 0;  ///< from its start to its end
  ProcessorTime processor_time = {};
  std::uint64_t update_bytes = 0;     ///< of the messages with workers' updates
  std::uint64_t bytes_to_copies = 0;  ///< as RunRecord has it
};

enum class Verdict : std::uint8_t { kHeld, kDidNotHold, kNotSeen };
std::string_view to_string(Verdict verdict);

struct Finding {
  std::string expectation;
  std::string found;
  Verdict verdict = Verdict::kNotSeen;
};

struct ReportTable {
  std::string title;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  ///< each has as many cells as the head
};

struct ReportChart {
  std::string title;
  std::string svg;
  std::string note;
};

struct Judgement {
  std::vector<Finding> findings;
  std::vector<ReportTable> tables;
  std::vector<ReportChart> charts;
};

class Experiment {
 public:
  virtual ~Experiment() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view description() const = 0;  ///< one line, for --help
  /// What the experiment does, and why this shows what it is to show; a paragraph.
  [[nodiscard]] virtual std::string_view method() const = 0;
  [[nodiscard]] virtual bool needs_documents() const { return false; }
  [[nodiscard]] virtual bool needs_triples() const { return false; }
  [[nodiscard]] virtual bool needs_examples() const { return false; }
  [[nodiscard]] virtual bool needs_small_ratings() const { return false; }
  /// Whether it runs peers beside ours.
  [[nodiscard]] virtual bool runs_peers() const { return false; }
  /// Whether it uses ExperimentOptions::models.
  [[nodiscard]] virtual bool compares_models() const { return true; }
  /// Whether it uses ExperimentOptions::nodes instead of servers and workers.
  [[nodiscard]] virtual bool compares_nodes() const { return false; }
  /// Whether it uses ExperimentOptions::replicas and before.
  [[nodiscard]] virtual bool compares_copies() const { return false; }
  /// Whether it uses ExperimentOptions::rounds.
  [[nodiscard]] virtual bool makes_rounds() const { return false; }
  /// Changes what options are by default.
  virtual void set_defaults(ExperimentOptions& /*options*/) const {}
  /// Decides what the options leave open.
  virtual void complete(ExperimentOptions& /*options*/) const {}
  [[nodiscard]] virtual std::vector<PlannedRun> plan(const ExperimentOptions& options) const = 0;
  /// `runs` are those of plan(), in order.
  [[nodiscard]] virtual Judgement judge(const std::vector<RunFigures>& runs) const = 0;
};

std::unique_ptr<Experiment> make_staleness_experiment();
std::unique_ptr<Experiment> make_convergence_experiment();
std::unique_ptr<Experiment> make_stragglers_experiment();
std::unique_ptr<Experiment> make_allocation_experiment();
std::unique_ptr<Experiment> make_cost_experiment();
std::unique_ptr<Experiment> make_copies_experiment();

// --- what experiments plan with

/// A run with the options that all runs of an experiment share, and with `item_time` if the options leave it
/// open. Workers read rows through the row cache, as over a network: if they read them in the server's
/// memory, on one host, all models would see the newest values.
PlannedRun plan_run(const ExperimentOptions& options, std::string_view application, const std::string& model,
                    std::chrono::nanoseconds item_time);
void add_arguments(PlannedRun& run, const std::vector<std::string>& arguments);
/// The file in the options that the application is trained on.
const std::string& data_of(const ExperimentOptions& options, std::string_view application);
/// The iterations in the options, or else `usual`; passes of ctr.
std::int64_t iterations_of(const ExperimentOptions& options, std::int64_t usual);
/// `application` trained on `data`, and evaluated about as often as `evaluations` says, the last time in the
/// end; ctr without a test, since it knows its loss as it trains.
std::vector<std::string> training_arguments(const ExperimentOptions& options, const std::string& application,
                                            const std::string& data, std::int64_t iterations,
                                            std::int64_t evaluations = 1);
/// 1, 2, 4, … and the last one itself: numbers of workers.
std::vector<std::uint32_t> doubled_up_to(std::uint32_t most);
/// The argument with which each item takes every worker `item_time`.
std::string item_time_argument(std::chrono::nanoseconds item_time);
/// Matrix factorization for comparing models, with something to compute between two clocks. An iteration is 5
/// clocks for each worker: if workers are no more than 4 clocks apart, no two train an item without having
/// seen each other.
std::vector<std::string> factorization_arguments(const ExperimentOptions& options);
/// The options' models, or else `models`.
std::vector<std::string> models_of(const ExperimentOptions& options, const std::vector<std::string>& models);

// --- what experiments judge by

using Points = std::vector<std::pair<double, double>>;
Points by_iteration(const RunFigures& run);  ///< the run's objective, wherever it was evaluated
Points by_second(const RunFigures& run);     ///< the same by seconds of training

/// The run of this application and model; without a straggler and a budget if the caller names none. nullptr
/// if there is no such run or it failed.
const RunFigures* find_run(const std::vector<RunFigures>& runs, std::string_view application,
                           std::string_view model, double straggler = 1, double budget_mb_per_s = 0);

/// An objective to reach, taken from the run that others are compared with: `share` of the way from that
/// run's first evaluated objective to its last.
struct Target {
  double objective = 0;
  double way = 0;  ///< from the first to the last objective; negative if it is to fall
};
std::optional<Target> target_of(const RunFigures& run, double share);

/// Seconds of training until the target was reached, interpolated linearly between two evaluations. nullopt
/// if the target was never reached. `points`: as by_second() has them.
std::optional<double> seconds_to(const Points& points, const Target& target);
inline std::optional<double> seconds_to(const RunFigures& run, const Target& target) {
  return seconds_to(by_second(run), target);
}

/// How much farther `run` ended than `measure`, in parts of the target's way: below 0 if it did worse.
std::optional<double> ahead_in_the_end(const RunFigures& run, const RunFigures& measure,
                                       const Target& target);

/// The mean clock differential of the run's reads; nullopt if there were none.
std::optional<double> mean_clock_differential(const RunFigures& run);
double share_of_reads(const RunFigures& run, std::size_t lag);

Verdict verdict_of(bool held);

/// "1.23×", or "–" for nullopt.
std::string times_text(const std::optional<double>& times);
/// "1.23 s", "never".
std::string seconds_text(const std::optional<double>& seconds);

}  // namespace verbena::apps
