// `verbena run -- PROGRAM ARGUMENTS`: a user's own program runs as the workers of a job, with Verbena's
// servers, on this host or on a cluster.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/launcher/cluster_run.hpp"
#include "apps/launcher/run_outputs.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

/// What the command line says about it, in addition to JobOptions and RunOptions.
struct ProgramOptions {
  std::vector<std::string> words;  ///< the program and its arguments
  std::string objective;           ///< shown and drawn first; empty: the first by name
  std::uint32_t restarts = 0;      ///< how often all processes are started again when one has died
};

/// `command` must not outlive `options`.
void add_program_options(CLI::App& command, ProgramOptions& options);

/// Returns the exit status.
int run_program(RunOptions run, const ProgramOptions& options);

/// The same in a process that mpirun or srun has started: it serves, or the program runs under it. Sets
/// cluster.worker_jobs.
int run_program_in_cluster(const RunOptions& run, const ProgramOptions& options, ClusterOptions cluster);

}  // namespace verbena::apps
