#include "apps/program/failover_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "apps/data/bundled.hpp"
#include "apps/experiment/experiment_failover.hpp"
#include "apps/experiment/experiment_output.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/options/numbers.hpp"
#include "apps/peers/program.hpp"
#include "apps/program/watched_run.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "apps/report/format.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "job/child_message.hpp"
#include "job/starters.hpp"
#include "protocol/messages.hpp"

namespace verbena::apps {
namespace {

using FailoverClock = std::chrono::steady_clock;

/// A run that is hit for less time than this shows nothing.
constexpr auto kLeastTime = std::chrono::seconds(1);

struct FailoverCommand {
  FailoverOptions failover;
  std::string output = "experiment-failover";
  bool quiet = false;
};

/// What a run has written, by the names of the files.
using ModelFiles = std::map<std::string, std::string>;

ModelFiles read_model(const std::string& folder) {
  ModelFiles model;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    model[entry.path().filename().string()] = std::move(text).str();
  }
  return model;
}

/// The path of this program: a name like /proc/self/exe would stand in the run's provenance.
std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "/proc/self/exe" : path.string();
}

/// Makes a run, and reads its model.
absl::StatusOr<ModelFiles> make_watched_run(const FailoverCommand& options, Saboteur* saboteur,
                                            FailoverClock::time_point peace, FailoverRun& run) {
  const std::string folder = options.output + "/model";
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  std::filesystem::create_directories(folder, error);
  if (error) return absl::InternalError(fmt::format("{}: {}", folder, error.message()));
  const std::string pipe_path = options.output + "/metrics.pipe";
  absl::StatusOr<MetricsPipe> pipe = MetricsPipe::make(pipe_path);
  if (!pipe.ok()) return pipe.status();
  std::vector<std::string> arguments = failover_arguments(options.failover);
  arguments.insert(arguments.begin(), own_program());
  arguments.insert(arguments.end(), {fmt::format("--output={}/model", folder),
                                     fmt::format("--metrics={}", pipe_path), "--quiet"});
  absl::StatusOr<std::unique_ptr<Program>> program = Program::start(arguments);
  if (!program.ok()) return program.status();
  RETURN_IF_ERROR(WatchedRun(**program, *pipe, saboteur, run).watch(peace));
  ModelFiles model = read_model(folder);
  std::filesystem::remove_all(folder, error);
  if (model.empty()) return absl::InternalError("it has written no model");
  return model;
}

void show_progress(const FailoverRun& run) {
  std::size_t stopped = 0;
  for (const Fault& fault : run.faults) stopped += fault.kind == Fault::Kind::kStopped ? 1 : 0;
  print_error("{}: {}; {} killed, {} stopped, {}\n", run.label,
              run.failure.empty() ? "it has ended as it should" : base::printable(run.failure),
              run.faults.size() - stopped, stopped, format_seconds(run.seconds));
}

/// Runs of which servers die, until the time is over.
std::vector<FailoverRun> make_disturbed_runs(const FailoverCommand& options, const ModelFiles& wanted) {
  std::vector<FailoverRun> runs;
  const FailoverClock::time_point end =
      FailoverClock::now() + std::chrono::duration_cast<FailoverClock::duration>(
                                 std::chrono::duration<double>(options.failover.minutes * 60));
  do {
    FailoverRun& run = runs.emplace_back();
    run.label = fmt::format("run {}", runs.size());
    Saboteur saboteur(mix(options.failover.seed ^ mix(runs.size())), options.failover.seconds_between,
                      options.failover.hit == kHitWorkers);
    const absl::StatusOr<ModelFiles> model = make_watched_run(options, &saboteur, end, run);
    if (!model.ok()) {
      run.failure = std::string(base::printable(model.status()).message());
    } else if (trains_the_same(options.failover) && *model != wanted) {
      run.differs = true;
      run.failure = "its model is not that of the undisturbed run";
    }
    if (!options.quiet) show_progress(run);
  } while (FailoverClock::now() + kLeastTime < end);
  return runs;
}

int run_failover(const FailoverCommand& options) {
  if (absl::Status status = job::check_started_once(); !status.ok()) return report_error(status);
  if (absl::Status status = check(options.failover); !status.ok()) return report_error(status);
  if (!std::filesystem::exists(options.failover.data)) {
    return report_error(
        absl::NotFoundError(fmt::format("--data {}: there is no such file", options.failover.data)));
  }
  if (absl::Status status = make_output_folder(options.output); !status.ok()) return report_error(status);
  std::vector<FailoverRun> runs(1);
  runs.front().label = "undisturbed";
  const absl::StatusOr<ModelFiles> wanted =
      make_watched_run(options, nullptr, FailoverClock::now(), runs.front());
  // It shows whether the input is good; a failure of a later run is a result.
  if (!wanted.ok()) return report_error(wanted.status());
  if (!options.quiet) show_progress(runs.front());
  for (FailoverRun& run : make_disturbed_runs(options, *wanted)) runs.push_back(std::move(run));
  const Judgement judgement = judge_failover(options.failover, runs);
  const ReportSubject subject = failover_subject(options.failover);
  const std::vector<ReportedRun> reported = reported_runs(options.failover, runs);
  const absl::Status written = write_experiment(
      options.output, {.table = report_text(subject, judgement, reported),
                       .numbers = job::to_line(failover_report_json(options.failover, judgement, runs), 1),
                       .page = report_html(subject, judgement, reported)});
  if (!written.ok()) {
    report_error(written);
    return kExitFailed;
  }
  const bool any_failed =
      std::ranges::any_of(runs, [](const FailoverRun& run) { return !run.failure.empty(); });
  return any_failed ? kExitFailed : kExitOk;
}

