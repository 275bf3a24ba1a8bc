#include "apps/launcher/job_options.hpp"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <random>
#include <set>

#include "absl/strings/str_join.h"
#include "apps/options/completion.hpp"
#include "apps/options/manual_formatter.hpp"
#include "apps/options/numbers.hpp"
#include "apps/options/validators.hpp"
#include "base/cores.hpp"
#include "base/decimal.hpp"
#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "consistency/rules.hpp"
#include "job/server_place.hpp"
#include "protocol/messages.hpp"
#include "transport/heartbeat.hpp"
#include "transport/host_port.hpp"

namespace verbena::apps {
namespace {

constexpr const char* kConsistency = "Consistency";
constexpr const char* kServers = "Servers";
constexpr const char* kConditions = "Conditions";
constexpr const char* kCheckpoints = "Checkpoints";

/// What --read-path, --gather and --spin read.
constexpr const char* kLeftOpen = "auto";
constexpr const char* kInPlace = "in-place";
constexpr const char* kCached = "cached";
constexpr const char* kAlways = "always";
constexpr const char* kNever = "never";
constexpr const char* kBriefly = "briefly";

}  // namespace

std::uint32_t JobOptions::chosen_server_threads() const {
  if (server_threads > 0) return server_threads;
  if (agreed_server_threads > 0) return agreed_server_threads;
  return threads_of_a_server(base::cores_at_hand(), total_workers(), server_processes());
}

std::uint32_t threads_of_a_server(std::uint32_t cores, std::uint32_t workers, std::uint32_t servers) {
  const std::uint32_t spare = cores > workers ? cores - workers : 0;
  constexpr std::uint32_t kMost = 8;
  return std::clamp(spare / servers, 1U, kMost);
}

std::uint32_t JobOptions::chosen_lanes() const {
  return lanes > 0 ? lanes : std::max(1U, chosen_server_threads() - 1);
}

bool JobOptions::is_by_hand(const std::string& name) const {
  const auto found = given.find(name);
  return found != given.end() && found->second != kLeftOpen;
}

std::map<std::string, std::string> given_options(const CLI::App& command) {
  std::map<std::string, std::string> given;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->count() > 0) given[option->get_single_name()] = option->results().back();
  }
  return given;
}

void add_size_options(CLI::App& command, JobOptions& options) {
  constexpr std::uint32_t most = protocol::kMaxWorkers;
  add_number(command, "--servers", options.servers,
             "Server processes; the rows of each table are split over them.", {1, most})
      ->type_name("S")
      ->group(kProcessOptions)
      ->capture_default_str();
  add_number(
      command, "--replicas", options.replicas,
      "Copies of each server, in processes of their own: when a server dies, a copy takes its place, and "
      "nothing is lost (docs/elasticity.md). For a run on one host, or on several with --rendezvous, and "
      "tables whose rows stay.",
      {0, kMostReplicas})
      ->type_name("K")
      ->group(kProcessOptions)
      ->capture_default_str();
  add_number(command, "--workers", options.workers, "Worker processes; the data is split over them.",
             {1, most})
      ->type_name("W")
      ->group(kProcessOptions)
      ->capture_default_str();
}

void add_elastic_option(CLI::App& command, JobOptions& options) {
  command
      .add_flag(
          "--elastic", options.elastic,
          "Servers move while the job runs: to hosts that join it (--join), and from hosts that leave it. "
          "For processes that meet at --rendezvous, the same for all, and tables whose rows stay. With "
          "more servers than hosts the load is even (docs/elasticity.md).")
      ->group(kProcessOptions);
}

void add_thread_option(CLI::App& command, JobOptions& options) {
  constexpr std::uint32_t most = protocol::kMaxWorkers;
  add_number(command, "--threads", options.threads,
             "Worker threads in each worker process, each a worker of its own: W × T workers in all.",
             {1, most})
      ->type_name("T")
      ->group(kProcessOptions)
      ->capture_default_str();
}

