// `verbena server`: one server process.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "apps/launcher/child_command.hpp"
#include "apps/launcher/roles.hpp"
#include "apps/options/numbers.hpp"
#include "apps/program/commands.hpp"
#include "apps/report/exit_status.hpp"

namespace verbena::apps {
namespace {

int run_server(ChildOptions options, const job::LaunchLetter& letter) {
  options.letter = letter;
  if (!letter.joins && options.rank >= options.job.server_processes()) {
    return report_error(
        absl::InvalidArgumentError("--server-rank counts from 0: it must be less than --servers " +
                                   std::to_string(options.job.servers)));
  }
  if (!letter.launched()) {
    if (absl::Status status = check_by_hand(options.job); !status.ok()) return report_error(status);
    options.job.transport = decided_by_hand(options.job);
    if (absl::Status status = take_secret(options.job.transport); !status.ok()) return report_error(status);
  }
  spdlog::info("server {}: {}", options.rank, effective(options.job));
  std::unique_ptr<Outlet> outlet;
  if (letter.launched()) {
    outlet = std::make_unique<PipeOutlet>(letter.report_to);
  } else {
    RunSettings settings;
    settings.process = fmt::format("server {}", options.rank);
    outlet = std::make_unique<ConsoleOutlet>(std::move(settings), RunRecord::Objectives());
  }
  return run_child(options, *outlet, [](const Role& role, Outlet& to, const std::atomic<bool>& stop) {
    return server_jobs(role, to, stop);
  });
}

}  // namespace

void add_server_command(CLI::App& program, Run* run) {
  auto options = std::make_shared<ChildOptions>();
  CLI::App* command = program.add_subcommand("server",
                                             "start one server process by hand\n\nIt holds its part of each "
                                             "table until all workers of the job have left. "
                                             "`verbena run` starts servers and workers by itself.");
  add_number(*command, "--server-rank", options->rank, "Which of the servers this is, from 0.")
      ->type_name("R")
      ->group(kProcessOptions)
      ->capture_default_str();
  add_size_options(*command, options->job);
  add_thread_option(*command, options->job);
  add_silence_option(*command, options->job);
  add_transport_options(*command, options->job.transport, kProcessOptions);
  add_address_options(*command, options->job);
  add_secret_options(*command, options->job.transport, kProcessOptions);
  add_spin_option(*command, options->job);
  add_server_options(*command, options->job);
  add_outlive_option(*command, options->job);
  add_budget_option(*command, options->job);
  add_network_option(*command, options->job);
  add_log_options(*command, options->job);
  command->footer(examples({"verbena server --job demo --servers 1 --workers 2",
                            "verbena server --addresses node1:7001,node2:7001 --servers 2 --workers 2 "
                            "--secret-file secret --server-rank 1"}));
  command->callback([options, run] {
    *run = [options](const job::LaunchLetter& letter) { return run_server(*options, letter); };
  });
}

}  // namespace verbena::apps
