// What the subcommands server and worker have in common.
#pragma once

#include <atomic>
#include <memory>

#include "apps/verbena/job_options.hpp"
#include "apps/verbena/outlet.hpp"
#include "apps/verbena/process_jobs.hpp"

namespace CLI {
class App;
}  // namespace CLI

namespace verbena::apps {

struct ChildOptions {
  JobOptions job;
  std::uint32_t rank = 0;  ///< of this process among its kind
  int report_to = -1;      ///< a pipe to the launcher; −1 when started by hand
};

void add_report_option(CLI::App& command, ChildOptions& options);

/// Runs the jobs to the end, sends the errors to `outlet` and returns the exit status. Does not return if a
/// job cannot be stopped.
int run_child(const ChildOptions& options, ProcessJobs jobs, Outlet& outlet, std::atomic<bool>& stop);

}  // namespace verbena::apps
