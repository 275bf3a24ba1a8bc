#include "apps/inspect/running_jobs.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <string_view>
#include <utility>

#include "absl/strings/str_join.h"
#include "cluster/unix_socket.hpp"
#include "job/run_secret.hpp"
#include "job/server_place.hpp"

namespace verbena::apps::inspect {

RunningJobs jobs_at(const std::vector<std::string>& addresses) {
  RunningJobs jobs;
  for (const std::string& address : addresses) {
    const std::optional<job::ServerPlace> place = job::ServerPlace::parse(transport::place_of(address));
    if (place) jobs[place->shown_job()].emplace(place->server, address);
  }
  return jobs;
}

void add_runs_that_tell(RunningJobs& jobs) {
  for (const std::int64_t run : job::RunSecret::runs()) {
    // It may be in another network namespace.
    if (cluster::connect_to_name(job::place_of_store(run)).ok()) jobs[job::ServerPlace::name_of_run(run)];
  }
}

absl::StatusOr<FoundJob> find_job(const RunningJobs& jobs, const std::string& job) {
  std::vector<std::string> names;
  for (const auto& [name, servers] : jobs) names.push_back(name);
  if (names.empty()) {
    return absl::NotFoundError(
        "no job of this user runs on this host (between hosts: --addresses HOST:PORT,…)");
  }
  if (job.empty() && names.size() > 1) {
    return absl::InvalidArgumentError(
        fmt::format("several jobs run on this host: which one, --job {}?", absl::StrJoin(names, " or ")));
  }
  const auto found = job.empty() ? jobs.begin() : jobs.find(job);
  if (found == jobs.end()) {
    return absl::NotFoundError(
        fmt::format("no job \"{}\" runs on this host, but {}", job, absl::StrJoin(names, ", ")));
  }
  FoundJob job_found;
  job_found.name = found->first;
  for (const auto& [rank, address] : found->second) job_found.servers.push_back(address);
  if (const auto run = job::ServerPlace::run_of(found->first)) {
    std::string path = job::RunSecret::path_of(*run);
    if (!path.empty() && std::filesystem::exists(path)) job_found.secret_file = std::move(path);
  }
  return job_found;
}

}  // namespace verbena::apps::inspect
