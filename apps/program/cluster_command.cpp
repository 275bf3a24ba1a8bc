#include "apps/program/cluster_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "apps/inspect/drain.hpp"
#include "apps/inspect/job_status.hpp"
#include "apps/launcher/job_options.hpp"
#include "apps/options/manual_formatter.hpp"
#include "apps/options/numbers.hpp"
#include "apps/program/job_choice.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "base/printable.hpp"
#include "checkpoint/file_system.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {
namespace {

constexpr auto kLauncherPatience = std::chrono::milliseconds(3000);
/// A server that is stopped does not answer, and that is worth knowing soon.
constexpr std::uint32_t kServerPatienceMs = 1000;
/// One that does not end by itself is ended after a while.
constexpr auto kDrainPatience = std::chrono::milliseconds(10'000);

struct StatusOptionsGiven {
  JobChoice job;
  bool json = false;
};

/// What the servers say; one that cannot answer is what somebody wants to know, and no error.
void ask_servers(const ChosenJob& job, inspect::JobStatus& status) {
  if (job.found.servers.empty()) return;  // they listen on other hosts
  const std::vector<std::string> serving = inspect::serving_of(job.found, status.run);
  if (serving.empty()) {
    status.silence = "the run's processes have not met yet";
    return;
  }
  const absl::StatusOr<std::unique_ptr<Observer>> observer = observe(job, serving, kServerPatienceMs);
  const absl::StatusOr<ObservedJob> seen = observer.ok() ? (*observer)->job() : observer.status();
  if (seen.ok()) {
    status.seen = *seen;
  } else {
    status.silence = std::string(seen.status().message());
  }
}

absl::StatusOr<inspect::JobStatus> look_at_processes(const JobChoice& choice) {
  const absl::StatusOr<ChosenJob> job = choose_job(choice, Among::kRuns);
  if (!job.ok()) return job.status();
  inspect::JobStatus status;
  status.job = job->found.name;
  absl::StatusOr<std::optional<RunStatus>> run =
      inspect::ask_launcher(job->found, job->teller_secret, kLauncherPatience);
  if (!run.ok()) return run.status();
  status.run = *std::move(run);
  // Where rank 0 tells how the job is, it does so by another secret than that of the servers.
  const bool has_servers_secret = !choice.transport.secret_file.empty() || choice.transport.no_secret;
  if (!status.run || has_servers_secret || !inspect::has_hosts(*status.run)) ask_servers(*job, status);
  if (status.run) {
    status.checkpoint = inspect::last_checkpoint(checkpoint::host_file_system(), *status.run);
    return status;
  }
  // Nobody tells more than the servers themselves.
  if (!status.seen) return absl::UnavailableError(status.silence);
  status.addresses = job->found.servers;
  return status;
}

int show_status(const StatusOptionsGiven& options) {
  const absl::StatusOr<inspect::JobStatus> seen = look_at_processes(options.job);
  if (!seen.ok()) return report_error(seen.status());
  put(stdout, options.json ? job::to_line(inspect::to_json(*seen), 2) : inspect::to_text(*seen));
  const absl::Status flushed = flush_output();
  return flushed.ok() ? kExitOk : report_error(flushed);
}

struct DrainOptionsGiven {
  JobChoice job;
  DrainRequest request;
};

int drain_server(const DrainOptionsGiven& options) {
  const absl::StatusOr<ChosenJob> job = choose_job(options.job, Among::kRuns);
  if (!job.ok()) return report_error(job.status());
  const absl::StatusOr<std::string> done =
      inspect::drain(job->found, job->teller_secret, options.request, kDrainPatience);
  if (!done.ok()) return report_error(done.status());
  put(stdout, base::printable(*done) + "\n");
  const absl::Status flushed = flush_output();
  return flushed.ok() ? kExitOk : report_error(flushed);
}

void add_drain_command(CLI::App& command, Run* run) {
  CLI::App* app = command.add_subcommand(
      "drain",
      "let a process of a server step aside\n\nIts copy takes its place, nothing is lost, and another copy "
      "is started. For runs on this host with --replicas. Of a job on several hosts, SIGTERM to the process "
      "does the same.");
  app->group(kCommands);
  auto options = std::make_shared<DrainOptionsGiven>();
  add_number(*app, "--server", options->request.server, "Which server, from 0.")->type_name("R")->required();
  add_number(*app, "--copy", options->request.copy,
             "Which of its copies, as `verbena cluster status` numbers them. By default the one that serves.")
      ->type_name("N");
  add_job_choice(*app, options->job);
  app->footer(examples({"verbena cluster drain --server 0", "verbena cluster drain --server 1 --copy 2"}));
  app->callback(
      [options, run] { *run = [options](const job::LaunchLetter&) { return drain_server(*options); }; });
}

}  // namespace

void add_cluster_command(CLI::App& program, Run* run) {
  CLI::App* command =
      program.add_subcommand("cluster", "look at the processes of a running job, or take one away");
  command->require_subcommand(1);
  CLI::App* app = command->add_subcommand(
      "status",
      "who does what: servers and their copies, workers and who is behind, what has died\n\nIt asks the "
      "launcher of a run on this host, which has started all its processes, and the servers; of a run on "
      "several hosts rank 0, on its host. Of a job that was started otherwise it shows what the servers "
      "know.");
  app->group(kCommands);
  auto options = std::make_shared<StatusOptionsGiven>();
  add_job_choice(*app, options->job);
  app->add_flag("--json", options->json, "For programs: as JSON (docs/looking-into-jobs.md).");
  const std::string footer = examples(
      {"verbena cluster status", "verbena cluster status --job run-4711", "verbena cluster status --json"});
  command->footer(footer);
  app->footer(footer);
  app->callback(
      [options, run] { *run = [options](const job::LaunchLetter&) { return show_status(*options); }; });
  add_drain_command(*command, run);
}

}  // namespace verbena::apps