void add_silence_option(CLI::App& command, JobOptions& options) {
  add_number(command, "--silence-timeout", options.silence_timeout_ms,
             "A process that has shown no sign of life for so many milliseconds, because it is stopped or "
             "its host hangs, ends the job, with its name. 0: none does, as for a process in a debugger. A "
             "process that computes is not silent.",
             {0, std::numeric_limits<std::int32_t>::max()})
      ->type_name("MS")
      ->check(accepted_by([](const std::string& text) {
        return transport::check_silence_timeout(base::parse_decimal<std::uint32_t>(text).value_or(0));
      }))
      ->group(kProcessOptions)
      ->capture_default_str();
}

void add_worker_patience_option(CLI::App& command, JobOptions& options) {
  add_number(
      command, "--worker-patience", options.worker_patience_s,
      "Where processes meet without mpirun: when a worker's process dies, the run waits so many seconds "
      "for another one in its place, which somebody has to start with the same words; then it ends. 0: "
      "it ends at once (docs/elasticity.md).",
      {0, 1'000'000})
      ->type_name("SECONDS")
      ->group(kProcessOptions)
      ->capture_default_str();
}

void add_leader_patience_option(CLI::App& command, JobOptions& options) {
  add_number(
      command, "--leader-patience", options.leader_patience_s,
      "Where processes meet without mpirun, with --replicas: when the process of rank 0 dies, which leads "
      "the run, the others wait so many seconds for another one in its place, which somebody has to start "
      "with the same words; then they end. The same for all processes (docs/elasticity.md).",
      {0, 1'000'000})
      ->type_name("SECONDS")
      ->group(kProcessOptions)
      ->capture_default_str();
}

void add_consistency_options(CLI::App& command, JobOptions& options) {
  command
      .add_option(
          "--consistency", options.consistency,
          "bsp: every iteration sees exactly the one before; reproducible. a-bsp: the same, but an iteration "
          "ends for all when the first worker is through its data, and what others left comes first in the "
          "next. ssp:S: a read may miss the last S iterations of others; a fast worker waits only when it is "
          "further ahead. essp:S: the same bound, and servers push fresh rows to those who read them. "
          "bounded-delay:S: as ssp:S, but the wait is at the end of an iteration. asp: nobody waits, nothing "
          "is promised. sequential: each push is applied before it returns. vap:V: what others may miss is "
          "at most V / sqrt(iteration) in every number. Without a number S is 1. docs/consistency.md "
          "explains and draws them. On one "
          "host reads miss less than these allow, unless --read-path is cached. Default: what --allocation "
          "needs; with one server on the workers' host what is fastest; else bsp (ctr: ssp:1).")
      ->type_name(kModelChoices)
      ->check(accepted_by([](const std::string& text) { return parse_consistency(text).status(); }))
      ->group(kConsistency);
  command
      .add_option(
          "--read-path", options.read_path,
          "Where a pull finds a row: in-place reads the server's memory, which is mapped on one host, "
          "so that under ssp, essp and the like it sees the newest of everything; cached reads this "
          "worker's row cache, as between hosts, and shows what the models promise and cost there; "
          "auto takes in-place where it can.")
      ->type_name("auto|in-place|cached")
      ->check(one_of({kLeftOpen, kInPlace, kCached}))
      ->group(kConsistency)
      ->capture_default_str();
  command
      .add_option("--gather", options.gather,
                  "How rows of sparse tables come from another host. never: each is read by itself; always: "
                  "the server gathers those of a pull into a message for each of its lanes; auto takes what "
                  "takes less time here, which each table's first pulls measure (docs/sparse.md).")
      ->type_name("auto|always|never")
      ->check(one_of({kLeftOpen, kAlways, kNever}))
      ->group(kConsistency)
      ->capture_default_str();
  add_budget_option(command, options);
}

bool is_one_node(const JobOptions& options) {
  return options.servers == 1 && options.transport.network.empty() &&
         is_decided_for(options.transport, transport::Reach::kHost);
}

void decide_consistency(JobOptions& options, Application& application, bool is_one_node) {
  if (options.consistency.empty())
    options.consistency = application.default_consistency(is_one_node, options.total_workers());
  const absl::StatusOr<ConsistencyModel> model = parse_consistency(options.consistency);
  // Otherwise an error follows.
  if (model.ok()) application.set_job_shape({*model, options.total_workers(), options.servers});
}

