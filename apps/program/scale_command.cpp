#include "apps/program/scale_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/experiment/experiment_output.hpp"
#include "apps/experiment/experiment_scale.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/options/completion.hpp"
#include "apps/options/numbers.hpp"
#include "apps/options/validators.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/format.hpp"
#include "apps/scale/measure.hpp"
#include "consistency/model.hpp"
#include "job/child_message.hpp"
#include "job/starters.hpp"
#include "protocol/messages.hpp"

namespace verbena::apps {
namespace {

struct ScaleCommand {
  ScaleOptions scale;
  std::string output = "experiment-scale";
  bool quiet = false;
};

/// The time of a simulation grows with the number of connections, and of workers.
double effort(const ScaleRun& run) {
  return run.workers * (run.servers + 2.0);
}

void report_progress(const ScaleOptions& options, const std::vector<ScaleRun>& runs, std::size_t done,
                     double elapsed_seconds) {
  double effort_done = 0;
  double effort_left = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) (i < done ? effort_done : effort_left) += effort(runs[i]);
  const ScaleRun& run = runs[done - 1];
  print_error(
      "{}/{} {} workers, {}: {}; {} left\n", done, runs.size(), run.workers, run.model,
      run.failure.empty()
          ? fmt::format("{:.1f} clocks/s, {}", static_cast<double>(options.cell.clocks) / run.figures.seconds,
                        limit_text(run.figures))
          : run.failure,
      format_clock(elapsed_seconds / effort_done * effort_left));
}

int run_scale(ScaleCommand options) {
  ScaleOptions& chosen = options.scale;
  if (absl::Status status = job::check_started_once(); !status.ok()) return report_error(status);
  absl::StatusOr<std::vector<ScaleRun>> runs = plan_scale(chosen);
  if (!runs.ok()) return report_error(runs.status());
  if (absl::Status status = make_output_folder(options.output); !status.ok()) return report_error(status);
  scale::Costs& costs = chosen.cell.costs;
  if (!options.quiet && !all_known(costs)) print_error("measuring what work costs on this host\n");
  const auto measured = scale::measure(costs, {.rows = chosen.cell.rows, .width = chosen.cell.width});
  if (!measured.ok()) return report_error(measured.status());
  costs = *measured;
  if (!options.quiet) {
    for (const scale::CostField& field : scale::kCostFields)
      print_error("  --{:<19} {:>8g}  {}\n", fmt::format("{}-ns", field.name), costs.*field.value,
                  field.what);
  }
  bool any_failed = false;
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < runs->size(); ++i) {
    ScaleRun& run = (*runs)[i];
    absl::StatusOr<scale::CellFigures> figures = scale::simulate(cell_of(chosen, run));
    if (figures.ok()) {
      run.figures = *std::move(figures);
    } else {
      run.failure = std::string(figures.status().message());
      any_failed = true;
    }
    if (options.quiet) continue;
    report_progress(chosen, *runs, i + 1,
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const Judgement judgement = judge_scale(chosen, *runs);
  const ReportSubject subject = scale_subject(chosen);
  const std::vector<ReportedRun> reported = reported_runs(chosen, *runs);
  absl::Status status =
      write_experiment(options.output, {.table = report_text(subject, judgement, reported),
                                        .numbers = job::to_line(scale_json(chosen, judgement, *runs), 1),
                                        .page = report_html(subject, judgement, reported)});
  if (!status.ok()) {
    report_error(status);
    return kExitFailed;
  }
  return any_failed ? kExitFailed : kExitOk;
}

void add_job_options(CLI::App& command, ScaleOptions& chosen) {
  constexpr const char* kJobs = "Jobs";
  add_number(command, "--workers", chosen.workers, "Sizes of the jobs to simulate.",
             {1, protocol::kMaxWorkers})
      ->type_name("W,…")
      ->delimiter(',')
      ->group(kJobs)
      ->default_str(fmt::format("{}", fmt::join(chosen.workers, ",")));
  command.add_option("--models", chosen.models, "Consistency models, as for --consistency of `verbena run`.")
      ->type_name(kModelChoices)
      ->option_text("MODEL,…")
      ->delimiter(',')
      ->check(accepted_by([](const std::string& text) { return parse_consistency(text).status(); }))
      ->group(kJobs)
      ->default_str(fmt::format("{}", fmt::join(chosen.models, ",")));
  add_number(
      command, "--workers-per-server", chosen.workers_per_server,
      "How many workers a server has; the smallest jobs have one server. A connection takes about 0.1 MB "
      "of memory while its job is simulated.",
      {1, protocol::kMaxWorkers})
      ->type_name("N")
      ->group(kJobs)
      ->capture_default_str();
  add_number(command, "--servers", chosen.servers, "As many servers for each size instead.",
             {1, protocol::kMaxWorkers})
      ->type_name("S")
      ->group(kJobs);
  add_number(command, "--rows", chosen.cell.rows,
             "Of the table: every worker reads and updates all at each clock.", {1, 1'000'000})
      ->type_name("N")
      ->group(kJobs)
      ->capture_default_str();
  add_number(command, "--width", chosen.cell.width, "Floats a row.", {1, 65'536})
      ->type_name("N")
      ->group(kJobs)
      ->capture_default_str();
  add_number(command, "--examples", chosen.cell.examples, "That a worker computes on at each clock.",
             {0, 1'000'000'000})
      ->type_name("N")
      ->group(kJobs)
      ->capture_default_str();
  add_number(command, "--clocks", chosen.cell.clocks, "Of each job, beside four before that do not count.",
             {1, 100'000})
      ->type_name("N")
      ->group(kJobs)
      ->capture_default_str();
  add_number(command, "--seed", chosen.cell.seed, "Of all that varies.")->group(kJobs)->capture_default_str();
}

void add_cost_options(CLI::App& command, ScaleOptions& chosen) {
  constexpr const char* kCosts = "Costs";
  add_number(command, "--spread", chosen.cell.spread,
             "How much a clock's computing varies: its standard deviation, in parts of the mean.",
             {0.0, 10.0})
      ->type_name("PART")
      ->group(kCosts)
      ->capture_default_str();
  add_number(command, "--straggler", chosen.cell.straggler, "Worker 1 computes so many times slower.",
             {1.0, 1000.0})
      ->type_name("FACTOR")
      ->group(kCosts)
      ->capture_default_str();
  command
      .add_option("--network", chosen.network,
                  "Of a wire, in one direction, and of each node's card, in each direction.")
      ->type_name("latency=TIME,bandwidth=RATE")
      ->check(accepted_by([](const std::string& text) { return parse_network(text).status(); }))
      ->group(kCosts)
      ->capture_default_str();
  for (const scale::CostField& field : scale::kCostFields) {
    add_number(command, fmt::format("--{}-ns", field.name), chosen.cell.costs.*field.value,
               fmt::format("Nanoseconds: {}. By default measured.", field.what), {0.0, 1e9})
        ->type_name("NS")
        ->group(kCosts);
  }
}

}  // namespace

void add_scale_experiment(CLI::App& experiment_command, Run* run) {
  auto options = std::make_shared<ScaleCommand>();
  const ReportSubject subject = scale_subject(options->scale);
  CLI::App* app = experiment_command.add_subcommand(
      subject.name, fmt::format("{}\n\n{}", subject.description, subject.method));
  app->group("Experiments");
  add_job_options(*app, options->scale);
  add_cost_options(*app, options->scale);
  app->add_option("--output", options->output,
                  "Where table.txt, numbers.json and report.html are written; made if it is not there.")
      ->type_name("FOLDER")
      ->group("Output")
      ->capture_default_str();
  app->add_flag("-q,--quiet", options->quiet, "No progress; the table at the end only.")->group("Output");
  app->footer(examples({"verbena experiment scale",
                        "verbena experiment scale --workers 8,64,256 --models bsp,essp:1 --servers 4"}));
  app->callback(
      [options, run] { *run = [options](const job::LaunchLetter&) { return run_scale(*options); }; });
}

}  // namespace verbena::apps
