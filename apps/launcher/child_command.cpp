#include "apps/launcher/child_command.hpp"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "apps/report/exit_status.hpp"
#include "job/embedded_rendezvous.hpp"
#include "job/launchers_configuration.hpp"
#include "job/shared_word.hpp"

namespace verbena::apps {

namespace {

bool is_caused_by_others(const absl::Status& status) {
  return absl::IsAborted(status) || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

}  // namespace

int report_result(const JobsResult& result, Outlet& outlet) {
  int status = kExitOk;
  for (const absl::Status& ended : result.statuses) {
    if (ended.ok() || absl::IsCancelled(ended)) continue;
    // After a signal, an error that other processes caused is a consequence of the signal; a job's own error
    // may be the reason for it.
    if (result.signal != 0 && is_caused_by_others(ended)) continue;
    outlet.send(job::FailedMessage{ended});
    status = status == kExitOk ? exit_status(ended) : status;
  }
  return result.signal != 0 ? kExitSignalBase + result.signal : status;
}

int run_child(const ChildOptions& options, Outlet& outlet, const MakeJobs& make_jobs) {
  const bool saves_first = options.letter.stop_word >= 0;
  if (options.letter.launched()) {
    // A Ctrl-C goes to all processes of the terminal; the launcher decides what to do about it. The launcher
    // also prints the errors, once.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGHUP, SIG_IGN);
    if (saves_first) std::signal(SIGTERM, SIG_IGN);
    if (!options.job.verbose) spdlog::set_level(spdlog::level::off);
  }
  const auto fail = [&](const absl::Status& status) {
    outlet.send(job::FailedMessage{status});
    return exit_status(status);
  };
  JobOptions job = options.job;
  std::unique_ptr<job::EmbeddedRendezvous> rendezvous;
  std::optional<job::AddressExchange> addresses;
  if (options.letter.rendezvous >= 0) {
    absl::StatusOr<std::unique_ptr<job::EmbeddedRendezvous>> joined =
        job::EmbeddedRendezvous::join(options.letter.rendezvous);
    if (!joined.ok()) return fail(joined.status());
    rendezvous = *std::move(joined);
    job.transport.secret = rendezvous->secret();
    addresses.emplace(*rendezvous, options.job.server_processes());
  }
  std::optional<job::SharedWord> stop_word;
  if (saves_first) {
    absl::StatusOr<job::SharedWord> mapped = job::SharedWord::map(options.letter.stop_word);
    if (!mapped.ok()) return fail(mapped.status());
    stop_word.emplace(*std::move(mapped));
  }
  job::Decided decided;
  if (options.letter.decided >= 0) {
    absl::StatusOr<job::Decided> mapped = job::map_decided(options.letter.decided);
    if (!mapped.ok()) return fail(mapped.status());
    decided = *std::move(mapped);
  }
  StopSignals signals(saves_first                 ? std::initializer_list<int>{kSaveSignal, kEndSignal}
                      : options.letter.launched() ? std::initializer_list<int>{SIGTERM}
                                                  : std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP});
  const Role role{.job = job,
                  .rank = options.rank,
                  .addresses = addresses.has_value() ? &*addresses : nullptr,
                  .stop_word = stop_word ? &stop_word->word() : nullptr,
                  .joins = options.letter.joins,
                  .replaces_workers = options.letter.replaces_workers,
                  .incarnation = options.letter.incarnation,
                  .decided = std::move(decided)};
  std::atomic<bool> stop = false;
  absl::StatusOr<ProcessJobs> jobs = make_jobs(role, outlet, stop);
  if (!jobs.ok()) return fail(jobs.status());
  jobs->listener_descriptor = outlet.descriptor();
  JobsResult result = run_jobs(*std::move(jobs), signals, stop);
  if (result.signal != 0 && saves_first) result.signal = SIGTERM;  // the end of a process that was asked to
  const int status = report_result(result, outlet);
  if (result.abandoned) {
    std::fflush(stdout);
    ::_exit(status == kExitOk ? kExitFailed : status);
  }
  return status;
}

}  // namespace verbena::apps