void add_budget_option(CLI::App& command, JobOptions& options) {
  add_number(
      command, "--budget", options.budget_mb_per_s,
      "Managed communication, for ssp, essp, bounded-delay and asp; nothing changes under others. Each "
      "server and worker may send one another so much before it is due: rows and updates go within an "
      "iteration while this lasts, the most important first, and eager pushes that nobody needs yet "
      "wait when it is used up. By default all travels at the end of an iteration, at full speed.")
      ->type_name("MB/S")
      ->check(positive_number())
      ->group(kConsistency);
}

void add_spin_option(CLI::App& command, JobOptions& options) {
  command
      .add_option(
          "--spin", options.spin,
          "What a process does that has to wait. briefly: it looks for work for some microseconds before it "
          "sleeps, which saves the time to wake up where it has a core to itself; never: it leaves the core "
          "to others at once, and all ask the kernel for short turns; auto: never where a job on one host "
          "has more threads than it may use cores (its affinity mask, its control group's quota).")
      ->type_name("auto|briefly|never")
      ->check(one_of({kLeftOpen, kBriefly, kNever}))
      ->group(kProcessOptions)
      ->capture_default_str();
}

void add_server_options(CLI::App& command, JobOptions& options) {
  add_number(command, "--server-threads", options.server_threads,
             "Threads of each server; 1 drives everything, best where workers need the cores. By "
             "default as many cores as the workers leave over of those that the run may use, at least 1.",
             {1, 256})
      ->type_name("N")
      ->group(kServers);
  add_number(
      command, "--lanes", options.lanes,
      "Parts of each shard that are applied independently. By default one for each thread but the first.",
      {1, protocol::kMaxLanes})
      ->type_name("N")
      ->group(kServers);
}

void add_outlive_option(CLI::App& command, JobOptions& options) {
  command
      .add_flag(
          "--outlive-workers", options.outlives_workers,
          "Let a worker that dies go, as if it had said goodbye, and serve the others to their end. For "
          "programs that can do without one of their workers, and where all tables are dynamic, so that "
          "no clock waits for it (docs/allocation.md); else the job fails all the same. All servers of the "
          "job need it.")
      ->group(kServers);
  add_number(command, "--backup-every-ms", options.backup_every_ms,
             "With --outlive-workers: every so many milliseconds, send images of the rows of dynamic tables "
             "that have changed to the next server, from which the rows of a node that dies come back, at "
             "most that old: updates of the last milliseconds may be missing (docs/allocation.md). 0: none; "
             "these rows are lost. The same for all servers of the job.",
             {0, 3'600'000})
      ->type_name("MS")
      ->group(kServers)
      ->capture_default_str();
}

void add_address_options(CLI::App& command, JobOptions& options) {
  command.formatter(std::make_shared<ManualFormatter>("(--job NAME | --addresses HOST:PORT,…)"));
  command
      .add_option("--job", options.job,
                  "Over shm: name of the job, the same for all its servers and workers, unlike any other's.")
      ->type_name("NAME")
      ->group(kProcessOptions);
  command
      .add_option(
          "--addresses", options.addresses,
          "Over verbs and tcp: where each server listens, in the order of their ranks, the same for all "
          "servers and workers. HOST is the name or an address of the server's host; over verbs, of "
          "the network interface of its RDMA device.")
      ->type_name("HOST:PORT,…")
      ->delimiter(',')
      ->group(kProcessOptions);
}

void add_network_option(CLI::App& command, JobOptions& options) {
  add_network_option(command, options.transport, kConditions);
}

void add_condition_options(CLI::App& command, JobOptions& options) {
  command
      .add_option(
          "--slow", options.slow,
          "Slow workers down: worker=1,factor=3 makes each mini-batch of worker 1 last three times its "
          "processor time, by sleeping; worker=all,item=1us makes each rating, token or triple take a "
          "microsecond (times the worker's factor), whatever it takes here; worker=all,pause=200ms,every=20 "
          "makes each worker pause before "
          "one clock in 20; worker=1,competitors=1 pins worker 1 to a core (core=K: that one) together with "
          "a "
          "busy thread, which makes no two runs alike. May be given several times; factors of one worker are "
          "multiplied, its competitors added up (docs/experiments.md).")
      ->type_name("worker=R|all,…")
      ->check(accepted_by([](const std::string& text) { return parse_slow(text).status(); }))
      ->expected(1)
      ->take_all()
      ->group(kConditions);
  add_network_option(command, options);
}

