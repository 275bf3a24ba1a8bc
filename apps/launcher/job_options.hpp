// Options that the launcher and the processes it starts have in common.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/conditions/slowdown.hpp"
#include "apps/options/transport_options.hpp"
#include "apps/report/choices.hpp"
#include <verbena/session.hpp>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace verbena::apps {

/// What is saved while an application trains, and whether it goes on from there.
struct CheckpointSettings {
  std::string folder;                      ///< empty: nothing is saved
  std::optional<std::int64_t> every;       ///< iterations; nullopt: not given
  std::optional<std::int64_t> keep;        ///< nullopt: not given
  std::optional<std::int64_t> increments;  ///< nullopt: not given
  bool resume = false;                     ///< from the newest one in the folder: becomes `resume_from`
  std::string resume_from;                 ///< the folder of a checkpoint; empty: from the beginning
  std::uint32_t restarts = 0;              ///< how often the launcher goes back to one by itself
};

struct JobOptions {
  // --- what the job is
  std::uint32_t servers = 1;
  std::uint32_t replicas = 0;  ///< copies of each server, besides the one that serves
  bool elastic = false;        ///< servers move when hosts come and leave, also those without copies
  std::uint32_t workers = 1;   ///< processes
  std::uint32_t threads = 1;   ///< workers in each of them
  std::string consistency;     ///< empty: not given; decide_consistency()
  TransportOptions transport;
  std::string read_path = "auto";
  std::string gather = "auto";              ///< add_consistency_options()
  double budget_mb_per_s = 0;               ///< managed communication; 0: none
  std::uint32_t silence_timeout_ms = 5000;  ///< of ServerOptions and SessionOptions
  /// On several hosts: how long the run waits for another process in the place of a worker's that has died.
  std::uint32_t worker_patience_s = 60;
  /// The same with the process that leads it, if servers have copies.
  std::uint32_t leader_patience_s = 60;
  /// For servers started by hand, for users' own programs: the servers go on when a worker dies.
  bool outlives_workers = false;
  std::uint32_t backup_every_ms = 0;  ///< and rows that move come back when a node dies; 0: they are lost
  // --- worse conditions than the host's, for experiments
  std::vector<std::string> slow;  ///< parse_slow()
  CheckpointSettings checkpoints;
  // --- where the servers are, for processes started by hand; one of the two
  std::string job;                     ///< on one host: part of the servers' addresses
  std::vector<std::string> addresses;  ///< between hosts: HOST:PORT of each server, by rank
  // --- what it costs: more is faster only where there are cores to spare. 0: by the cores at hand.
  std::uint32_t server_threads = 0;
  std::uint32_t lanes =
      0;  ///< parts of each shard that are applied independently; 0: one for each lane thread
  std::string spin = "auto";  ///< add_spin_option()
  bool verbose = false;
  /// Not of a worker that was started by hand: how its servers are is not its choice.
  bool starts_servers = true;
  /// What was on the command line, by name without dashes. For what the run says of its choices; and servers
  /// and workers that are not given are as many as there are processes.
  std::map<std::string, std::string> given;
  std::string log_format = "text";  ///< of what is written on standard error: "text" or "json"

  [[nodiscard]] std::uint32_t total_workers() const { return workers * threads; }
  /// All copies of all servers. They are numbered: first those that serve at the beginning, by their ranks,
  /// then the next copy of each, and so on.
  [[nodiscard]] std::uint32_t server_processes() const { return servers * (1 + replicas); }
  /// Another process may become a server while the job runs.
  [[nodiscard]] bool can_move_servers() const { return elastic || replicas > 0; }
  /// On several hosts: how long the run may be without a leader, whose server lives on in its copy.
  [[nodiscard]] std::chrono::seconds longest_absence_of_leader() const {
    return std::chrono::seconds(replicas > 0 ? leader_patience_s : 0);
  }
  /// Of processes that were started one by one: how many threads all servers have by default, also on other
  /// hosts; 0: as many as this host alone has for them.
  std::uint32_t agreed_server_threads = 0;
  [[nodiscard]] std::uint32_t chosen_server_threads() const;
  [[nodiscard]] std::uint32_t chosen_lanes() const;
  /// Whether the option of this name, without dashes, was given, and not as "auto".
  [[nodiscard]] bool is_by_hand(const std::string& name) const;
};

/// What a server may use of `cores` that it shares with so many workers and other servers: workers come
/// first.
[[nodiscard]] std::uint32_t threads_of_a_server(std::uint32_t cores, std::uint32_t workers,
                                                std::uint32_t servers);

/// The options that were on the command line, by name without dashes. For JobOptions::given.
std::map<std::string, std::string> given_options(const CLI::App& command);

