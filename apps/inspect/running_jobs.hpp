// The jobs that run on this host, as far as their servers' addresses tell.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/backends.hpp"

namespace verbena::apps::inspect {

/// A job's name as people give it, and its servers' addresses by their ranks: "demo" for `verbena server
/// --job demo`, "run-4711" for `verbena run` as process 4711.
using RunningJobs = std::map<std::string, std::map<std::uint32_t, std::string>>;

/// `addresses`: at which processes of this user listen; what is no server's is passed over.
RunningJobs jobs_at(const std::vector<std::string>& addresses);

/// Adds the runs that tell how they are (job::place_of_store()) and of which no server was found: those on
/// several hosts, where rank 0 is.
void add_runs_that_tell(RunningJobs& jobs);

struct FoundJob {
  std::string name;                  ///< as in RunningJobs
  std::vector<std::string> servers;  ///< addresses, by rank; empty: they are not known on this host
  std::string secret_file;           ///< of a run; empty: there is none
};
/// `job`, or the only one that runs if that is empty. NOT_FOUND: there is none of that name, or none at all;
/// INVALID_ARGUMENT: there are several. The message names them.
absl::StatusOr<FoundJob> find_job(const RunningJobs& jobs, const std::string& job);

}  // namespace verbena::apps::inspect
