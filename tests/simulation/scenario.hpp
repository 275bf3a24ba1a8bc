// What a seed stands for: the shape of a job, its network, and what its nodes do at random.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "apps/simulation/scheduler.hpp"
#include "apps/simulation/simulated_transport.hpp"
#include "server/image_copier.hpp"
#include "server/sparse_index.hpp"
#include "tests/simulation/disk_fault.hpp"
#include "tests/simulation/job.hpp"
#include "tests/simulation/ledger.hpp"
#include "tests/simulation/row_ledger.hpp"
#include <verbena/session.hpp>

namespace verbena::simulation {

enum class Disaster : std::uint8_t {
  kWorkerDies,
  kServerDies,
  kLinkBreaks,
  kCopyDies,  ///< any copy of a server that the job can do without, or one that joins
  kNodeDies,  ///< a server and its workers
  kWorkerStops,
  kServerStops,
  kAllStop,  ///< all nodes, which go on at the same time
  kWorkerLacksMemory,
  kServerLacksMemory,
  kStranger,          ///< connects to a server and breaks rules, without having been a worker
  kTraitor,           ///< a worker breaks rules
  kWorkerIsReplaced,  ///< it dies, and another process takes its place
  kServerLinkBreaks,  ///< where it can be mended
  kServerMoves,       ///< a process joins as a copy of a server, and then another one steps aside
  kNodeIsMissed,      ///< a worker of another node loses its connection to the server, which goes on
};
/// What becomes of a copy of a server after kServerDies, where who is left out of a configuration may go on;
/// and of a worker that is replaced.
enum class Fate : std::uint8_t {
  kDies,
  kGoesOn,      ///< it is taken for dead, and hears that; a worker after Strike::length
  kIsCutOff,    ///< it hears nothing, and goes on for Strike::length; of servers
  kStops,       ///< for Strike::length; its memory can be read
  kStepsAside,  ///< at the end of its clock, since another process waits to take its place; of workers
};
/// A disaster in a job.
struct Strike {
  Disaster what = Disaster::kWorkerDies;
  std::uint32_t victim =
      0;                   ///< a server if the kind says so, and for nodes and kStranger; otherwise a worker
  Duration delay{0};       ///< after all workers have opened their tables
  std::uint32_t copy = 0;  ///< which of the server's; of kNodeIsMissed, a worker
  bool early = false;      ///< the delay counts from the beginning of the job instead
  bool late = false;       ///< the delay counts from the moment when a worker has ended, instead
  Duration length{0};      ///< of a stop, or of a fate
  Fate fate = Fate::kDies;
  std::uint64_t regions = 0;  ///< how many regions there is memory for

