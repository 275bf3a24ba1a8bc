// `verbena run APP`: the launcher.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstring>

#include "apps/verbena/commands.hpp"
#include "apps/verbena/exit_status.hpp"
#include "apps/verbena/html_report.hpp"
#include "apps/verbena/launcher.hpp"
#include "apps/verbena/run_settings.hpp"

namespace verbena::apps {
namespace {

struct RunOptions {
  JobOptions job;
  std::string metrics;  ///< empty: none
  std::string report;
  bool baseline = false;
  bool quiet = false;
};

std::string flag(std::string_view name, const auto& value) {
  return fmt::format("--{}={}", name, value);
}

std::vector<std::string> common_arguments(const JobOptions& job) {
  const TransportOptions& transport = job.transport;
  std::vector<std::string> arguments = {flag("servers", job.servers), flag("workers", job.workers),
                                        flag("threads", job.threads), flag("transport", transport.transport)};
  if (!transport.device.empty()) arguments.push_back(flag("device", transport.device));
  if (transport.device_port != 0) arguments.push_back(flag("device-port", transport.device_port));
  if (job.verbose) arguments.emplace_back("--verbose");
  return arguments;
}

Launcher::Command server_command(const JobOptions& job, std::uint32_t rank) {
  std::vector<std::string> arguments = common_arguments(job);
  arguments.insert(arguments.begin(), "server");
  arguments.insert(arguments.end(),
                   {flag("server-rank", rank), flag("server-threads", job.chosen_server_threads()),
                    flag("lanes", job.chosen_lanes())});
  return {fmt::format("server {}", rank), std::move(arguments), true};
}

Launcher::Command worker_command(const Application& application, const ApplicationOptions& options,
                                 const RunOptions& run, std::uint32_t rank) {
  std::vector<std::string> arguments = common_arguments(run.job);
  arguments.insert(arguments.begin(), {"worker", std::string(application.name())});
  arguments.insert(arguments.end(), {flag("worker-rank", rank), flag("consistency", run.job.consistency),
                                     flag("read-path", run.job.read_path)});
  if (run.baseline) arguments.emplace_back("--baseline");
  const std::vector<std::string> given = options.given();
  arguments.insert(arguments.end(), given.begin(), given.end());
  return {run.baseline ? "the plain loop" : fmt::format("worker {}", rank), std::move(arguments), false};
}

std::vector<Launcher::Command> commands_of(const Application& application, const ApplicationOptions& options,
                                           const RunOptions& run) {
  if (run.baseline) return {worker_command(application, options, run, 0)};
  std::vector<Launcher::Command> commands;
  for (std::uint32_t rank = 0; rank < run.job.servers; ++rank)
    commands.push_back(server_command(run.job, rank));
  for (std::uint32_t rank = 0; rank < run.job.workers; ++rank) {
    commands.push_back(worker_command(application, options, run, rank));
  }
  return commands;
}

/// Everything that can be known before a process is started.
absl::Status check_all(Application& application, const RunOptions& run) {
  if (absl::Status status = check(run.job); !status.ok()) return status;
  for (const std::string& output : {run.metrics, run.report}) {
    if (output.empty()) continue;
    if (absl::Status status = OutputFile::check(output); !status.ok()) return status;
  }
  if (absl::Status status = application.check(run.baseline ? 1 : run.job.total_workers()); !status.ok()) {
    return status;
  }
  // Tried here so that it is said once, and not by each process.
  return run.baseline || run.job.transport.transport == kShm ? absl::OkStatus()
                                                             : make_transport(run.job.transport).status();
}

/// The outputs of a run that has succeeded.
absl::Status write_outputs(const RunOptions& run, const RunSettings& settings, const RunRecord& record,
                           const RunMonitor& monitor, double elapsed_seconds, MetricsFile* metrics) {
  const nlohmann::json summary = summary_json(settings, record, elapsed_seconds, monitor.model_summary());
  if (!run.report.empty()) {
    absl::StatusOr<OutputFile> file = OutputFile::create(run.report);
    if (!file.ok()) return file.status();
    file->write(html_report(settings, record, elapsed_seconds, monitor.printed()));
    if (absl::Status status = file->commit(); !status.ok()) return status;
  }
  if (metrics == nullptr) return absl::OkStatus();
  for (std::uint32_t worker = 0; worker < record.workers().size(); ++worker) {
    metrics->write(worker_json(worker, record.workers()[worker]));
  }
  metrics->write(summary);
  return metrics->commit();
}

int run_application(RunOptions run, Application& application, const ApplicationOptions& options) {
  run.job.transport = decided(run.job.transport, kShm);
  if (run.baseline) run.job.servers = run.job.workers = run.job.threads = 1;
  if (absl::Status status = check_all(application, run); !status.ok()) return report_error(status);
  spdlog::info("run {}: {} {}", std::string(application.name()), effective(run.job), options.effective());

  const RunSettings settings = run_settings(application, options, run.job, run.baseline);
  std::optional<MetricsFile> metrics;
  if (!run.metrics.empty()) {
    absl::StatusOr<MetricsFile> file = MetricsFile::create(run.metrics);
    if (!file.ok()) return report_error(file.status());
    metrics.emplace(*std::move(file));
    metrics->write(start_json(settings, VERBENA_VERSION));
  }
  RunRecord record(run.job.total_workers(), [&](const auto& sums) { return application.objectives(sums); });
  Display display(settings, Display::mode_for(stderr, run.quiet), stdout, stderr);
  RunMonitor monitor(record, display, metrics ? &*metrics : nullptr);
  Launcher launcher(monitor);
  const absl::Status ended = launcher.run(commands_of(application, options, run));
  if (launcher.signal() != 0) {
    fmt::print(stderr, "verbena: stopped by SIG{}\n", ::sigabbrev_np(launcher.signal()));
    return kExitSignalBase + launcher.signal();
  }
  if (!ended.ok()) return report_error(ended);
  const double elapsed_seconds = monitor.elapsed_seconds();
  display.print(summary_table(settings, record, elapsed_seconds));
  absl::Status written =
      write_outputs(run, settings, record, monitor, elapsed_seconds, metrics ? &*metrics : nullptr);
  // The run itself was well: an output that cannot be written is no wrong use any more.
  if (!written.ok()) {
    report_error(written);
    return kExitFailed;
  }
  return kExitOk;
}

void add_output_options(CLI::App& command, RunOptions& options) {
  command
      .add_option("--metrics", options.metrics,
                  "Write one JSON object a line: start, iterations, workers, summary (docs/metrics.md). The "
                  "file is there "
                  "when the run has succeeded; a pipe or device gets each line at once.")
      ->type_name("FILE")
      ->group("Output");
  command.add_option("--report", options.report, "Write a page with the curves of the run, for any browser.")
      ->type_name("FILE.html")
      ->group("Output");
  command.add_flag("-q,--quiet", options.quiet, "No progress; the table at the end only.")->group("Output");
}

void add_application(CLI::App& command, Application& application, Run* run) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* app =
      command.add_subcommand(std::string(application.name()), std::string(application.description()));
  auto arguments = std::make_shared<ApplicationOptions>(*app, application);
  add_size_options(*app, options->job);
  add_transport_options(*app, options->job.transport, kProcessOptions);
  app->add_flag("--baseline", options->baseline,
                "Train in a plain loop over the same kernel instead, without a parameter server.")
      ->group(kProcessOptions);
  add_consistency_options(*app, options->job);
  add_server_options(*app, options->job);
  add_output_options(*app, *options);
  add_verbose_option(*app, options->job);
  const std::string name(application.name());
  app->footer(examples(
      {fmt::format("verbena run {} --data FILE --servers 2 --workers 2", name),
       fmt::format("verbena run {} --data FILE --workers 2 --consistency essp:2 --report run.html", name),
       fmt::format("verbena run {} --data FILE --baseline", name)}));
  app->callback([options, arguments, run, &application] {
    *run = [options, arguments, &application] { return run_application(*options, application, *arguments); };
  });
}

}  // namespace

void add_run_command(CLI::App& program, const Applications& applications, Run* run) {
  CLI::App* command = program.add_subcommand(
      "run",
      "train a model with several processes of this host\n\nStarts S servers and W workers, shows their "
      "progress, and "
      "ends with a table. When a process fails, the others are ended and nothing is left behind. "
      "`verbena run APP --help` has the options.");
  command->require_subcommand(1);
  for (const auto& application : applications) add_application(*command, *application, run);
}

}  // namespace verbena::apps
