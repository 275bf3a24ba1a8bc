// What the subcommands `server` and `worker` have in common.
#pragma once

#include <atomic>
#include <functional>

#include "apps/launcher/job_options.hpp"
#include "apps/launcher/outlet.hpp"
#include "apps/launcher/process_jobs.hpp"
#include "apps/launcher/roles.hpp"
#include "job/launch_letter.hpp"

namespace verbena::apps {

struct ChildOptions {
  JobOptions job;
  std::uint32_t rank = 0;    ///< of this process among its kind
  job::LaunchLetter letter;  ///< empty when started by hand; its rendezvous also brings the job's secret
};

using MakeJobs = std::function<absl::StatusOr<ProcessJobs>(const Role& role, Outlet& outlet,
                                                           const std::atomic<bool>& stop)>;

/// Runs the jobs to the end, sends the errors to `outlet` and returns the exit status. Does not return if a
/// job cannot be stopped.
int run_child(const ChildOptions& options, Outlet& outlet, const MakeJobs& make_jobs);

/// Sends the errors of jobs to `outlet` and returns the exit status that follows from them.
int report_result(const JobsResult& result, Outlet& outlet);

}  // namespace verbena::apps