void add_checkpoint_options(CLI::App& command, JobOptions& options, bool of_run) {
  CheckpointSettings& checkpoints = options.checkpoints;
  command
      .add_option("--checkpoint", checkpoints.folder,
                  of_run
                      ? "Save the training in this folder from time to time, as FOLDER/ckpt-CLOCK, to go on "
                        "from there with --resume (docs/checkpoints.md). Ctrl-C then ends the run after an "
                        "iteration, and saves it; a second one ends it at once. Under mpirun and srun a "
                        "signal ends it at once. All hosts must see the same folder."
                      : "Save the training in this folder from time to time, as FOLDER/ckpt-CLOCK, to go on "
                        "from there with --resume-from (docs/checkpoints.md). All hosts must see the same "
                        "folder.")
      ->type_name("FOLDER")
      ->group(kCheckpoints);
  add_number(command, "--checkpoint-every", checkpoints.every,
             "Iterations from one checkpoint to the next. By default a tenth of all, at least 1, but none "
             "after the last one.",
             {1, std::numeric_limits<std::int64_t>::max()})
      ->type_name("N")
      ->group(kCheckpoints);
  add_number(command, "--checkpoint-keep", checkpoints.keep,
             "How many whole checkpoints stay in the folder, the newest, besides those that they need. By "
             "default 2.",
             {1, std::numeric_limits<std::uint32_t>::max()})
      ->type_name("N")
      ->group(kCheckpoints);
  add_number(command, "--checkpoint-increments", checkpoints.increments,
             "After a checkpoint of all rows, save only those that have changed since the checkpoint before, "
             "so many times. It pays where few rows change from one to the next. By default 0.",
             {0, std::numeric_limits<std::uint32_t>::max()})
      ->type_name("N")
      ->group(kCheckpoints);
  CLI::Option* const from =
      command
          .add_option(
              "--resume-from", checkpoints.resume_from,
              "Go on from this checkpoint, the ckpt-CLOCK of a --checkpoint FOLDER, with the same data, "
              "options, workers and consistency model; there may be another number of servers.")
          ->type_name("FOLDER")
          ->group(kCheckpoints);
  if (!of_run) return;
  command
      .add_flag(
          "--resume", checkpoints.resume,
          "Go on from the newest whole checkpoint in the folder of --checkpoint, as --resume-from does; "
          "from the beginning if there is none, so that a batch job may be started with the same words "
          "again and again. Between hosts rank 0 looks, for all.")
      ->excludes(from)
      ->group(kCheckpoints);
  add_number(
      command, "--restarts", checkpoints.restarts,
      "When a server or worker process dies (it is killed, crashes, or shows no sign of life), end the "
      "others, and start all again from the newest whole checkpoint of this run, at most so many "
      "times. For a run on one host, with --checkpoint; between hosts whatever has started the processes "
      "starts them again, with --resume.",
      {0, std::numeric_limits<std::uint32_t>::max()})
      ->type_name("N")
      ->group(kCheckpoints)
      ->capture_default_str();
}

void add_log_options(CLI::App& command, JobOptions& options) {
  command.add_flag("-v,--verbose", options.verbose, "Log the effective options, and what the processes do.")
      ->group("General");
  command
      .add_option(
          "--log-format", options.log_format,
          "How lines on standard error are written, of progress, of errors and of the log: for people, "
          "or for programs, each as a JSON object with \"time\", \"level\", \"process\" and "
          "\"message\" (docs/monitoring.md). Results on standard output stay as they are.")
      ->type_name("text|json")
      ->check(one_of({"text", "json"}))
      ->group("General")
      ->capture_default_str();
}

namespace {

/// Whether checkpoints can be made in it; makes nothing.
absl::Status check_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(folder, error);
  // Those that are missing are made with the first checkpoint.
  while (!std::filesystem::exists(place, error) && place.has_relative_path()) place = place.parent_path();
  if (std::filesystem::is_directory(place, error) && ::access(place.c_str(), W_OK | X_OK) == 0)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--checkpoint {}: {} is no folder that may be written", folder, place.string()));
}

