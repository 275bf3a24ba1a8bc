// `verbena run APP`: the launcher.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "apps/launcher/cluster_run.hpp"
#include "apps/launcher/host_run.hpp"
#include "apps/launcher/program_run.hpp"
#include "apps/launcher/resume_notes.hpp"
#include "apps/launcher/run_outputs.hpp"
#include "apps/options/numbers.hpp"
#include "apps/options/validators.hpp"
#include "apps/program/commands.hpp"
#include "apps/report/console.hpp"
#include "apps/report/exit_status.hpp"
#include "job/address_exchange.hpp"
#include "job/peers.hpp"

namespace verbena::apps {
namespace {

int run_on_this_host(RunOptions run, Application& application, const ApplicationOptions& options) {
  const absl::Status status = prepare_host_run(run, application);
  if (!status.ok()) return report_error(status);
  const absl::StatusOr<std::string> resumes = decide_resume(run.job, application, options);
  if (!resumes.ok()) return report_error(resumes.status());
  if (!run.quiet && !resumes->empty()) print_error("{}", *resumes);
  const absl::StatusOr<std::unique_ptr<RunOutputs>> outputs = RunOutputs::create(run, application, options);
  if (!outputs.ok()) return report_error(outputs.status());
  const HostRunEnd ended = carry_out_host_run(run, application, options, (*outputs)->monitor());
  return (*outputs)->finish(ended.status, ended.signal);
}

/// Calls run_one() if something else than Verbena has started this process and others with it. nullopt if it
/// is the only process.
std::optional<int> run_as_one_of_many(const RunOptions& run,
                                      const std::function<int(const ClusterOptions& cluster)>& run_one) {
  job::PeerOptions peer_options = run.peers;
  peer_options.tls = run.job.transport.tls;
  peer_options.leader_silence = std::chrono::milliseconds(run.job.silence_timeout_ms);
  peer_options.show = [](const std::string& line) { put_warning(stderr, line + "\n"); };
  if (peer_options.joins) {
    if (const absl::Status can_join = check_can_join(run.job); !can_join.ok()) return report_error(can_join);
  }
  const absl::StatusOr<job::Meeting> meeting = job::find_meeting(peer_options, job::own_environment);
  if (!meeting.ok()) return report_error(meeting.status());
  if (meeting->way == job::Meeting::Way::kNone) return std::nullopt;
  // Before it waits for the others, who may not come for a while. Under PMIx all are there, and rank 0 says
  // it for all.
  if (meeting->way == job::Meeting::Way::kNetwork) {
    RunOptions shared_out = run;
    if (const absl::Status shared = share_out(meeting->processes, shared_out); !shared.ok())
      return report_error(shared);
  }
  StopSignals signals({SIGINT, SIGTERM, SIGHUP});  // before there are threads
  std::optional<int> signal;
  const auto stopped = [&] {
    if (const std::optional<int> taken = signals.take()) signal = taken;
    return signal.has_value();
  };
  const absl::StatusOr<std::unique_ptr<job::PeerRendezvous>> peers =
      job::meet_peers(*meeting, peer_options, job::own_environment, job::kMeetingPatience, stopped);
  if (signal) return kExitSignalBase + *signal;
  if (!peers.ok()) return report_error(at_chosen_place(peers.status()));
  if ((*peers)->size() == 1) return std::nullopt;
  return run_one({.rendezvous = **peers, .signals = signals, .worker_jobs = {}});
}

}  // namespace

int run_application(const RunOptions& given, Application& application, const ApplicationOptions& options) {
  RunOptions run = given;
  if (const absl::Status status = job::take_tls_variable(job::own_environment, run.job.transport.tls);
      !status.ok()) {
    return report_error(status);
  }
  const std::optional<int> ended = run_as_one_of_many(run, [&](ClusterOptions cluster) {
    cluster.worker_jobs = [&](const Role& role, Outlet& outlet, const std::atomic<bool>& stop) {
      return worker_jobs(role, application, outlet, stop,
                         [&] { return resume_notes(application, options, role.job); });
    };
    return run_in_cluster(std::move(run), application, options, cluster);
  });
  return ended ? *ended : run_on_this_host(std::move(run), application, options);
}

namespace {

void add_output_options(CLI::App& command, RunOptions& options) {
  command
      .add_option("--metrics", options.metrics,
                  "Write one JSON object a line: start, iterations, workers, summary (docs/metrics.md). The "
                  "file is there "
                  "when the run has succeeded; a pipe or device gets each line at once.")
      ->type_name("FILE")
      ->group("Output");
  command
      .add_option("--report", options.report,
                  "Write a page with the curves of the run and the model's own charts, for any browser.")
      ->type_name("FILE.html")
      ->group("Output");
  MonitoringOptions& monitoring = options.monitoring;
  add_number(command, "--metrics-port", monitoring.port,
             "Show the run by HTTP at this port while it goes on: /metrics for Prometheus, / a page for any "
             "browser (docs/monitoring.md). 0: any that is free, which is said. By default nobody listens.",
             {0, std::numeric_limits<std::uint16_t>::max()})
      ->type_name("PORT")
      ->group("Output");
  command
      .add_option(
          "--metrics-address", monitoring.address,
          "The interface of --metrics-port, by its IPv4 or IPv6 address: the default is seen from this "
          "host only, 0.0.0.0 and :: from everywhere. Whoever reaches it can read all that the run "
          "tells of itself.")
      ->type_name("ADDRESS")
      ->group("Output")
      ->capture_default_str();
  command
      .add_flag("-q,--quiet", options.quiet,
                "No progress; only what the model prints at the end, and the table.")
      ->group("Output");
}

constexpr const char* kPeerOptions = "On several hosts, without mpirun (docs/cluster.md)";

/// For processes that neither mpirun nor srun has started.
void add_peer_options(CLI::App& command, job::PeerOptions& options) {
  command
      .add_option(
          "--rendezvous", options.rendezvous,
          "Where the processes of the job meet: the host of rank 0, and a free port there; or "
          "etcd://HOST:PORT[,HOST:PORT...]/JOB (etcd+https:// with TLS): rank 0 is anywhere, and says "
          "in etcd, under the name JOB, where. Default: VERBENA_RENDEZVOUS; MASTER_ADDR and the port "
          "after MASTER_PORT, if something like torchrun has set them.")
      ->type_name("PLACE")
      ->check(accepted_by([](const std::string& text) { return job::parse_meeting_place(text).status(); }))
      ->group(kPeerOptions);
  add_number(
      command, "--process", options.rank,
      "Which of the processes this is, counted from 0; servers have the first ranks. Default: RANK, or as "
      "srun or mpiexec say.")
      ->type_name("R")
      ->group(kPeerOptions);
  add_number(command, "--processes", options.processes,
             "How many there are. Default: WORLD_SIZE, or as srun or mpiexec say.", {.least = 1})
      ->type_name("N")
      ->group(kPeerOptions);
  command
      .add_option("--secret-file", options.secret_file,
                  "A file with a secret of the job, the same on all hosts, of mode 600. Default: "
                  "VERBENA_SECRET_FILE.")
      ->type_name("FILE")
      ->group(kPeerOptions);
  command
      .add_flag("--no-secret", options.no_secret,
                "Whoever reaches rank 0 over the network may take part. Default: VERBENA_NO_SECRET=1.")
      ->group(kPeerOptions);
}

/// For a host that is added to a job, which was begun with --elastic or --replicas.
void add_join_options(CLI::App& command, RunOptions& options) {
  CLI::Option* const joins =
      command
          .add_flag("--join", options.peers.joins,
                    "This host joins a job that runs, and takes its share of the servers and of the workers: "
                    "as many processes as that needs. With the other options of the job, without --process "
                    "(docs/elasticity.md).")
          ->group(kPeerOptions);
  add_number(command, "--join-servers", options.takes_servers,
             "With --join: so many servers or copies, instead of an even share.")
      ->type_name("N")
      ->needs(joins)
      ->group(kPeerOptions);
  add_number(command, "--join-workers", options.takes_workers,
             "With --join: so many processes with workers, instead of an even share.")
      ->type_name("N")
      ->needs(joins)
      ->group(kPeerOptions);
}

void add_application(CLI::App& command, Application& application, const CarryOutRun& carry_out, Run* run) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* app =
      command.add_subcommand(std::string(application.name()), std::string(application.description()));
  auto arguments = std::make_shared<ApplicationOptions>(*app, application);
  add_size_options(*app, options->job);
  add_elastic_option(*app, options->job);
  add_thread_option(*app, options->job);
  add_silence_option(*app, options->job);
  add_worker_patience_option(*app, options->job);
  add_leader_patience_option(*app, options->job);
  add_transport_options(*app, options->job.transport, kProcessOptions);
  add_peer_options(*app, options->peers);
  add_join_options(*app, *options);
  app->add_flag("--baseline", options->baseline,
                "Train in a plain loop over the same kernel instead, without a parameter server.")
      ->group(kProcessOptions);
  add_consistency_options(*app, options->job);
  add_spin_option(*app, options->job);
  add_server_options(*app, options->job);
  add_condition_options(*app, options->job);
  add_checkpoint_options(*app, options->job, /*of_run=*/true);
  add_output_options(*app, *options);
  add_log_options(*app, options->job);
  const std::string name(application.name());
  app->footer(examples(
      {fmt::format("verbena run {} --data FILE --servers 2 --workers 2", name),
       fmt::format("verbena run {} --data FILE --workers 2 --consistency essp:2 --report run.html", name),
       fmt::format("verbena run {} --data FILE --workers 2 --checkpoint FOLDER --resume", name),
       fmt::format("verbena run {} --data FILE --baseline", name)}));
  app->callback([app, options, arguments, run, carry_out, &application] {
    options->job.given = given_options(*app);
    *run = [options, arguments, carry_out, &application](const job::LaunchLetter&) {
      return carry_out(*options, application, *arguments);
    };
  });
}

struct ProgramRun {
  RunOptions run;
  ProgramOptions program;
};

/// If an application is named as well, options before its name would be ignored: refuse them.
void check_alone(const CLI::App& command) {
  if (command.get_subcommands().empty()) return;
  const std::string& app = command.get_subcommands().front()->get_name();
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    throw CLI::ValidationError(
        option->get_name(),
        fmt::format("it belongs behind the application: verbena run {} {} …", app, option->get_name()));
  }
}