/// --servers and --workers, --consistency and so on, in groups; `command` must not outlive `options`.
void add_size_options(CLI::App& command, JobOptions& options);         // all
void add_elastic_option(CLI::App& command, JobOptions& options);       // run, for an application
void add_thread_option(CLI::App& command, JobOptions& options);        // all but for programs of a user's own
void add_consistency_options(CLI::App& command, JobOptions& options);  // run, worker
/// Takes the application's default if --consistency was not given, and tells the application the job's shape.
/// Call it when all options are parsed, and it is decided how many servers and workers there are.
/// `is_one_node`: as for Application::default_consistency().
void decide_consistency(JobOptions& options, Application& application, bool is_one_node);
/// REQUIRES: the transport is decided.
bool is_one_node(const JobOptions& options);
void add_budget_option(CLI::App& command, JobOptions& options);           // server; the others have it, too
void add_silence_option(CLI::App& command, JobOptions& options);          // all
void add_worker_patience_option(CLI::App& command, JobOptions& options);  // run APP
void add_leader_patience_option(CLI::App& command, JobOptions& options);  // run
void add_spin_option(CLI::App& command, JobOptions& options);             // all
void add_server_options(CLI::App& command, JobOptions& options);          // run, server
void add_outlive_option(CLI::App& command, JobOptions& options);          // server
void add_address_options(CLI::App& command, JobOptions& options);         // worker, server
void add_condition_options(CLI::App& command, JobOptions& options);       // run, worker
void add_network_option(CLI::App& command, JobOptions& options);          // server; the others have it, too
/// `of_run`: with --resume and --restarts, which one process decides for all.
void add_checkpoint_options(CLI::App& command, JobOptions& options, bool of_run);  // run, worker
void add_log_options(CLI::App& command, JobOptions& options);                      // all

inline constexpr std::uint32_t kMostReplicas = 8;            ///< copies of each server
inline constexpr const char* kProcessOptions = "Processes";  ///< their group in --help

/// INVALID_ARGUMENT in one line: too many workers in all, or options that exclude each other.
absl::Status check(const JobOptions& options);
/// INVALID_ARGUMENT if servers are to have copies, or to move. For jobs that are started in ways that do not
/// know them.
absl::Status check_no_replicas(const JobOptions& options);
/// INVALID_ARGUMENT if its servers do not move between hosts: for a process that is to join it.
absl::Status check_can_join(const JobOptions& options);
/// INVALID_ARGUMENT if the buffers of so many of the job's server and worker processes do not fit into this
/// host's memory.
absl::Status check_memory(const JobOptions& options, std::uint32_t servers_here, std::uint32_t workers_here);
/// The same for a process started by hand, and whether it knows where the servers are.
absl::Status check_by_hand(const JobOptions& options);

/// Checks whether the application can run this job, or the plain loop, and save what it trains if that is
/// asked for. Errors as for Application::check().
absl::Status check_application(Application& application, const JobOptions& options, bool baseline);
/// INVALID_ARGUMENT: --gather says something, and no row would be gathered in any way. check_application()
/// asks this, too; who decides the transport after that asks again.
absl::Status check_gather(const Application& application, const JobOptions& options);

/// INVALID_ARGUMENT: one of what --addresses has is no HOST:PORT, or is there twice.
absl::Status check_places(const std::vector<std::string>& addresses);

/// Resolves "auto" for processes started by hand: a transport between hosts if they were given addresses.
TransportOptions decided_by_hand(const JobOptions& options);
/// The addresses of all servers, by rank, as given by hand. REQUIRES: check_by_hand() has succeeded.
std::vector<std::string> server_addresses(const JobOptions& options);
/// A unique address for a server to listen at; the server then tells it to the other processes. `run`: the
/// process that has started the job.
absl::StatusOr<std::string> fresh_address(const TransportOptions& options, std::int64_t run,
                                          std::uint32_t server);

/// Whether a process that has nothing to do looks for work for a while before it sleeps. REQUIRES: the
/// transport is decided.
bool spins(const JobOptions& options);
/// The transport of such a process: one that waits leaves its core at once, or does not. REQUIRES: as
/// spins().
TransportOptions waiting_transport(const JobOptions& options);
ReadPath read_path_of(const JobOptions& options);
/// SessionOptions::gather_row_bytes; without a value where sessions measure what is faster.
std::optional<std::size_t> gather_row_bytes_of(const JobOptions& options);
/// What the job decides by itself, or was told. `has_sparse_tables`: Application::has_sparse_tables().
/// REQUIRES: the transport and the consistency model are decided.
Choices choices_of(const JobOptions& options, bool has_sparse_tables);
/// REQUIRES: check() has succeeded.
std::vector<SlowRule> slow_rules(const JobOptions& options);

/// The options that an application has added to a command, as given on the command line: "--name=value".
class ApplicationOptions {
 public:
  ApplicationOptions(CLI::App& command, Application& application);
  [[nodiscard]] std::vector<std::string> given() const;
  /// The value of the option of that name: chosen, given or default; empty if there is none.
  [[nodiscard]] std::string value(const std::string& name) const;
  /// All options that have a value, chosen, given or default, by name without dashes; the value is text, for
  /// a flag "true" or "false".
  [[nodiscard]] std::map<std::string, std::string> values() const;
  /// Those that the application counts as choices, and that do something.
  [[nodiscard]] Choices choices() const;
  /// All options in a readable form: "--topics=50 --seed=1".
  [[nodiscard]] std::string effective() const;

 private:
  const Application& application_;
  std::vector<const CLI::Option*> options_;
};

/// The footer of a command's help.
std::string examples(const std::vector<std::string>& lines);

/// The effective options, one line, for -v.
std::string effective(const JobOptions& options);

}  // namespace verbena::apps
