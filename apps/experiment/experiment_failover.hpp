// `verbena experiment failover`: kills and stops server processes, or workers, of runs again and again while
// they train, and looks at what becomes of the model, and how long it takes until others go on. What is
// chosen and what is said is here, as functions of their arguments; failover_command.cpp makes the runs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "apps/data/random.hpp"
#include "apps/experiment/experiment.hpp"
#include "apps/experiment/experiment_report.hpp"
#include "apps/report/run_status.hpp"

namespace verbena::apps {

inline constexpr const char* kHitServers = "servers";
inline constexpr const char* kHitWorkers = "workers";

struct FailoverOptions {
  std::string application = "lda";
  std::string hit = kHitServers;
  std::string data;  ///< as for --data
  double minutes = 1;
  std::uint32_t servers = 2;
  std::uint32_t workers = 2;
  std::int64_t iterations = 0;   ///< of each run, or passes; 0: as usual for the application
  double seconds_between = 0.5;  ///< faults, on average, while all copies are there
  std::uint32_t silence_timeout_ms = 2000;
  std::uint64_t seed = 1;
};
/// Those that train the same model again under BSP, and can have copies.
inline constexpr const char* kFailoverApplications[] = {"lda", "mf", "kge", "ctr"};
/// Those of whose workers another process can take the place.
inline constexpr const char* kReplacementApplications[] = {"ctr", "kge", "word2vec"};
/// INVALID_ARGUMENT: that application is not hit in that way.
absl::Status check(const FailoverOptions& options);
/// Whether a run that was hit trains the bytes of the one that was not.
bool trains_the_same(const FailoverOptions& options);

/// The arguments of `verbena`, without those that say where something is written.
std::vector<std::string> failover_arguments(const FailoverOptions& options);

/// What was done to a process, and how the run has gone on.
struct Fault {
  enum class Kind : std::uint8_t { kKilled, kStopped };

  Kind kind = Kind::kKilled;
  std::optional<std::uint32_t> worker;                          ///< nullopt: it is a server's process
  RunStatus::Copy::Role role = RunStatus::Copy::Role::kServes;  ///< of a server's
  std::uint32_t server = 0;
  std::int64_t pid = 0;
  double seconds = 0;  ///< since the start of the run
  /// Since then, until the others have gone on without it. nullopt: it was joining, or the run was over.
  std::optional<double> back_after;
  std::optional<double> joined_after;  ///< until another copy had all that the others have
  /// Of a worker: until all have finished another iteration with the one that has its place.
  std::optional<double> next_iteration_after;
};

/// Chooses what is hit, and when: at random, but never the last process of a server that has all, nor a
/// worker before all have gone on since the last one was hit.
class Saboteur {
 public:
  Saboteur(std::uint64_t seed, double seconds_between, bool hits_workers = false);

  [[nodiscard]] bool is_due(double seconds) const { return seconds >= next_; }
  /// nullopt: nothing may be hit at this moment. `seconds`: since the start of the run. The status may be
  /// behind: what was hit is remembered until it is seen no more.
  std::optional<Fault> choose(const RunStatus& status, double seconds);

 private:
  std::optional<Fault> choose_server(const RunStatus& status);
  std::optional<Fault> choose_worker(const RunStatus& status);

  Random random_;
  const double seconds_between_;
  const bool hits_workers_;
  double next_;
  std::int64_t hit_at_iteration_ = 0;       ///< how far the furthest was when a worker was hit
  std::set<std::int64_t> hit_;              ///< processes that may be in a status still
  std::set<std::uint32_t> joiner_was_hit_;  ///< servers, until another copy has joined
};

struct FailoverRun {
  std::string label;
  std::string failure;   ///< empty: it has trained the model that it should
  bool differs = false;  ///< its model is another one
  double seconds = 0;    ///< from its start to its end
  double throughput = 0;
  std::string unit;
  std::vector<std::pair<double, double>> items;  ///< seconds since the start, and items; of each iteration
  std::vector<Fault> faults;
};
/// Takes a line of the run's metrics (docs/metrics.md). What is none is passed over.
void add_metrics_line(std::string_view line, FailoverRun& run);

/// `runs`: the first one is undisturbed.
Judgement judge_failover(const FailoverOptions& options, const std::vector<FailoverRun>& runs);

ReportSubject failover_subject(const FailoverOptions& options);
std::vector<ReportedRun> reported_runs(const FailoverOptions& options, const std::vector<FailoverRun>& runs);
nlohmann::json failover_report_json(const FailoverOptions& options, const Judgement& judgement,
                                    const std::vector<FailoverRun>& runs);

}  // namespace verbena::apps