  [[nodiscard]] bool is_stop() const {
    return what == Disaster::kWorkerStops || what == Disaster::kServerStops || what == Disaster::kAllStop;
  }
  [[nodiscard]] bool breaks_a_link() const {
    return what == Disaster::kLinkBreaks || what == Disaster::kServerLinkBreaks;
  }
  [[nodiscard]] bool lacks_memory() const {
    return what == Disaster::kWorkerLacksMemory || what == Disaster::kServerLacksMemory;
  }
  [[nodiscard]] bool is_of_a_server() const {
    return what == Disaster::kServerDies || what == Disaster::kCopyDies || what == Disaster::kNodeDies ||
           what == Disaster::kServerStops || what == Disaster::kServerLacksMemory ||
           what == Disaster::kServerLinkBreaks || what == Disaster::kServerMoves ||
           what == Disaster::kNodeIsMissed;
  }
  /// The job goes on as if nothing had happened.
  [[nodiscard]] bool is_harmless() const {
    return what == Disaster::kStranger || what == Disaster::kAllStop || what == Disaster::kWorkerIsReplaced ||
           is_short_stop();
  }
  [[nodiscard]] bool is_short_stop() const {
    return is_stop() && what != Disaster::kAllStop && length <= kShortStop;
  }
  /// Nobody may notice a stop that is no longer than this. Stops that must be noticed are much longer.
  static constexpr Duration kShortStop = std::chrono::milliseconds(3500);
};

/// A job about rows that are taken away (churn.hpp).
struct Churn {
  ConsistencyModel model = Bsp{};
  std::uint64_t rows = 1;
  std::uint32_t width = 1;
  std::int64_t age = 1;   ///< in clocks, when a row goes
  std::string eviction;   ///< empty: by age; by another one a row may go at any time
  std::int64_t turn = 1;  ///< of so many clocks: its worker pushes to a key in each of them, or in none
  double reads = 0.4;     ///< of the keys, in a pull
  bool pairs = false;     ///< keys that look alike (sparse_key.hpp)
  std::string encoding = "auto";
  std::uint64_t cache_rows = UINT64_MAX;
};

/// One of the jobs that go on from one another's checkpoints.
struct Life {
  std::uint32_t servers = 1;
  std::uint32_t lanes = 1;
  bool lane_tasks = false;
  std::vector<std::uint32_t> nodes;  ///< by worker
  std::int64_t clocks = 0;           ///< it ends after so many, of all lives
  std::uint64_t seed = 0;            ///< of its network, its scheduler and its disk
  Duration slowest_operation{0};     ///< of the disk
  std::vector<Strike> disasters;
  std::vector<DiskFault> disk_faults;
  bool power_fails_after_it = false;
};

/// A job that makes checkpoints. It ends again and again, well or not, and goes on from the newest one, on as
/// many servers as the next life has (lives.hpp).
struct Checkpoints {
  std::uint64_t every = 2;  ///< about so many clocks
  std::uint64_t keep = 2;
  std::uint32_t increments = 0;
  bool keep_resumed = false;  ///< CheckpointOptions::keep_resumed
  std::vector<Life> lives;    ///< the last one ends well
};

struct Scenario {
  std::uint64_t seed = 0;
  std::uint32_t servers = 1;
  std::uint32_t copies = 1;    ///< of each server; more: it goes on when one dies
  bool repairs = false;        ///< another copy joins when one has died
  bool is_elastic = false;     ///< servers may move, also those without copies
  bool left_behind = false;    ///< copies that a configuration leaves out may go on
  bool computes_long = false;  ///< then a worker does, once
  Duration slowest_news{0};    ///< of another configuration
  std::uint32_t readers = 0;   ///< the first of the workers push nothing, and read much in a clock
  std::uint32_t workers = 1;
  std::uint32_t spares = 0;  ///< processes that may take the places of workers
  std::uint32_t lanes = 1;
  bool lane_tasks = false;  ///< each lane is driven by a task of its own, not by its server's
  std::int64_t clocks = 1;
  std::int64_t barrier_every = 0;       ///< 0: only at the end
  bool rests = false;                   ///< every other worker does nothing for some clocks now and then
  std::vector<std::int64_t> leaves_at;  ///< by worker: at which clock; `clocks`: it stays
  std::vector<double> slowness;         ///< by worker
  std::vector<std::uint32_t> nodes;     ///< by worker
  std::vector<std::uint64_t> examples;  ///< by worker; empty: no data cursors
  std::uint64_t mini_batch = 1;
  Duration mini_batch_time{0};
  std::vector<TableShape> tables;
  std::optional<Churn> churn;                                                ///< instead of `tables`
  std::vector<RowTable> row_tables;                                          ///< instead of `tables`
  std::uint32_t keys_of_segment = server::SparseIndex::kUsualKeysOfSegment;  ///< of sparse tables
  server::ImageGrain image_grain;
  double slowness_of_who_joins = 1;
  /// How long lanes of copies, which are tasks of their own then, let lie what they have got, at most.
  Duration lag_of_copies{0};
  ReadPath read_path = ReadPath::kAuto;
  std::size_t inbox_bytes = 0;
  std::size_t push_ring_bytes = 0;
  bool async_pulls = false;
  bool calls = false;  ///< workers call server functions
  /// Rows of sparse tables are pulled by handles: where they go, every other time.
  bool pulls_by_handles = false;
  /// Rows of sparse tables are not read from afar, but gathered. nullopt: what takes less time.
  std::optional<bool> gathers = false;
  double push_budget_mb_per_s = 0;
  double update_budget_mb_per_s = 0;
  /// ServerOptions::outlives_workers and SessionOptions::outlives_servers. REQUIRES: all tables move
  bool outlives_nodes = false;
  std::uint32_t backup_every_ms = 0;  ///< ServerOptions::backup_every_ms
  std::vector<Strike> disasters;
  /// Processes may take the places of servers.
  [[nodiscard]] bool has_configurations() const { return copies > 1 || is_elastic; }
  std::optional<Checkpoints> checkpoints;
  std::string resume;        ///< SessionOptions::resume
  bool virtual_time = true;  ///< nothing else happens while a session takes a step; false: real threads
  NetworkOptions network;
  SchedulerOptions scheduler;
};

Scenario make_scenario(Model model, std::uint64_t seed);
std::string to_string(const Strike& strike);
std::string to_string(const Scenario& scenario);

/// A number of 0 … bound − 1.
inline std::uint64_t below(std::mt19937_64& random, std::uint64_t bound) {
  return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
}
inline bool chance(std::mt19937_64& random, double probability) {
  return std::bernoulli_distribution(probability)(random);
}

}  // namespace verbena::simulation
