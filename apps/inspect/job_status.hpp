// Who does what in a running job: which process is which server, how far workers are, what has happened. For
// people and for programs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/inspect/running_jobs.hpp"
#include "apps/report/run_status.hpp"
#include "checkpoint/file_system.hpp"
#include "transport/secret.hpp"
#include <verbena/observer.hpp>

namespace verbena::apps::inspect {

struct LastCheckpoint {
  std::string path;
  std::uint64_t clock = 0;
  std::string written;  ///< in UTC
};

struct JobStatus {
  std::string job;                     ///< empty: only its servers' addresses are known
  std::vector<std::string> addresses;  ///< of its servers' processes, if no launcher tells more
  std::optional<RunStatus> run;        ///< as its launcher tells it; nullopt: there is none on this host
  std::optional<ObservedJob> seen;     ///< as its servers tell it
  std::string silence;                 ///< why not
  std::optional<LastCheckpoint> checkpoint;
};

/// Rank 0 tells of it: it knows on which hosts the processes are.
[[nodiscard]] bool has_hosts(const RunStatus& run);
/// What the launcher of the job tells, or its rank 0; nullopt: no process of this host has started it.
/// Errors: it does not answer.
absl::StatusOr<std::optional<RunStatus>> ask_launcher(const FoundJob& job,
                                                      std::shared_ptr<const transport::Secret> secret,
                                                      std::chrono::milliseconds patience);
/// Of the job's places those whose processes serve, by rank; all, if no launcher says which.
std::vector<std::string> serving_of(const FoundJob& job, const std::optional<RunStatus>& run);
/// The newest whole one that the run has made. nullopt: none, or nobody can read the folder.
std::optional<LastCheckpoint> last_checkpoint(checkpoint::FileSystem& files, const RunStatus& run);

[[nodiscard]] std::string to_text(const JobStatus& status);
[[nodiscard]] nlohmann::json to_json(const JobStatus& status);

}  // namespace verbena::apps::inspect
