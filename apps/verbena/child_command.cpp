#include "apps/verbena/child_command.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "apps/verbena/exit_status.hpp"

namespace verbena::apps {

void add_report_option(CLI::App& command, ChildOptions& options) {
  command.add_option("--report-to", options.report_to)->group("");  // the launcher's, not for people
}

namespace {

bool is_caused_by_others(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

int run_child(const ChildOptions& options, ProcessJobs jobs, Outlet& outlet, std::atomic<bool>& stop) {
  const bool launched = options.report_to >= 0;
  if (launched) {
    // A Ctrl-C goes to all processes of the terminal; the launcher says what is to be done about it. Errors
    // are the launcher's to print, once.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    if (!options.job.verbose) spdlog::set_level(spdlog::level::off);
  }
  StopSignals signals = launched ? StopSignals({SIGTERM}) : StopSignals({SIGINT, SIGTERM, SIGHUP});
  jobs.listener_descriptor = outlet.descriptor();
  const JobsResult result = run_jobs(std::move(jobs), signals, stop);
  int status = kExitOk;
  for (const absl::Status& ended : result.statuses) {
    if (ended.ok() || absl::IsCancelled(ended)) continue;
    // After a signal, what others have caused is its consequence; an error of its own may be the reason for
    // it.
    if (result.signal != 0 && is_caused_by_others(ended)) continue;
    outlet.send(FailedMessage{ended});
    status = status == kExitOk ? exit_status(ended) : status;
  }
  if (result.signal != 0) status = kExitSignalBase + result.signal;
  if (result.abandoned) {
    std::fflush(stdout);
    ::_exit(status == kExitOk ? kExitFailed : status);
  }
  return status;
}

}  // namespace verbena::apps