/// What must hold whatever the application is.
absl::Status check_together(const CheckpointSettings& checkpoints) {
  if (!checkpoints.folder.empty()) return check_folder(checkpoints.folder);
  for (const auto& [name, is_given] :
       {std::pair("--checkpoint-every", checkpoints.every.has_value()),
        std::pair("--checkpoint-keep", checkpoints.keep.has_value()),
        std::pair("--checkpoint-increments", checkpoints.increments.has_value()),
        std::pair("--resume", checkpoints.resume), std::pair("--restarts", checkpoints.restarts > 0)}) {
    if (is_given)
      return absl::InvalidArgumentError(
          fmt::format("{}: expected with --checkpoint FOLDER, which says where", name));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check(const JobOptions& options) {
  RETURN_IF_ERROR(check(options.transport));
  RETURN_IF_ERROR(check_together(options.checkpoints));
  if (is_decided_for(options.transport, transport::Reach::kHosts) && options.read_path == kInPlace) {
    return absl::InvalidArgumentError(
        fmt::format("--read-path in-place needs --transport {}: over {} no server's memory is mapped here",
                    default_scheme(transport::Reach::kHost), options.transport.transport));
  }
  if (!options.transport.network.empty() && options.read_path == kInPlace) {
    return absl::InvalidArgumentError(
        "--read-path in-place is not over a network: --network goes with --read-path cached or auto");
  }
  const std::uint64_t total = std::uint64_t{options.workers} * options.threads;
  if (total > protocol::kMaxWorkers) {
    return absl::InvalidArgumentError(
        fmt::format("--workers {} of --threads {} are {} workers in all; at most {} can be", options.workers,
                    options.threads, total, protocol::kMaxWorkers));
  }
  for (const std::string& text : options.slow) {
    const absl::StatusOr<SlowRule> rule = parse_slow(text);
    if (!rule.ok()) return rule.status();
    if (rule->worker && *rule->worker >= total) {
      return absl::InvalidArgumentError(fmt::format(
          "--slow {}: workers count from 0, it must be less than the {} workers in all", text, total));
    }
  }
  return absl::OkStatus();
}

namespace {

/// What --read-path stands for. Over a network it is the session that finds out which memory it can map.
std::string decided_read_path(const JobOptions& options) {
  if (options.read_path != kLeftOpen) return options.read_path;
  if (!options.transport.network.empty()) return kCached;
  if (is_decided_for(options.transport, transport::Reach::kHost)) return kInPlace;
  return backend_of(options.transport).maps_own_host
             ? fmt::format("{} of a server on its host, else {}", kInPlace, kCached)
             : kCached;
}

}  // namespace

absl::Status check_gather(const Application& application, const JobOptions& options) {
  if (options.gather == kLeftOpen) return absl::OkStatus();
  if (!application.has_sparse_tables()) {
    return absl::InvalidArgumentError(
        fmt::format("--gather {}: {} has no sparse tables, whose rows are gathered; expected {}",
                    options.gather, std::string(application.name()), kLeftOpen));
  }
  // Who decides it later asks again.
  if (options.transport.transport == kAutoTransport || decided_read_path(options) != kInPlace)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--gather {}: over {} rows are read in place, and none is gathered; expected {}, "
                  "--read-path {} or another --transport",
                  options.gather, options.transport.transport, kLeftOpen, kCached));
}

