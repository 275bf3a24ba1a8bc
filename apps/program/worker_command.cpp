// `verbena worker APP`: one worker process.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "apps/data/distinct_files.hpp"
#include "apps/launcher/child_command.hpp"
#include "apps/launcher/resume_notes.hpp"
#include "apps/launcher/roles.hpp"
#include "apps/launcher/run_settings.hpp"
#include "apps/options/numbers.hpp"
#include "apps/program/commands.hpp"
#include "apps/report/exit_status.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

struct WorkerOptions {
  ChildOptions child;
  bool baseline = false;
};

absl::Status check(const WorkerOptions& options, Application& application,
                   const ApplicationOptions& arguments) {
  const ChildOptions& child = options.child;
  if (child.rank >= child.job.workers) {
    return absl::InvalidArgumentError(
        fmt::format("--worker-rank counts from 0: it must be less than --workers {}", child.job.workers));
  }
  if (child.letter.launched())  // the launcher has checked that
    return options.baseline ? absl::OkStatus() : follow_resume(child.job, application);
  RETURN_IF_ERROR(options.baseline ? check(child.job) : check_by_hand(child.job));
  Files files = application.files();
  files.reads("--secret-file", child.job.transport.secret_file);
  files.writes("--checkpoint", child.job.checkpoints.folder);
  RETURN_IF_ERROR(check_distinct(files));
  JobOptions job = child.job;
  job.transport = decided_by_hand(job);
  RETURN_IF_ERROR(check_application(application, job, options.baseline));
  if (child.job.checkpoints.resume_from.empty()) return absl::OkStatus();
  const absl::StatusOr<CheckpointSummary> checkpoint = read_checkpoint(child.job.checkpoints.resume_from);
  if (!checkpoint.ok()) return checkpoint.status();
  return check_resume(*checkpoint, application, arguments, child.job);
}

int run_worker(WorkerOptions options, Application& application, const ApplicationOptions& arguments,
               const job::LaunchLetter& letter) {
  options.child.letter = letter;
  if (absl::Status status = check(options, application, arguments); !status.ok()) return report_error(status);
  ChildOptions& child = options.child;
  if (!child.letter.launched()) {
    child.job.transport = decided_by_hand(child.job);
    if (absl::Status status = options.baseline ? absl::OkStatus() : take_secret(child.job.transport);
        !status.ok())
      return report_error(status);
  }
  spdlog::info("worker {}: {} {}", child.rank, effective(child.job), arguments.effective());
  PipeOutlet pipe(child.letter.report_to);
  RunSettings settings = run_settings(application, arguments, child.job, options.baseline);
  settings.process = fmt::format("worker {}", child.rank);
  if (!child.letter.launched()) log_choices(settings);
  settings.first_worker = child.rank * child.job.threads;
  ConsoleOutlet console(std::move(settings), [&](const auto& sums) { return application.objectives(sums); });
  if (const std::string output = arguments.value("--output");
      !child.letter.launched() && child.rank > 0 && !output.empty()) {
    console.note(fmt::format("--output {} is not written here but by worker 0, on its host", output));
  }
  Outlet& outlet = child.letter.launched() ? static_cast<Outlet&>(pipe) : console;
  const int status = run_child(
      child, outlet,
      [&](const Role& role, Outlet& to, const std::atomic<bool>& stop) -> absl::StatusOr<ProcessJobs> {
        if (options.baseline) return baseline_jobs(application, to, stop);
        return worker_jobs(role, application, to, stop,
                           [&] { return resume_notes(application, arguments, role.job); });
      });
  if (status == kExitOk && !child.letter.launched()) console.finish();
  return status;
}

}  // namespace

void add_worker_command(CLI::App& program, const Applications& applications, Run* run) {
  CLI::App* command = program.add_subcommand("worker",
                                             "start one worker process by hand\n\nAll workers of a job are "
                                             "given the same options but for --worker-rank. "
                                             "`verbena run` starts servers and workers by itself. "
                                             "`verbena worker APP --help` has the options.");
  command->require_subcommand(1);
  command->footer(examples({"verbena server --job demo --servers 1 --workers 2 &",
                            "verbena worker APP --job demo --servers 1 --workers 2 --worker-rank 0 … &",
                            "verbena worker APP --job demo --servers 1 --workers 2 --worker-rank 1 …",
                            "verbena worker APP --addresses node1:7001,node2:7001 --servers 2 --workers 2 "
                            "--secret-file secret --worker-rank 1 …"}));
  for (const auto& application : applications) {
    auto options = std::make_shared<WorkerOptions>();
    CLI::App* app =
        command->add_subcommand(std::string(application->name()), std::string(application->description()));
    auto arguments = std::make_shared<ApplicationOptions>(*app, *application);
    JobOptions& job = options->child.job;
    add_number(*app, "--worker-rank", options->child.rank, "Which of the worker processes this is, from 0.")
        ->type_name("R")
        ->group(kProcessOptions)
        ->capture_default_str();
    add_size_options(*app, job);
    add_thread_option(*app, job);
    add_silence_option(*app, job);
    add_transport_options(*app, job.transport, kProcessOptions);
    add_address_options(*app, job);
    add_secret_options(*app, job.transport, kProcessOptions);
    add_spin_option(*app, job);
    add_consistency_options(*app, job);
    add_condition_options(*app, job);
    add_checkpoint_options(*app, job, /*of_run=*/false);
    add_log_options(*app, job);
    app->add_flag("--baseline", options->baseline, "Train in a plain loop, without a parameter server.")
        ->group(kProcessOptions);
    app->callback([app, options, arguments, run, &application] {
      options->child.job.given = given_options(*app);
      options->child.job.starts_servers = false;
      // Whoever starts processes by hand says what is to be as on one node.
      decide_consistency(options->child.job, *application, /*is_one_node=*/false);
      *run = [options, arguments, &application](const job::LaunchLetter& letter) {
        return run_worker(*options, *application, *arguments, letter);
      };
    });
  }
}

}  // namespace verbena::apps
