#include "apps/program/job_choice.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "apps/launcher/job_options.hpp"
#include "base/return_if_error.hpp"
#include "transport/backends.hpp"

namespace verbena::apps {
namespace {

/// Where the servers are, and with which secret they are to be asked.
absl::StatusOr<inspect::FoundJob> find_job(const JobChoice& choice, const transport::Backend& backend,
                                           Among among) {
  if (choice.addresses.empty()) {
    if (!backend.listening)
      return absl::InvalidArgumentError(fmt::format(
          "over {} nobody knows what runs here: expected --addresses HOST:PORT,…, which says where "
          "the job's servers listen",
          backend.scheme));
    inspect::RunningJobs jobs = inspect::jobs_at(backend.listening());
    if (among == Among::kRuns) inspect::add_runs_that_tell(jobs);
    return inspect::find_job(jobs, choice.job);
  }
  if (!choice.job.empty())
    return absl::InvalidArgumentError("--job is for jobs on this host; --addresses are enough");
  RETURN_IF_ERROR(check_places(choice.addresses));
  inspect::FoundJob found;
  for (const std::string& place : choice.addresses) found.servers.push_back(backend.address(place));
  return found;
}

}  // namespace

void add_job_choice(CLI::App& app, JobChoice& choice) {
  app.add_option("--job", choice.job,
                 "Which job on this host: the --job of its servers, or run-N for `verbena run` as process N. "
                 "By default the only one that runs.")
      ->type_name("NAME")
      ->group(kProcessOptions);
  app.add_option("--addresses", choice.addresses,
                 "Over verbs and tcp: where each server of the job listens, in the order of their ranks.")
      ->type_name("HOST:PORT,…")
      ->delimiter(',')
      ->group(kProcessOptions);
  add_transport_options(app, choice.transport, kProcessOptions);
  add_secret_options(app, choice.transport, kProcessOptions);
}

absl::StatusOr<ChosenJob> choose_job(const JobChoice& choice, Among among) {
  ChosenJob chosen;
  chosen.transport = decided(choice.transport,
                             choice.addresses.empty() ? transport::Reach::kHost : transport::Reach::kHosts);
  RETURN_IF_ERROR(check(chosen.transport));
  absl::StatusOr<inspect::FoundJob> found = find_job(choice, backend_of(chosen.transport), among);
  if (!found.ok()) return found.status();
  if (chosen.transport.secret_file.empty() && !chosen.transport.no_secret)
    chosen.transport.secret_file = found->secret_file;
  RETURN_IF_ERROR(take_secret(chosen.transport));
  chosen.teller_secret = chosen.transport.secret;
  if (!found->secret_file.empty() && found->secret_file != chosen.transport.secret_file) {
    auto secret = transport::Secret::read_file(found->secret_file);
    if (!secret.ok()) return secret.status();
    chosen.teller_secret = *std::move(secret);
  }
  chosen.found = *std::move(found);
  return chosen;
}

absl::StatusOr<std::unique_ptr<Observer>> observe(const ChosenJob& job, std::vector<std::string> servers,
                                                  std::uint32_t timeout_ms) {
  absl::StatusOr<std::unique_ptr<transport::Transport>> transport = make_transport(job.transport);
  if (!transport.ok()) return transport.status();
  return Observer::connect(
      {.servers = std::move(servers), .timeout_ms = timeout_ms, .transport = *std::move(transport)});
}

}  // namespace verbena::apps
