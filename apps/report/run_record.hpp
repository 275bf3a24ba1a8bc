// What is known of a run: the workers' reports, added up by iteration. When processes have died and the run
// has gone back to a checkpoint, what was reported after that is forgotten, but not what it cost.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "apps/application.hpp"
#include "job/child_message.hpp"
#include <verbena/session.hpp>

namespace verbena::apps {

/// An iteration that all workers have reported.
struct IterationRecord {
  std::int64_t iteration = 0;
  double items = 0;                          ///< of all workers
  double seconds = 0;                        ///< the slowest worker's
  double training_seconds = 0;               ///< up to and including this iteration, the slowest worker's
  double elapsed_seconds = 0;                ///< since the start of the run, when the last worker reported
  std::map<std::string, double> objectives;  ///< empty where the iteration was not evaluated
};

struct WorkerRecord {
  double items = 0;  ///< these two with what was trained again after a restart
  double training_seconds = 0;
  std::int64_t last_iteration = -1;              ///< none yet
  double reported_seconds = 0;                   ///< since the start of the run, when it was reported
  std::optional<job::StatisticsMessage> so_far;  ///< of the process that is the worker now
  std::optional<job::FinishedMessage> finished;
  bool is_replaced = false;  ///< by another process, which may report again what the one before it has

  [[nodiscard]] double throughput() const;
  /// The share of the time between the start and the end of its run_worker() that it waited; 0 before it has
  /// finished.
  [[nodiscard]] double share_waited() const;
  /// The newest that its session has counted; all zero before the first.
  [[nodiscard]] job::StatisticsMessage newest_statistics() const;
};

/// What a run's processes have used of the processors until they ended, on one host, where their parent is
/// told. Servers that serve at the beginning count as servers, whatever becomes of them.
struct ProcessorTime {
  double workers_seconds = 0;
  double servers_seconds = 0;
  double copies_seconds = 0;  ///< of servers

  [[nodiscard]] double all_seconds() const { return workers_seconds + servers_seconds + copies_seconds; }
};

/// What has happened to a run's processes, beside their work.
struct RunEvent {
  enum class Kind : std::uint8_t {
    kFailover,     ///< a copy of a server has died, and others go on
    kJoin,         ///< a copy has all that the others have
    kNoJoin,       ///< a copy has died before that
    kSilence,      ///< a process was ended, since it showed no sign of life
    kRestart,      ///< all have begun anew from a checkpoint, or from the beginning
    kReplacement,  ///< a worker's process has died or steps aside, and another one takes its place
  };

  Kind kind = Kind::kFailover;
  double elapsed_seconds = 0;  ///< since the start of the run
  std::string what;            ///< who, and how, for people

  bool operator==(const RunEvent&) const = default;
};
/// "failover"
std::string_view name_of(RunEvent::Kind kind);
std::optional<RunEvent::Kind> event_kind_of(std::string_view name);

/// nullopt if there were no reads.
std::optional<double> mean_clock_differential(const StalenessHistogram& reads);

class RunRecord {
 public:
  using Objectives = std::function<std::map<std::string, double>(const std::map<std::string, double>& sums)>;

  RunRecord(std::uint32_t workers, Objectives objectives);

  /// Returns the iteration if it is complete now. INVALID_ARGUMENT for an unknown worker, or for an iteration
  /// that does not follow the worker's last one; diverged() if a sum or an objective is NaN or infinite.
  absl::StatusOr<std::optional<IterationRecord>> add(const job::IterationMessage& message,
                                                     double elapsed_seconds);
  absl::Status add(const job::StatisticsMessage& message);
  absl::Status add(const job::FinishedMessage& message);
  void add(const job::ServedMessage& message) { bytes_to_copies_ += message.bytes_to_copies; }
  void add_processor_time(double ProcessorTime::*whose, double seconds) { processor_time_.*whose += seconds; }
  /// All workers begin again after this iteration; 0: at the beginning. nullopt: nobody knows where before
  /// they report the first one.
  void go_back(std::optional<std::int64_t> after_iteration);

  /// Another process is the worker from now on.
  void replace(std::uint32_t worker);