void add_failover_options(CLI::App& command, FailoverOptions& chosen) {
  constexpr const char* kRuns = "Runs";
  constexpr const char* kFaults = "Faults";
  std::set<std::string> all(std::begin(kFailoverApplications), std::end(kFailoverApplications));
  all.insert(std::begin(kReplacementApplications), std::end(kReplacementApplications));
  command
      .add_option(
          "--application", chosen.application,
          fmt::format("What is trained: with --hit servers {}; with --hit workers {}.",
                      fmt::join(kFailoverApplications, ", "), fmt::join(kReplacementApplications, ", ")))
      ->type_name(fmt::format("{}", fmt::join(all, "|")))
      ->check(CLI::IsMember(all))
      ->group(kRuns)
      ->capture_default_str();
  command
      .add_option("--data", chosen.data,
                  "What it is trained on, as for `verbena run`; the default is for lda.")
      ->type_name("FILE")
      ->group(kRuns)
      ->capture_default_str();
  add_number(command, "--iterations", chosen.iterations,
             "Of each run (passes of ctr); by default as many as take some seconds.", {1, 1'000'000})
      ->type_name("N")
      ->group(kRuns);
  add_number(command, "--servers", chosen.servers, "Servers of each run; with --hit servers each has a copy.",
             {1, protocol::kMaxWorkers})
      ->type_name("S")
      ->group(kRuns)
      ->capture_default_str();
  add_number(command, "--workers", chosen.workers, "Worker processes of each run.",
             {1, protocol::kMaxWorkers})
      ->type_name("W")
      ->group(kRuns)
      ->capture_default_str();
  command
      .add_option(
          "--hit", chosen.hit,
          "Which processes are killed and stopped: servers, of which each has a copy then, or workers.")
      ->type_name(fmt::format("{}|{}", kHitServers, kHitWorkers))
      ->check(CLI::IsMember({kHitServers, kHitWorkers}))
      ->group(kFaults)
      ->capture_default_str();
  add_number(command, "--minutes", chosen.minutes,
             "How long processes are hit; the run that goes on then ends in peace.", {0.0, 100'000.0})
      ->type_name("N")
      ->group(kFaults)
      ->capture_default_str();
  add_number(command, "--seconds-between", chosen.seconds_between,
             "From one fault to the next, on average; longer where all copies have to be there again first.",
             {0.01, 3600.0})
      ->type_name("S")
      ->group(kFaults)
      ->capture_default_str();
  add_number(command, "--silence-timeout", chosen.silence_timeout_ms,
             "As for `verbena run`: when a process that is stopped is noticed.", {2000, 600'000})
      ->type_name("MS")
      ->group(kFaults)
      ->capture_default_str();
  add_number(command, "--seed", chosen.seed, "Of all runs, and of what is hit, and when.")
      ->group(kFaults)
      ->capture_default_str();
}

}  // namespace

void add_failover_experiment(CLI::App& experiment_command, Run* run) {
  auto options = std::make_shared<FailoverCommand>();
  options->failover.data = kBundledChapters;
  const ReportSubject subject = failover_subject(options->failover);
  CLI::App* app = experiment_command.add_subcommand(
      subject.name, fmt::format("{}\n\n{}", subject.description, subject.method));
  app->group("Experiments");
  add_failover_options(*app, options->failover);
  app->add_option("--output", options->output,
                  "Where table.txt, numbers.json and report.html are written; made if it is not there.")
      ->type_name("FOLDER")
      ->group("Output")
      ->capture_default_str();
  app->add_flag("-q,--quiet", options->quiet, "No progress; the table at the end only.")->group("Output");
  app->footer(examples({"verbena experiment failover", "verbena experiment failover --minutes 10 --seed 7",
                        "verbena experiment failover --application mf --data ratings.tsv",
                        "verbena experiment failover --hit workers --application kge --data wn18rr"}));
  app->callback(
      [options, run] { *run = [options](const job::LaunchLetter&) { return run_failover(*options); }; });
}

}  // namespace verbena::apps