namespace {

absl::Status check_checkpoints(const Application& application, const CheckpointSettings& checkpoints,
                               bool baseline) {
  if (checkpoints.folder.empty() && checkpoints.resume_from.empty()) return absl::OkStatus();
  const std::string_view option = checkpoints.folder.empty() ? "--resume-from" : "--checkpoint";
  if (baseline) {
    return absl::InvalidArgumentError(
        fmt::format("{}: the servers save what is trained; --baseline has none", option));
  }
  if (application.iterations() == 0)
    return absl::InvalidArgumentError(
        fmt::format("{}: nothing is trained, so there is nothing to save", option));
  if (application.can_be_resumed()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: {} cannot be saved and gone on with", option, std::string(application.name())));
}

}  // namespace

absl::Status check_application(Application& application, const JobOptions& options, bool baseline) {
  if (baseline) RETURN_IF_ERROR(application.check_baseline());
  // Without one it is the application's own choice.
  if (!baseline && !options.consistency.empty())
    RETURN_IF_ERROR(application.check_consistency(*parse_consistency(options.consistency)));
  if (!baseline) RETURN_IF_ERROR(check_gather(application, options));
  RETURN_IF_ERROR(check_checkpoints(application, options.checkpoints, baseline));
  return application.check(baseline ? 1 : options.total_workers());
}

absl::Status check_no_replicas(const JobOptions& options) {
  if (options.elastic) {
    return absl::InvalidArgumentError(
        "--elastic: expected with --rendezvous, where the processes of the job meet; not for a job on one "
        "host, nor for processes that meet by PMIx (mpirun and srun end all when one dies)");
  }
  if (options.replicas == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--replicas: expected with verbena run, on one host or with --rendezvous; not for processes that meet "
      "by PMIx (mpirun and srun end all when one dies), or that find each other by --addresses or --job");
}

absl::Status check_can_join(const JobOptions& options) {
  if (options.can_move_servers()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--join: expected with the options of a job whose servers move, with --elastic or --replicas among "
      "them");
}

absl::Status check_memory(const JobOptions& options, std::uint32_t servers_here, std::uint32_t workers_here) {
  const SessionOptions session;
  const std::uint64_t inboxes = std::uint64_t{servers_here} * options.total_workers() * session.inbox_bytes;
  const std::uint64_t push_rings =
      std::uint64_t{workers_here} * options.threads * options.servers * session.push_ring_bytes;
  const std::uint64_t buffers = inboxes + push_rings;
  struct sysinfo host = {};
  if (::sysinfo(&host) != 0) return absl::OkStatus();
  const std::uint64_t memory = std::uint64_t{host.totalram} * host.mem_unit;
  if (buffers <= memory) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} servers × {} workers need {} MiB for the buffers between them; this host has {} MiB",
                  options.servers, options.total_workers(), buffers >> 20, memory >> 20));
}

absl::Status check_places(const std::vector<std::string>& addresses) {
  std::set<std::string> seen;
  for (const std::string& text : addresses) {
    const absl::StatusOr<transport::HostPort> place = transport::parse_host_port(text);
    if (!place.ok() || place->host.empty() || place->port == 0) {
      return absl::InvalidArgumentError(fmt::format("--addresses: HOST:PORT is expected, not \"{}\"", text));
    }
    if (!seen.insert(text).second) {
      return absl::InvalidArgumentError(fmt::format("--addresses: two servers cannot share {}", text));
    }
  }
  return absl::OkStatus();
}

namespace {

absl::Status check_addresses(const JobOptions& options) {
  if (options.addresses.size() != options.servers) {
    return absl::InvalidArgumentError(fmt::format("--addresses names {} servers, --servers says {}",
                                                  options.addresses.size(), options.servers));
  }
  return check_places(options.addresses);
}

}  // namespace

TransportOptions decided_by_hand(const JobOptions& options) {
  TransportOptions chosen = decided(
      options.transport, options.addresses.empty() ? transport::Reach::kHost : transport::Reach::kHosts);
  chosen.has_other_hosts = !options.addresses.empty();  // nobody says that these are all of one host
  return chosen;
}

absl::Status check_by_hand(const JobOptions& options) {
  RETURN_IF_ERROR(check_no_replicas(options));
  JobOptions job = options;
  job.transport = decided_by_hand(options);
  RETURN_IF_ERROR(check(job));
  const std::string& scheme = job.transport.transport;
  const std::string& on_host = default_scheme(transport::Reach::kHost);
  const std::string between_hosts = schemes_between_hosts();
  if (is_decided_for(job.transport, transport::Reach::kHosts)) {
    if (!job.job.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("--job is for --transport {}; over {} --addresses are enough", on_host, scheme));
    }
    if (job.addresses.empty()) {
      return absl::InvalidArgumentError(fmt::format(
          "--transport {} needs --addresses HOST:PORT,… with one address for each server", scheme));
    }
    return check_addresses(job);
  }
  if (!job.addresses.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("--addresses is for --transport {}; over {} --job is enough", between_hosts, scheme));
  }
  if (job.job.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "--job NAME is required on one host, --transport {} --addresses HOST:PORT,… between hosts",
        between_hosts));
  }
  return check_memory(job, job.servers, job.workers);
}

