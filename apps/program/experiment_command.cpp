#include "apps/program/experiment_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "apps/conditions/delayed_transport.hpp"
#include "apps/conditions/fields.hpp"
#include "apps/conditions/slowdown.hpp"
#include "apps/data/bundled.hpp"
#include "apps/data/generate_clicks.hpp"
#include "apps/data/generate_ratings.hpp"
#include "apps/data/triples.hpp"
#include "apps/experiment/experiment.hpp"
#include "apps/experiment/experiment_output.hpp"
#include "apps/experiment/experiment_report.hpp"
#include "apps/launcher/host_run.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/options/completion.hpp"
#include "apps/options/numbers.hpp"
#include "apps/options/validators.hpp"
#include "apps/peers/peer.hpp"
#include "apps/peers/program.hpp"
#include "apps/program/failover_command.hpp"
#include "apps/program/scale_command.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/format.hpp"
#include "base/cores.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "job/child_message.hpp"
#include "job/starters.hpp"
#include "protocol/messages.hpp"

namespace verbena::apps {
namespace {

constexpr std::uint32_t kMostNodes = 64;

struct ExperimentCommand {
  ExperimentOptions experiment;
  std::map<std::string, std::string> peer_programs;  ///< by the peer's name in lower case
  bool no_peers = false;
  std::string output;
  bool quiet = false;
};

/// How one of the experiment's runs ended.
struct RunEnd {
  absl::Status status;
  int signal = 0;
};

RunFigures figures_of(const PlannedRun& planned, const RunSettings& settings, const RunRecord& record) {
  RunFigures figures{.planned = planned,
                     .objective = planned.objective.empty() ? settings.main_objective : planned.objective,
                     .iterations = record.iterations(),
                     .training_seconds = record.training_seconds(),
                     .throughput = record.throughput(),
                     .share_waited = record.share_waited(),
                     .reads_by_lag = record.staleness().reads_by_lag,
                     .share_local = record.share_local(),
                     .rows_moved = record.rows_moved(),
                     .rows_replicated = record.total(&SessionStatistics::rows_replicated),
                     .move_p50_seconds = record.move_times().quantile_seconds(0.5),
                     .move_p99_seconds = record.move_times().quantile_seconds(0.99),
                     .processor_time = record.processor_time(),
                     .update_bytes = record.total(&SessionStatistics::update_bytes),
                     .bytes_to_copies = record.bytes_to_copies()};
  for (const WorkerRecord& worker : record.workers()) {
    figures.share_waited_by_worker.push_back(worker.share_waited());
  }
  return figures;
}

/// Runs a peer, and keeps what it says as figures of a run.
RunEnd make_peer_run(const PlannedRun& planned, RunFigures& figures) {
  figures.objective = std::string(planned.peer->objective());
  RunEnd end;
  end.status = run_peer(*planned.peer, planned.program, planned.peer_task, [&](const PeerIteration& said) {
    figures.training_seconds += said.seconds;
    IterationRecord record{.iteration = said.iteration,
                           .items = said.items,
                           .seconds = said.seconds,
                           .training_seconds = figures.training_seconds};
    if (said.objective) record.objectives[figures.objective] = *said.objective;
    figures.iterations.push_back(std::move(record));
  });
  double items = 0;
  for (const IterationRecord& record : figures.iterations) items += record.items;
  if (figures.training_seconds > 0) figures.throughput = items / figures.training_seconds;
  return end;
}

/// Makes one run like `verbena run`, but keeps its figures instead of printing them.
RunEnd make_run(const PlannedRun& planned, bool quiet, RunFigures& figures) {
  RunEnd end;
  const CarryOutRun carry_out = [&](const RunOptions& given, Application& application,
                                    const ApplicationOptions& options) {
    RunOptions run = given;
    if (!run.job.checkpoints.folder.empty() || !run.job.checkpoints.resume_from.empty()) {
      end.status =
          absl::InvalidArgumentError("--checkpoint, --resume-from: each run of an experiment is whole");
      return kExitFailed;
    }
    end.status = prepare_host_run(run, application);
    if (!end.status.ok()) return kExitFailed;
    const RunSettings settings = run_settings(application, options, run.job, run.baseline);
    RunRecord record(run.job.total_workers(), [&](const auto& sums) { return application.objectives(sums); });
    // Lines that models print go where the progress goes: the experiment's own output is its table.
    Display display(settings, Display::mode_for(stderr, quiet), stderr, stderr);
    RunMonitor monitor(record, display, nullptr);
    HostRunEnd ended = carry_out_host_run(run, application, options, monitor);
    end = {std::move(ended.status), ended.signal};
    figures = figures_of(planned, settings, record);
    figures.elapsed_seconds = monitor.elapsed_seconds();
    return kExitOk;
  };
  CLI::App program("", "verbena");
  const Applications applications = make_applications();
  Run run;
  add_run_command(program, applications, carry_out, {}, &run);
  std::vector<std::string> arguments = planned.arguments;
  arguments.insert(arguments.begin(), "run");
  std::reverse(arguments.begin(), arguments.end());  // CLI11 wants them in reverse order
  try {
    program.parse(arguments);
  } catch (const CLI::ParseError& error) {
    end.status = absl::InvalidArgumentError(error.what());
    return end;
  }
  run(job::LaunchLetter{});
  return end;
}

struct ChosenPeer {
  std::shared_ptr<Peer> peer;
  std::string program;
};
/// Those that are named, and those that are installed under their usual names.
std::vector<ChosenPeer> choose_peers(const ExperimentCommand& options) {
  std::vector<ChosenPeer> chosen;
  for (const std::shared_ptr<Peer>& peer : make_peers()) {
    const auto named = options.peer_programs.find(absl::AsciiStrToLower(std::string(peer->name())));
    if (named != options.peer_programs.end()) {
      chosen.push_back({peer, named->second});
    } else if (!options.no_peers && is_installed(std::string(peer->program()))) {
      chosen.push_back({peer, std::string(peer->program())});
    }
  }
  return chosen;
}

/// Decides the options that were left open, and makes the ratings and examples if none were given.
absl::Status prepare(const Experiment& experiment, ExperimentCommand& options) {
  ExperimentOptions& chosen = options.experiment;
  RETURN_IF_ERROR(job::check_started_once());
  if (options.output.empty()) options.output = fmt::format("experiment-{}", experiment.name());
  if (experiment.needs_documents() && !std::filesystem::exists(chosen.documents)) {
    return absl::NotFoundError(fmt::format("--documents {}: there is no such file", chosen.documents));
  }
  if (experiment.needs_triples() && !std::filesystem::is_directory(chosen.triples)) {
    return absl::NotFoundError(fmt::format("--triples {}: there is no such folder", chosen.triples));
  }
  if (!chosen.examples.empty() && !std::filesystem::exists(chosen.examples)) {
    return absl::NotFoundError(fmt::format("--examples {}: there is no such file", chosen.examples));
  }
  experiment.complete(chosen);
  struct Made {
    std::string path;
    const char* application;  ///< as for `verbena generate`
    std::function<absl::Status(const std::string& path)> make;
  };
  std::vector<Made> to_make;
  Files files;
  const auto make_or_read = [&](const char* option, std::string& path, const char* name,
                                const char* application, auto make) {
    if (!path.empty()) return files.reads(option, path);
    path = options.output + "/" + name;
    files.writes("--output", path);
    to_make.push_back({path, application, make});
  };
  const auto make_ratings = [](const GenerateRatingsOptions& generate) {
    return [=](const std::string& path) { return generate_ratings(generate, path); };
  };
  make_or_read("--data", chosen.ratings, "ratings.tsv", "mf", make_ratings({}));
  if (experiment.needs_small_ratings())
    make_or_read("--small-data", chosen.small_ratings, "small-ratings.tsv", "mf",
                 make_ratings({.users = 1000, .items = 1700, .ratings = 100'000}));
  if (experiment.needs_examples())
    make_or_read("--examples", chosen.examples, "examples.ffm", "ctr",
                 [](const std::string& path) { return generate_clicks({}, path).status(); });
  if (experiment.needs_documents()) files.reads("--documents", chosen.documents);
  if (experiment.needs_triples()) {
    for (const std::string& path : triple_files(chosen.triples)) files.reads("--triples", path);
  }
  std::vector<ChosenPeer> peers;
  if (experiment.runs_peers()) peers = choose_peers(options);
  for (const ChosenPeer& each : peers) {
    for (const std::string& file : each.peer->files(options.output)) files.writes("--output", file);
  }
  RETURN_IF_ERROR(make_output_folder(options.output, std::move(files)));
  for (const Made& made : to_make) {
    if (!options.quiet)
      print_error("writing {}, as `verbena generate {}` does\n", base::printable(made.path),
                  made.application);
    RETURN_IF_ERROR(made.make(made.path));
  }
  for (const auto& [peer, program] : peers) {
    RETURN_IF_ERROR(peer->prepare(data_of(chosen, peer->application()), chosen.seed, options.output));
    chosen.peers.push_back({peer, program});
  }
  return absl::OkStatus();
}

absl::Status write_all(const Experiment& experiment, const ExperimentCommand& options,
                       const std::vector<RunFigures>& runs) {
  const std::string how = circumstances(experiment, options.experiment, base::cores_at_hand());
  const Judgement judgement = experiment.judge(runs);
  const std::string text = experiment_text(experiment, how, judgement, runs);
  return write_experiment(options.output,
                          {.table = text,
                           .numbers = job::to_line(experiment_json(experiment, how, judgement, runs), 1),
                           .page = experiment_html(experiment, how, judgement, runs)});
}

std::string outcome_text(const RunFigures& run) {
  if (!run.failure.empty()) return run.failure;
  const Points points = by_iteration(run);
  const std::string objective =
      points.empty() ? "not evaluated"
                     : fmt::format("{} {}", run.objective, format_objective(points.back().second));
  return fmt::format("{} in {} of training", objective, format_seconds(run.training_seconds));
}

int run_experiment(const Experiment& experiment, ExperimentCommand options) {
  if (absl::Status status = prepare(experiment, options); !status.ok()) return report_error(status);
  const std::vector<PlannedRun> plan = experiment.plan(options.experiment);
  std::vector<RunFigures> runs;
  bool any_failed = false;
  const auto start = std::chrono::steady_clock::now();
  for (const PlannedRun& planned : plan) {
    RunFigures figures{.planned = planned};
    const RunEnd end =
        planned.peer != nullptr ? make_peer_run(planned, figures) : make_run(planned, options.quiet, figures);
    if (end.signal != 0) {
      print_error("verbena: stopped by SIG{}\n", ::sigabbrev_np(end.signal));
      return kExitSignalBase + end.signal;
    }
    if (!end.status.ok()) {
      // The first run shows whether the input is good; a failure of a later run is a result.
      if (runs.empty()) return report_error(end.status);
      figures.failure = std::string(base::printable(end.status).message());
      any_failed = true;
    }
    runs.push_back(std::move(figures));
    if (options.quiet) continue;
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto done = static_cast<double>(runs.size());
    const double left = elapsed / done * static_cast<double>(plan.size() - runs.size());
    print_error("{}/{} {}: {}; {} left\n", runs.size(), plan.size(), planned.label, outcome_text(runs.back()),
                format_clock(left));
  }
  if (absl::Status status = write_all(experiment, options, runs); !status.ok()) {
    report_error(status);
    return kExitFailed;
  }
  return any_failed ? kExitFailed : kExitOk;
}

absl::Status check_peer(const std::string& text) {
  std::vector<std::string> names;
  for (const std::shared_ptr<Peer>& peer : make_peers()) {
    names.push_back(absl::AsciiStrToLower(std::string(peer->name())));
    if (text.starts_with(names.back() + "=") && text.size() > names.back().size() + 1)
      return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("expected {}=PROGRAM, found {}", fmt::join(names, " or "), text));
}

void add_experiment_options(CLI::App& command, const Experiment& experiment, ExperimentCommand& options) {
  constexpr const char* kInput = "Input";
  constexpr const char* kProcesses = "Processes";
  ExperimentOptions& chosen = options.experiment;
  experiment.set_defaults(chosen);
  chosen.documents = kBundledChapters;
  chosen.triples = kBundledTriples;
  command
      .add_option(
          "--data", chosen.ratings,
          "Ratings, in any format that `verbena run mf` reads. By default made anew, as `verbena generate "
          "mf` does, in the output folder.")
      ->type_name("FILE")
      ->group(kInput);
  if (experiment.needs_small_ratings()) {
    command
        .add_option("--small-data", chosen.small_ratings,
                    "A hundred thousand ratings or so; by default made anew, like --data.")
        ->type_name("FILE")
        ->group(kInput);
  }
  if (experiment.needs_documents()) {
    command
        .add_option("--documents", chosen.documents, "Documents, in any format that `verbena run lda` reads.")
        ->type_name("FILE")
        ->group(kInput)
        ->capture_default_str();
  }
  if (experiment.needs_triples()) {
    command.add_option("--triples", chosen.triples, "Triples, in any format that `verbena run kge` reads.")
        ->type_name("FOLDER")
        ->group(kInput)
        ->capture_default_str();
  }
  if (experiment.needs_examples()) {
    command
        .add_option("--examples", chosen.examples,
                    "Examples, in any format that `verbena run ctr` reads. By default made anew, as `verbena "
                    "generate ctr` does, in the output folder.")
        ->type_name("FILE")
        ->group(kInput);
  }
  add_number(command, "--seed", chosen.seed, "Of all runs.")->group(kInput)->capture_default_str();
  if (experiment.compares_copies()) {
    add_number(command, "--replicas", chosen.replicas, "Copies of each server, where there are some.",
               {1, kMostReplicas})
        ->type_name("K")
        ->group(kProcesses)
        ->capture_default_str();
    command
        .add_option("--before", chosen.before,
                    "Another build of this program, to be run without copies beside this one: what this one "
                    "has become slower by.")
        ->type_name("FILE")
        ->group(kInput);
  }
  add_number(command, "--iterations", chosen.iterations,
             "Of each run; by default as many as the experiment needs.", {1, 1'000'000})
      ->type_name("N")
      ->group(kInput);
  if (experiment.makes_rounds()) {
    add_number(command, "--rounds", chosen.rounds,
               "Make each run so many times, by turns, and judge by the middle one; by default as the "
               "experiment has it.",
               {1, 100})
        ->type_name("N")
        ->group(kInput);
  }
  if (experiment.runs_peers()) {
    CLI::Option* const peer =
        command
            .add_option_function<std::vector<std::string>>(
                "--peer",
                [&options](const std::vector<std::string>& all) {
                  for (const std::string& each : all)
                    options.peer_programs.insert(absl::StrSplit(each, absl::MaxSplits('=', 1)));
                },
                "Where another program is that is to be run beside ours; by default mf-train, mallet, "
                "fasttext "
                "and liblinear-train, if they are in PATH.")
            ->type_name("libmf=PROGRAM|mallet=PROGRAM|fasttext=PROGRAM|liblinear=PROGRAM")
            ->check(accepted_by([](const std::string& text) { return check_peer(text); }))
            ->group(kInput);
    command.add_flag("--no-peers", options.no_peers, "Run no other programs.")->excludes(peer)->group(kInput);
  }
  if (experiment.compares_models()) {
    command
        .add_option(
            "--models", chosen.models,
            "Run these, as for --consistency of `verbena run`, instead of those that the experiment is "
            "about; what is missing cannot be judged.")
        ->type_name(kModelChoices)
        ->option_text("MODEL,…")
        ->delimiter(',')
        ->check(accepted_by([](const std::string& text) { return parse_consistency(text).status(); }))
        ->group(kProcesses);
  }
  if (experiment.compares_nodes()) {
    add_number(
        command, "--nodes", chosen.nodes,
        "Make jobs of so many nodes, each a server and a worker; by default those that the experiment is "
        "about.",
        {2, kMostNodes})
        ->type_name("N,…")
        ->delimiter(',')
        ->group(kProcesses);
  } else {
    add_number(command, "--servers", chosen.servers, "Server processes of each run.",
               {1, protocol::kMaxWorkers})
        ->type_name("S")
        ->group(kProcesses)
        ->capture_default_str();
    add_number(command, "--workers", chosen.workers,
               experiment.compares_models() ? "Worker processes of each run."
                                            : "The most worker processes of a run.",
               {2, protocol::kMaxWorkers})
        ->type_name("W")
        ->group(kProcesses)
        ->capture_default_str();
  }
  command
      .add_option_function<std::string>(
          "--item-time", [&chosen](const std::string& text) { chosen.item_time = *parse_duration(text); },
          "What each rating or token takes a worker, such as 500ns, whatever it takes here: long enough for "
          "workers that share a core to go as if each had its own (docs/experiments.md). By default as the "
          "experiment has it.")
      ->type_name("TIME")
      ->check(accepted_by([](const std::string& text) {
        return parse_slow(fmt::format("worker=all,item={}", text)).status();
      }))
      ->group(kProcesses);
  command
      .add_option(
          "--network", chosen.network,
          "What the network is to cost, as for `verbena run`, for instance latency=10us,bandwidth=1Gb/s; by "
          "default nothing, or what the experiment needs.")
      ->type_name("latency=TIME,bandwidth=RATE[,hosts=nodes]")
      ->check(accepted_by([](const std::string& text) { return parse_job_network(text).status(); }))
      ->group(kProcesses);
  command
      .add_option("--output", options.output,
                  "Where table.txt, numbers.json and report.html are written; made if it is not there. By "
                  "default experiment-NAME.")
      ->type_name("FOLDER")
      ->group("Output");
  command.add_flag("-q,--quiet", options.quiet, "No progress; the table at the end only.")->group("Output");
}

void add_experiment(CLI::App& command, const std::shared_ptr<Experiment>& experiment, Run* run) {
  auto options = std::make_shared<ExperimentCommand>();
  CLI::App* app =
      command.add_subcommand(std::string(experiment->name()),
                             fmt::format("{}\n\n{}", experiment->description(), experiment->method()));
  app->group("Experiments");
  add_experiment_options(*app, *experiment, *options);
  const std::string name(experiment->name());
  app->footer(examples({fmt::format("verbena experiment {}", name),
                        fmt::format("verbena experiment {} --data FILE --output FOLDER", name)}));
  app->callback([options, experiment, run] {
    *run = [options, experiment](const job::LaunchLetter&) { return run_experiment(*experiment, *options); };
  });
}

}  // namespace

void add_experiment_command(CLI::App& program, Run* run) {
  CLI::App* command = program.add_subcommand(
      "experiment",
      "measure the consistency models, rows that move, the cost of the parameter server and of copies, and "
      "what becomes of runs whose servers die, against what is expected of them\n\nMakes several "
      "runs one after "
      "another, "
      "as `verbena run` does, and writes a table, the numbers and a page with curves. Each expectation is "
      "stated first, then what was found; an expectation that did not hold is no failure. "
      "docs/experiments.md "
      "says what each experiment shows.");
  command->require_subcommand(1);
  for (auto make : {make_staleness_experiment, make_convergence_experiment, make_stragglers_experiment,
                    make_allocation_experiment, make_cost_experiment, make_copies_experiment}) {
    add_experiment(*command, make(), run);
  }
  add_scale_experiment(*command, run);
  add_failover_experiment(*command, run);
}

}  // namespace verbena::apps
