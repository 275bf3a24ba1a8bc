// Options that the launcher and the processes it starts have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "transport/transport.hpp"
#include "worker/session.hpp"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace verbena::apps {

struct JobOptions {
  // --- what the job is
  std::uint32_t servers = 1;
  std::uint32_t workers = 1;  ///< processes
  std::uint32_t threads = 1;  ///< workers in each of them
  std::string consistency = "bsp";
  std::string transport = "auto";
  std::string read_path = "auto";
  std::string job;  ///< names the servers' addresses; empty where the launcher makes one up
  // --- what it costs: more is faster only where there are cores to spare. 0: by the cores at hand.
  std::uint32_t server_threads = 0;
  std::uint32_t lanes =
      0;  ///< parts of each shard that are applied independently; 0: one for each lane thread
  bool verbose = false;

  [[nodiscard]] std::uint32_t total_workers() const { return workers * threads; }
  [[nodiscard]] std::uint32_t chosen_server_threads() const;
  [[nodiscard]] std::uint32_t chosen_lanes() const;
};

/// --servers and --workers, --consistency and so on, in groups; `command` must not outlive `options`.
void add_size_options(CLI::App& command, JobOptions& options);         // all
void add_consistency_options(CLI::App& command, JobOptions& options);  // run, worker
void add_transport_option(CLI::App& command, JobOptions& options);     // all
void add_server_options(CLI::App& command, JobOptions& options);       // run, server
void add_job_option(CLI::App& command, JobOptions& options);           // worker, server
void add_verbose_option(CLI::App& command, JobOptions& options);       // all

/// A CLI validator that says in one line what was expected.
CLI::Validator whole_number(std::int64_t least, std::int64_t most);

/// INVALID_ARGUMENT in one line: too many workers in all, or buffers that do not fit into memory.
absl::Status check(const JobOptions& options);

std::string server_address(const std::string& job, std::uint32_t rank);
/// Names of 64 random bits, so that two jobs of one host do not meet.
std::string random_job_name();

ReadPath read_path_of(const JobOptions& options);
/// "auto" resolved: the name of the transport that the job uses.
std::string transport_name(const JobOptions& options);
absl::StatusOr<std::shared_ptr<transport::Transport>> make_transport(const JobOptions& options);

/// The options that an application has added to a command, as given on the command line: "--name=value".
class ApplicationOptions {
 public:
  ApplicationOptions(CLI::App& command, Application& application);
  [[nodiscard]] std::vector<std::string> given() const;
  /// The value of the option of that name, given or default; empty if there is none.
  [[nodiscard]] std::string value(const std::string& name) const;
  /// All, for people: "--topics=50 --seed=1".
  [[nodiscard]] std::string effective() const;

 private:
  std::vector<const CLI::Option*> options_;
};

/// The footer of a command's help.
std::string examples(const std::vector<std::string>& lines);

/// The effective options, one line, for -v.
std::string effective(const JobOptions& options);

}  // namespace verbena::apps