std::vector<std::string> server_addresses(const JobOptions& options) {
  const transport::Backend& backend = backend_of(decided_by_hand(options));
  std::vector<std::string> all;
  for (std::uint32_t rank = 0; rank < options.servers; ++rank) {
    all.push_back(backend.address(options.addresses.empty() ? job::ServerPlace{options.job, rank}.text()
                                                            : options.addresses[rank]));
  }
  return all;
}

absl::StatusOr<std::string> fresh_address(const TransportOptions& options, std::int64_t run,
                                          std::uint32_t server) {
  const transport::Backend& backend = backend_of(options);
  if (options.has_other_hosts) return backend.fresh_address_for_hosts();
  return backend.fresh_address(job::ServerPlace::fresh(run, server).text());
}

TransportOptions waiting_transport(const JobOptions& options) {
  TransportOptions transport = options.transport;
  transport.shares_cores = !spins(options);
  return transport;
}

bool spins(const JobOptions& options) {
  if (options.spin != kLeftOpen) return options.spin == kBriefly;
  return options.transport.has_other_hosts ||
         options.server_processes() + options.total_workers() <= base::cores_at_hand();
}

ReadPath read_path_of(const JobOptions& options) {
  if (options.read_path == kInPlace) return ReadPath::kInPlace;
  return options.read_path == kCached ? ReadPath::kCached : ReadPath::kAuto;
}

std::optional<std::size_t> gather_row_bytes_of(const JobOptions& options) {
  if (options.gather == kLeftOpen) return std::nullopt;
  return options.gather == kAlways ? std::numeric_limits<std::size_t>::max() : 0;
}

Choices choices_of(const JobOptions& options, bool has_sparse_tables) {
  const bool is_own_program = options.consistency.empty();  // which says for each table
  Choices choices = {{"transport", options.transport.transport}};
  if (options.transport.tls) choices.push_back({"tls", "yes"});
  if (!is_own_program) choices.push_back({"consistency", to_string(*parse_consistency(options.consistency))});
  if (!is_own_program) choices.push_back({"read-path", decided_read_path(options)});
  choices.push_back({"servers", std::to_string(options.servers)});
  choices.push_back({"workers", std::to_string(options.workers)});
  if (!is_own_program) choices.push_back({"threads", std::to_string(options.threads)});
  if (options.starts_servers) {
    choices.push_back({"server-threads", std::to_string(options.chosen_server_threads())});
    choices.push_back({"lanes", std::to_string(options.chosen_lanes())});
  }
  choices.push_back({"spin", spins(options) ? kBriefly : kNever});
  if (has_sparse_tables && decided_read_path(options) != kInPlace)
    choices.push_back({kGatherChoice, options.gather == kLeftOpen ? kMeasured : options.gather});
  for (Choice& choice : choices) choice.by_hand = options.is_by_hand(choice.name);
  return choices;
}

std::vector<SlowRule> slow_rules(const JobOptions& options) {
  std::vector<SlowRule> rules;
  for (const std::string& text : options.slow) rules.push_back(*parse_slow(text));
  return rules;
}

ApplicationOptions::ApplicationOptions(CLI::App& command, Application& application)
    : application_(application) {
  const std::vector<CLI::Option*> before = command.get_options();
  command.option_defaults()->group(fmt::format("Options of {}", application.name()));
  application.add_options(command);
  command.option_defaults()->group("Options");
  for (const CLI::Option* option : command.get_options()) {
    if (std::find(before.begin(), before.end(), option) == before.end()) options_.push_back(option);
  }
}

std::vector<std::string> ApplicationOptions::given() const {
  std::vector<std::string> arguments;
  for (const CLI::Option* option : options_) {
    for (const std::string& value : option->results()) {
      arguments.push_back(option->nonpositional() ? fmt::format("{}={}", option->get_name(), value) : value);
    }
  }
  return arguments;
}

