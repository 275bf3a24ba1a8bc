// `verbena run APP`: the launcher.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdlib>
#include <optional>

#include "apps/rendezvous/pmix_rendezvous.hpp"
#include "apps/verbena/cluster_run.hpp"
#include "apps/verbena/commands.hpp"
#include "apps/verbena/exit_status.hpp"
#include "apps/verbena/launcher.hpp"
#include "apps/verbena/run_outputs.hpp"

namespace verbena::apps {
namespace {

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

int run_on_this_host(RunOptions run, Application& application, const ApplicationOptions& options) {
  run.job.transport = decided(run.job.transport, kShm);
  if (run.baseline) run.job.servers = run.job.workers = run.job.threads = 1;
  absl::Status status = check_all(application, run);
  if (status.ok()) status = check_memory(run.job, run.job.servers, run.job.workers);
  // A device is tried here so that what it lacks is said once, and not by each process.
  if (status.ok() && !run.baseline && run.job.transport.transport != kShm) {
    status = make_transport(run.job.transport).status();
  }
  if (!status.ok()) return report_error(status);
  spdlog::info("run {}: {} {}", std::string(application.name()), effective(run.job), options.effective());
  const absl::StatusOr<std::unique_ptr<RunOutputs>> outputs = RunOutputs::create(run, application, options);
  if (!outputs.ok()) return report_error(outputs.status());
  Launcher launcher((*outputs)->monitor());
  const absl::Status ended = launcher.run(commands_of(application, options, run));
  return (*outputs)->finish(ended, launcher.signal());
}

/// Where mpirun or srun has started this process. Nothing if it is the only one.
std::optional<int> run_as_one_of_many(const RunOptions& run, Application& application,
                                      const ApplicationOptions& options) {
  StopSignals signals({SIGINT, SIGTERM, SIGHUP});  // before there are threads
  const absl::StatusOr<std::unique_ptr<PmixRendezvous>> rendezvous = PmixRendezvous::join();
  if (!rendezvous.ok()) return report_error(rendezvous.status());
  if ((*rendezvous)->size() == 1) return std::nullopt;
  const auto abort = [&](int exit_status, const std::string& why) { (*rendezvous)->abort(exit_status, why); };
  return run_in_cluster(run, application, options,
                        {.rendezvous = **rendezvous, .signals = signals, .abort = abort});
}

int run_application(const RunOptions& run, Application& application, const ApplicationOptions& options) {
  const auto variable = [](const char* name) { return std::getenv(name); };
  if (absl::Status status = check_started_apart(variable); !status.ok()) return report_error(status);
  if (variable("PMIX_RANK") != nullptr) {
    if (const std::optional<int> status = run_as_one_of_many(run, application, options)) return *status;
  }
  return run_on_this_host(run, application, options);
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
  app->callback([app, options, arguments, run, &application] {
    options->servers_given = app->count("--servers") > 0;
    options->workers_given = app->count("--workers") > 0;
    *run = [options, arguments, &application] { return run_application(*options, application, *arguments); };
  });
}

}  // namespace

void add_run_command(CLI::App& program, const Applications& applications, Run* run) {
  CLI::App* command = program.add_subcommand(
      "run",
      "train a model with several processes\n\nStarts S servers and W workers on this host, shows their "
      "progress, and ends with a table. When a process fails, the others are ended and nothing is left "
      "behind. "
      "Started itself by mpirun or srun --mpi=pmix, it starts nothing: each process becomes the server or "
      "worker of its rank, servers first (docs/cluster.md). "
      "`verbena run APP --help` has the options.");
  command->require_subcommand(1);
  for (const auto& application : applications) add_application(*command, *application, run);
}

}  // namespace verbena::apps