int run_own_program(ProgramRun options) {
  if (const absl::Status status = job::take_tls_variable(job::own_environment, options.run.job.transport.tls);
      !status.ok()) {
    return report_error(status);
  }
  const std::optional<int> ended = run_as_one_of_many(options.run, [&](const ClusterOptions& cluster) {
    return run_program_in_cluster(options.run, options.program, cluster);
  });
  return ended ? *ended : run_program(options.run, options.program);
}

/// `verbena run [options] -- PROGRAM …`
void add_own_program(CLI::App& command, const std::vector<std::string>& words, Run* run) {
  auto options = std::make_shared<ProgramRun>();
  options->program.words = words;
  JobOptions& job = options->run.job;
  add_size_options(command, job);
  add_silence_option(command, job);
  add_leader_patience_option(command, job);
  add_transport_options(command, job.transport, kProcessOptions);
  add_peer_options(command, options->run.peers);
  add_spin_option(command, job);
  add_server_options(command, job);
  add_output_options(command, options->run);
  add_program_options(command, options->program);
  add_log_options(command, job);
  command.require_subcommand(words.empty() ? 1 : 0, 1);
  command.callback([&command, options, run] {
    check_alone(command);
    if (options->program.words.empty()) return;
    options->run.job.given = given_options(command);
    if (!command.get_subcommands().empty())
      throw CLI::ValidationError("-- " + options->program.words.front(),
                                 "a program of your own stands instead of an application, not behind one");
    *run = [options](const job::LaunchLetter&) { return run_own_program(*options); };
  });
}

}  // namespace

void add_run_command(CLI::App& program, const Applications& applications, const CarryOutRun& carry_out,
                     const std::vector<std::string>& program_words, Run* run) {
  CLI::App* command = program.add_subcommand(
      "run",
      "train a model with several processes\n\nStarts S servers and W workers on this host, shows their "
      "progress, and ends with a table. When a process fails, the others are ended and nothing is left "
      "behind; with --restarts a run that is saved then goes back to its newest checkpoint. "
      "Started itself by mpirun, srun --mpi=pmix or torchrun, or with --rendezvous, each process becomes the "
      "server or worker of its rank, servers first (docs/cluster.md). "
      "`verbena run APP --help` has the options. With -- PROGRAM instead of APP the workers are a program of "
      "your own (docs/library.md), and the options below are for it.");
  for (const auto& application : applications) add_application(*command, *application, carry_out, run);
  add_own_program(*command, program_words, run);
  command->footer(examples({"verbena run lda --data FILE --servers 2 --workers 2",
                            "verbena run --servers 2 --workers 4 -- ./my_program ARGUMENTS"}));
}

}  // namespace verbena::apps