std::string ApplicationOptions::value(const std::string& name) const {
  for (const CLI::Option* option : options_) {
    if (option->check_name(name)) {
      if (std::optional<std::string> chosen = application_.chosen(option->get_single_name()))
        return *std::move(chosen);
      return option->results().empty() ? option->get_default_str() : option->results().back();
    }
  }
  return {};
}

std::map<std::string, std::string> ApplicationOptions::values() const {
  std::map<std::string, std::string> all;
  for (const CLI::Option* option : options_) {
    std::string value = this->value(option->get_name());
    if (option->get_type_size() == 0) value = option->count() > 0 ? "true" : "false";
    if (!value.empty()) all[option->get_single_name()] = std::move(value);
  }
  return all;
}

Choices ApplicationOptions::choices() const {
  Choices choices;
  for (const ChoiceOption& of_run : application_.choices()) {
    for (const CLI::Option* const option : options_) {
      if (option->get_single_name() != of_run.option) continue;
      const std::string name(of_run.option);
      const bool is_open = application_.leaves_open(of_run.option);
      const std::string value =
          is_open && !application_.chosen(of_run.option) ? kByTheData : this->value(option->get_name());
      if (value.empty()) continue;  // it does nothing
      choices.push_back({.name = name,
                         .value = value,
                         .by_hand = option->count() > 0 && !is_open,
                         .decided_by = std::string(of_run.decided_by)});
    }
  }
  return choices;
}

std::string ApplicationOptions::effective() const {
  std::string text;
  for (const CLI::Option* option : options_) {
    const std::string value = this->value(option->get_name());
    if (!value.empty()) text += fmt::format("{}{}={}", text.empty() ? "" : " ", option->get_name(), value);
  }
  return text;
}

std::string examples(const std::vector<std::string>& lines) {
  std::string text = "EXAMPLES";
  for (const std::string& line : lines) text += "\n       " + line;
  return text;
}

std::string effective(const JobOptions& options) {
  const CheckpointSettings& checkpoints = options.checkpoints;
  std::string saving;
  if (!checkpoints.folder.empty()) saving += " --checkpoint=" + checkpoints.folder;
  if (checkpoints.every) saving += fmt::format(" --checkpoint-every={}", *checkpoints.every);
  if (checkpoints.keep) saving += fmt::format(" --checkpoint-keep={}", *checkpoints.keep);
  if (checkpoints.increments) saving += fmt::format(" --checkpoint-increments={}", *checkpoints.increments);
  if (!checkpoints.resume_from.empty()) saving += " --resume-from=" + checkpoints.resume_from;
  if (checkpoints.restarts > 0) saving += fmt::format(" --restarts={}", checkpoints.restarts);
  return fmt::format(
      "--servers={}{}{} --workers={} --threads={} --consistency={} --read-path={} --gather={} --spin={} "
      "--transport={}{} --device={} --device-port={}{} --server-threads={} --lanes={} --job={} "
      "--addresses={} "
      "--network={} "
      "--budget={} --silence-timeout={}{}{}{}{}",
      options.servers, options.replicas == 0 ? "" : fmt::format(" --replicas={}", options.replicas),
      options.elastic ? " --elastic" : "", options.workers, options.threads, options.consistency,
      options.read_path, options.gather, options.spin, options.transport.transport,
      options.transport.tls ? " --tls" : "", options.transport.device, options.transport.device_port,
      options.transport.streams == 0 ? "" : fmt::format(" --streams={}", options.transport.streams),
      options.chosen_server_threads(), options.chosen_lanes(), options.job,
      absl::StrJoin(options.addresses, ","), options.transport.network, options.budget_mb_per_s,
      options.silence_timeout_ms,
      (options.outlives_workers ? std::string(" --outlive-workers") : std::string()) +
          (options.backup_every_ms == 0 ? "" : fmt::format(" --backup-every-ms={}", options.backup_every_ms)),
      options.slow.empty() ? "" : " --slow=", absl::StrJoin(options.slow, " --slow="), saving);
}

}  // namespace verbena::apps
