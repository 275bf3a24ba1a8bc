#include "apps/launcher/host_run.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/launcher/launcher.hpp"
#include "apps/launcher/own_checkpoints.hpp"
#include "apps/report/console.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"

namespace verbena::apps {
namespace {

std::string flag(std::string_view name, const auto& value) {
  return fmt::format("--{}={}", name, value);
}

std::vector<std::string> common_arguments(const JobOptions& job) {
  const TransportOptions& transport = job.transport;
  std::vector<std::string> arguments = {flag("servers", job.servers), flag("workers", job.workers),
                                        flag("threads", job.threads), flag("transport", transport.transport)};
  if (transport.tls) arguments.emplace_back("--tls");
  if (!transport.device.empty()) arguments.push_back(flag("device", transport.device));
  if (transport.device_port != 0) arguments.push_back(flag("device-port", transport.device_port));
  if (transport.streams != 0) arguments.push_back(flag("streams", transport.streams));
  if (!transport.network.empty()) arguments.push_back(flag("network", transport.network));
  if (job.replicas > 0) arguments.push_back(flag("replicas", job.replicas));
  if (job.budget_mb_per_s > 0) arguments.push_back(flag("budget", job.budget_mb_per_s));
  arguments.push_back(flag("silence-timeout", job.silence_timeout_ms));
  arguments.push_back(flag("spin", job.spin));
  if (job.verbose) arguments.emplace_back("--verbose");
  if (job.log_format != "text") arguments.push_back(flag("log-format", job.log_format));
  return arguments;
}

Launcher::Command worker_command(const Application& application, const ApplicationOptions& options,
                                 const RunOptions& run, std::uint32_t rank) {
  std::vector<std::string> arguments = common_arguments(run.job);
  arguments.insert(arguments.begin(), {"worker", std::string(application.name())});
  arguments.insert(arguments.end(), {flag("worker-rank", rank), flag("consistency", run.job.consistency),
                                     flag("read-path", run.job.read_path), flag("gather", run.job.gather)});
  for (const std::string& slow : run.job.slow) arguments.push_back(flag("slow", slow));
  const CheckpointSettings& checkpoints = run.job.checkpoints;
  if (!checkpoints.folder.empty()) arguments.push_back(flag("checkpoint", checkpoints.folder));
  if (checkpoints.every) arguments.push_back(flag("checkpoint-every", *checkpoints.every));
  if (checkpoints.keep) arguments.push_back(flag("checkpoint-keep", *checkpoints.keep));
  if (checkpoints.increments) arguments.push_back(flag("checkpoint-increments", *checkpoints.increments));
  if (!checkpoints.resume_from.empty()) arguments.push_back(flag("resume-from", checkpoints.resume_from));
  if (run.baseline) arguments.emplace_back("--baseline");
  const std::vector<std::string> given = options.given();
  arguments.insert(arguments.end(), given.begin(), given.end());
  Launcher::Command command{.name = run.baseline ? "the plain loop" : fmt::format("worker {}", rank),
                            .arguments = std::move(arguments)};
  if (!run.baseline && application.can_replace_workers()) command.replaceable_workers = run.job.threads;
  return command;
}

std::vector<Launcher::Command> commands_of(const Application& application, const ApplicationOptions& options,
                                           const RunOptions& run) {
  if (run.baseline) return {worker_command(application, options, run, 0)};
  std::vector<Launcher::Command> commands;
  for (std::uint32_t number = 0; number < run.job.server_processes(); ++number)
    commands.push_back(server_command(run.job, number));
  for (std::uint32_t rank = 0; rank < run.job.workers; ++rank) {
    commands.push_back(worker_command(application, options, run, rank));
  }
  return commands;
}

std::string place_of(const Beginning& beginning) {
  if (beginning.checkpoint.empty()) return "its beginning";
  return fmt::format("iteration {} ({})", beginning.after_iteration, base::printable(beginning.checkpoint));
}

absl::Status cannot_go_back(const absl::Status& ended, const absl::Status& why) {
  return {ended.code(), fmt::format("{}; it cannot go back to a checkpoint: {}", std::string(ended.message()),
                                    std::string(why.message()))};
}

}  // namespace

Launcher::Command server_command(const JobOptions& job, std::uint32_t number) {
  std::vector<std::string> arguments = common_arguments(job);
  arguments.insert(arguments.begin(), "server");
  arguments.insert(arguments.end(),
                   {flag("server-rank", number), flag("server-threads", job.chosen_server_threads()),
                    flag("lanes", job.chosen_lanes())});
  const std::uint32_t rank = number % job.servers;
  const std::uint32_t copy = number / job.servers;
  Launcher::Command command{
      .name = copy == 0 ? fmt::format("server {}", rank) : fmt::format("copy {} of server {}", copy, rank),
      .arguments = std::move(arguments),
      .server = true};
  if (job.replicas > 0) command.copy = {.server = rank, .copy = copy};
  return command;
}

absl::Status check_host(const JobOptions& job) {
  RETURN_IF_ERROR(check_memory(job, job.server_processes(), job.workers));
  // Tries the device here, so that what it lacks is reported once, and not by each process.
  if (is_decided_for(job.transport, transport::Reach::kHost)) return absl::OkStatus();
  return make_transport(job.transport).status();
}

absl::Status prepare_host_run(RunOptions& run, Application& application) {
  run.job.transport = decided(run.job.transport, transport::Reach::kHost);
  if (run.baseline) run.job.servers = run.job.workers = run.job.threads = 1;
  if (run.baseline) run.job.replicas = 0;
  // There are no copies of rows that move.
  decide_consistency(run.job, application, !run.baseline && run.job.replicas == 0 && is_one_node(run.job));
  if (run.job.elastic) RETURN_IF_ERROR(check_no_replicas(run.job));
  RETURN_IF_ERROR(check_all(application, run));
  if (application.iterations() == 0) {
    // Nothing is trained: so there is no work for several processes.
    run.baseline = true;
    run.job.servers = run.job.workers = run.job.threads = 1;
  }
  return run.baseline ? check_memory(run.job, run.job.servers, run.job.workers) : check_host(run.job);
}

HostRunEnd carry_out_host_run(const RunOptions& given, const Application& application,
                              const ApplicationOptions& options, RunMonitor& monitor) {
  RunOptions run = given;
  CheckpointSettings& checkpoints = run.job.checkpoints;
  std::optional<OwnCheckpoints> own;
  if (checkpoints.restarts > 0) {
    absl::StatusOr<OwnCheckpoints> begun = OwnCheckpoints::begin(checkpoints);
    if (!begun.ok()) return {begun.status()};
    own.emplace(*std::move(begun));
  }
  for (std::uint32_t restart = 1;; ++restart) {
    spdlog::info("run {}: {} {}", std::string(application.name()), effective(run.job), options.effective());
    Launcher launcher(monitor, checkpoints.folder, [&](const auto& copy) {
      return server_command(run.job, copy.copy * run.job.servers + copy.server);
    });
    absl::Status ended = launcher.run(commands_of(application, options, run));
    if (!launcher.has_lost_process() || restart > checkpoints.restarts)
      return {std::move(ended), launcher.signal()};
    const std::string why(base::printable(ended).message());
    const absl::StatusOr<Beginning> beginning = own->newest();
    if (!beginning.ok()) return {cannot_go_back(ended, beginning.status())};
    put_warning(stderr, fmt::format("verbena: {}: the training goes back to {}, restart {} of {}\n", why,
                                    place_of(*beginning), restart, checkpoints.restarts));
    monitor.go_back(beginning->after_iteration, why);
    checkpoints.resume_from = beginning->checkpoint;
  }
}

}  // namespace verbena::apps
