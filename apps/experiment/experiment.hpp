// An experiment: expectations that are written down first, runs of the launcher one after another, and what
// was found. What to run and what to make of it are functions of their arguments; experiment_command.cpp
// makes the runs in between.
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

#include "apps/report/run_record.hpp"

namespace verbena::apps {

struct ExperimentOptions {
  std::string ratings;              ///< for mf
  std::string documents;            ///< for lda
  std::string triples;              ///< for kge
  std::vector<std::string> models;  ///< as for --consistency; empty: those that the experiment is about
  std::uint32_t servers = 2;
  std::uint32_t workers = 4;
  /// Instead of servers and workers: jobs of so many nodes, each a server and a worker.
  std::vector<std::uint32_t> nodes;
  std::int64_t iterations = 0;  ///< 0: as many as the experiment needs
  std::uint32_t rounds = 0;     ///< so many times each run is made, by turns; 0: as the experiment has it
  std::uint64_t seed = 1;
  /// What each rating or token takes a worker, whatever it takes here (see slowdown.hpp): long enough for all
  /// workers together to need a part of the host's cores only, so that each goes as if it had one of its own.
  /// 0: as the experiment has it.
  std::chrono::nanoseconds item_time{0};
  std::string network;  ///< as for --network; empty: as it is
};

/// A run to be made, as `verbena run` is told it.
struct PlannedRun {
  std::string label;  ///< unlike the experiment's others
  std::string application;
  std::string consistency;             ///< as for --consistency
  double straggler = 1;                ///< so many times slower than the others is one worker; 1: none
  double budget_mb_per_s = 0;          ///< of managed communication, as for --budget; 0: none
  std::string allocation;              ///< how rows come to workers, where runs differ in that
  std::uint32_t nodes = 0;             ///< of the job, where runs differ in that
  std::uint32_t round = 1;             ///< of runs that are alike
  std::vector<std::string> arguments;  ///< after `verbena run`
};

/// What an experiment sees of a run.
struct RunFigures {
  PlannedRun planned;
  std::string failure;  ///< empty: it has succeeded; otherwise the rest is not there
  std::string objective;
  std::vector<IterationRecord> iterations;
  double training_seconds = 0;
  double throughput = 0;
  double share_waited = 0;
  std::vector<double> share_waited_by_worker;
  std::vector<std::uint64_t> reads_by_lag;
  std::optional<double> share_local;  ///< of the rows of dynamic tables that were pulled and pushed
  std::uint64_t rows_moved = 0;
  std::uint64_t rows_replicated = 0;
  /// Of a localize, or an intent for which rows moved, until the last of them has come; nothing if there was
  /// none.
  std::optional<double> move_p50_seconds;
  std::optional<double> move_p99_seconds;
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
  std::vector<std::vector<std::string>> rows;  ///< as many cells as the head has
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
  /// What is done, and why it shows what it is to show; a paragraph.
  [[nodiscard]] virtual std::string_view method() const = 0;
  [[nodiscard]] virtual bool needs_documents() const { return false; }
  [[nodiscard]] virtual bool needs_triples() const { return false; }
  /// Whether it makes use of ExperimentOptions::models.
  [[nodiscard]] virtual bool compares_models() const { return true; }
  /// Whether it makes use of ExperimentOptions::nodes, and not of servers and workers.
  [[nodiscard]] virtual bool compares_nodes() const { return false; }
  /// Whether it makes use of ExperimentOptions::rounds.
  [[nodiscard]] virtual bool makes_rounds() const { return false; }
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

// --- what experiments plan with

/// Options that all runs of an experiment share; `item_time` where the options leave it open. Rows are read
/// through the row cache, as over a network: where they lie, on one host, all models would see the newest.
PlannedRun plan_run(const ExperimentOptions& options, std::string_view application, const std::string& model,
                    std::chrono::nanoseconds item_time);
void add_arguments(PlannedRun& run, const std::vector<std::string>& arguments);
/// What the application is trained on, of the options.
const std::string& data_of(const ExperimentOptions& options, std::string_view application);
/// Those of the options, or else `usual`.
std::int64_t iterations_of(const ExperimentOptions& options, std::int64_t usual);
/// That each item takes every worker so long.
std::string item_time_argument(std::chrono::nanoseconds item_time);
/// Matrix factorization where models are compared, with something to compute between two clocks. An iteration
/// is 5 clocks for each worker: where they are no more than 4 apart, no two train an item without having seen
/// each other.
std::vector<std::string> factorization_arguments(const ExperimentOptions& options);
/// The options' models, or else `models`.
std::vector<std::string> models_of(const ExperimentOptions& options, const std::vector<std::string>& models);

// --- what experiments judge by

using Points = std::vector<std::pair<double, double>>;
Points by_iteration(const RunFigures& run);  ///< its objective, where it was evaluated
Points by_second(const RunFigures& run);     ///< of training

/// Of the application and model, without a straggler and a budget unless they are named; nullptr if there is
/// none or it failed.
const RunFigures* find_run(const std::vector<RunFigures>& runs, std::string_view application,
                           std::string_view model, double straggler = 1, double budget_mb_per_s = 0);

/// An objective to reach, from a run that is the measure: `share` of the way from what it had when it was
/// first evaluated to what it had in the end.
struct Target {
  double objective = 0;
  double way = 0;  ///< from the first to the last; negative where the objective is to fall
};
std::optional<Target> target_of(const RunFigures& run, double share);

/// Seconds of training until the target was reached; between two evaluations as if the objective moved
/// evenly. Nothing if it never was.
std::optional<double> seconds_to(const RunFigures& run, const Target& target);

/// How much farther `run` ended than `measure`, in parts of the target's way: below 0 if it did worse.
std::optional<double> ahead_in_the_end(const RunFigures& run, const RunFigures& measure,
                                       const Target& target);

/// Of its reads, by clock differential; nothing if there were none.
std::optional<double> mean_clock_differential(const RunFigures& run);
double share_of_reads(const RunFigures& run, std::size_t lag);

Verdict verdict_of(bool held);

/// "1.23×", or "–" for nothing.
std::string times_text(const std::optional<double>& times);
/// "1.23 s", "never".
std::string seconds_text(const std::optional<double>& seconds);

}  // namespace verbena::apps