  void note(RunEvent event) { events_.push_back(std::move(event)); }
  [[nodiscard]] const std::vector<RunEvent>& events() const { return events_; }
  [[nodiscard]] std::uint32_t count(RunEvent::Kind kind) const;
  /// How often a copy of a server has died, and others have gone on.
  [[nodiscard]] std::uint32_t failovers() const { return count(RunEvent::Kind::kFailover); }
  /// How often another process has taken a worker's place.
  [[nodiscard]] std::uint32_t replacements() const { return count(RunEvent::Kind::kReplacement); }

  /// How often it has gone back.
  [[nodiscard]] std::uint32_t restarts() const { return restarts_; }
  [[nodiscard]] const std::vector<IterationRecord>& iterations() const { return iterations_; }
  /// How many iterations that trained have been reported by all workers.
  [[nodiscard]] std::int64_t iterations_trained() const;
  [[nodiscard]] const std::vector<WorkerRecord>& workers() const { return workers_; }

  /// The newest value of each objective.
  [[nodiscard]] const std::map<std::string, double>& objectives() const { return newest_objectives_; }
  [[nodiscard]] double items() const;
  [[nodiscard]] double training_seconds() const;  ///< the slowest worker's
  [[nodiscard]] double throughput() const;        ///< items per second of training, all workers
  [[nodiscard]] double throughput_per_worker() const;
  [[nodiscard]] double share_waited() const;  ///< mean over the workers
  [[nodiscard]] StalenessHistogram staleness() const;
  /// The sum of a count over all workers.
  [[nodiscard]] std::uint64_t total(std::uint64_t SessionStatistics::*count) const;
  [[nodiscard]] DurationHistogram move_times() const;
  /// Of all processes that have ended so far.
  [[nodiscard]] const ProcessorTime& processor_time() const { return processor_time_; }
  /// What servers have sent to their copies of what workers have said, and these to those after them; on one
  /// host.
  [[nodiscard]] std::uint64_t bytes_to_copies() const { return bytes_to_copies_; }
  /// How many rows moved to the node of a worker that asked for them or intended to use them.
  [[nodiscard]] std::uint64_t rows_moved() const;
  /// Of the rows of dynamic tables that were pulled and pushed, the share that lay on the worker's node, or
  /// had a replica in its memory. What replicas send to owners counts as pushed elsewhere. nullopt if there
  /// were no such rows.
  [[nodiscard]] std::optional<double> share_local() const;
  /// Of the rows that were pulled, those that servers gathered. nullopt: none.
  [[nodiscard]] std::optional<double> share_gathered() const;
  /// Of updates of rows at the ends of clocks, those that were sent. nullopt if no filter has kept any back.
  [[nodiscard]] std::optional<double> share_shipped() const;
  /// Of the messages with updates of static tables' rows, for each of those that were pushed in a clock,
  /// whether it was sent or kept back. nullopt: there were none.
  [[nodiscard]] std::optional<double> bytes_an_update() const;
  /// What workers have asked their transports for, with all that they have pulled and said, for each row that
  /// they have pushed. nullopt: nothing, for they map what they use, or they have pushed nothing.
  struct PostedPerRow {
    double bytes = 0;
    double requests = 0;
    double doorbells = 0;
  };
  [[nodiscard]] std::optional<PostedPerRow> posted_per_pushed_row() const;
  /// Of the workers' time, what they took to choose, round and pack updates. nullopt: no filter, no encoding.
  [[nodiscard]] std::optional<double> share_filtering() const;
  /// nullopt if no row was read through a static table.
  [[nodiscard]] std::optional<double> mean_clock_differential() const;

 private:
  void forget_after(std::int64_t iteration);

  struct Partial {
    std::uint32_t reported = 0;
    double items = 0;
    double seconds = 0;
    double training_seconds = 0;
    std::map<std::string, double> sums;
  };

  Objectives compute_objectives_;
  std::vector<WorkerRecord> workers_;
  std::map<std::int64_t, Partial> partial_;
  std::vector<IterationRecord> iterations_;
  std::map<std::string, double> newest_objectives_;
  std::vector<RunEvent> events_;
  ProcessorTime processor_time_;
  std::uint64_t bytes_to_copies_ = 0;
  std::uint32_t restarts_ = 0;
  bool begins_anywhere_ = false;  ///< the next iteration takes the place of those from it on
};

}  // namespace verbena::apps
