// What the launcher of a run on this host tells of it while it goes on: which processes there are and what
// they do, how far workers are, what has happened. It lies in the run's store, as JSON, for `verbena cluster
// status`.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/report/run_record.hpp"

namespace verbena::apps {

/// Where it lies in the store.
inline constexpr const char* kStatusKey = "status";

struct RunStatus {
  /// One of the processes that are a server together.
  struct Copy {
    enum class Role : std::uint8_t {
      kStarts,   ///< the run's processes have not met yet
      kServes,   ///< workers talk to it
      kFollows,  ///< has all that the one before it in the chain has
      kJoins,    ///< has not got all of that yet
    };

    std::uint32_t copy = 0;
    std::int64_t pid = 0;  ///< 0: not known
    Role role = Role::kServes;
    std::string host = {};  ///< its name; empty: not known, or the run's own

    bool operator==(const Copy&) const = default;
  };
  struct Worker {
    std::uint32_t worker = 0;
    std::int64_t pid = 0;         ///< several workers may be in one process; 0: it has ended
    std::int64_t iteration = -1;  ///< the last one that it has reported; -1: none yet
    double seconds_ago = 0;       ///< since then, or since the run began
    bool finished = false;

    bool operator==(const Worker&) const = default;
  };

  std::string title;  ///< "lda, bsp, 2 servers × 2 workers, shm"
  std::string began;  ///< in UTC, as 2026-11-25T09:30:00Z
  double elapsed_seconds = 0;
  std::uint64_t configuration = 0;         ///< its number; 0: servers have no copies, or have not met yet
  std::vector<std::vector<Copy>> servers;  ///< by rank; in the order of the chain, then those that join
  std::vector<std::string> moves;  ///< of servers and workers between hosts, or to come: a line for each
  std::vector<Worker> workers;     ///< by rank
  std::uint32_t failovers = 0;
  std::uint32_t joins = 0;
  std::uint32_t restarts = 0;
  std::vector<RunEvent> events;  ///< the newest, at most kMostEvents
  std::string checkpoints;       ///< the folder that they are made in; empty: none are made

  static constexpr std::size_t kMostEvents = 20;

  bool operator==(const RunStatus&) const = default;
};
/// "serves"
std::string_view name_of(RunStatus::Copy::Role role);

std::string encode(const RunStatus& status);
/// INVALID_ARGUMENT: it is none. Says what is wrong.
absl::StatusOr<RunStatus> decode_run_status(std::string_view text);

/// How many iterations the worker is behind the newest one that any has reported. One that has reported none
/// has all of them before it.
std::int64_t iterations_behind(const RunStatus& run, const RunStatus::Worker& worker);
/// For programs (docs/looking-into-jobs.md): adds "title", "servers", "workers", "events" and so on. What is
/// not known is null. REQUIRES: the last three are arrays there, or nothing.
void describe(const RunStatus& run, nlohmann::json& into);

/// What is known without the processes: of the workers, as far as they have reported, and what has happened.
RunStatus status_of(const RunRecord& record, double elapsed_seconds);

}  // namespace verbena::apps
