// A simulated job: real servers and sessions over the simulated transport, and a random workload. Each read
// is checked. The seed determines all of it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "transport/transport.hpp"

namespace verbena::simulation {

/// The model of the job's first table; further tables have random ones.
enum class Model : std::uint8_t {
  kBsp,
  kSsp,
  kEssp,
  kBoundedDelay,
  kAsp,
  kSequential,
  kVap,
  kABsp,
  kMoving,       ///< sequential, and its rows move
  kIntent,       ///< sequential or asp; rows move, and workers announce what they will use
  kDeath,        ///< sequential; rows move, and the job outlives workers or a node that die
  kTrouble,      ///< about disasters; any model, up to 16 workers
  kChurn,        ///< any model; sparse rows that are taken away, and come back
  kRows,         ///< any model; update rules, admission, filters, scans and functions
  kCheckpoints,  ///< any of the others, which ends and goes on from its checkpoints
  kFailover,     ///< servers have copies, which take their places when they die
  kRepair,       ///< the same, and others join, again and again
  kReplacement,  ///< workers die, and other processes take their places
  kMending,      ///< connections break, and are made again
  kHosts,        ///< as kFailover, but who is left out of a configuration may go on, on a host out of reach
  kRejoin,       ///< as kHosts, and others come in their places
  kRemoteReplacement,  ///< as kReplacement, but the one before may go on, on a host out of reach
  kMoves,              ///< as kRejoin, and servers, with copies or without, move to processes that join
  kHomes,              ///< as kDeath, and several nodes die: others are the homes of their keys then
  kSavedReplacement,   ///< as kReplacement, with checkpoints, from which the job goes on
  kBackup,             ///< as kHomes, and rows of nodes that die come back, without what was pushed last
};
inline constexpr std::array kModels = {Model::kBsp,
                                       Model::kSsp,
                                       Model::kEssp,
                                       Model::kBoundedDelay,
                                       Model::kAsp,
                                       Model::kSequential,
                                       Model::kVap,
                                       Model::kABsp,
                                       Model::kMoving,
                                       Model::kIntent,
                                       Model::kDeath,
                                       Model::kTrouble,
                                       Model::kChurn,
                                       Model::kRows,
                                       Model::kCheckpoints,
                                       Model::kFailover,
                                       Model::kRepair,
                                       Model::kReplacement,
                                       Model::kMending,
                                       Model::kHosts,
                                       Model::kRejoin,
                                       Model::kRemoteReplacement,
                                       Model::kMoves,
                                       Model::kHomes,
                                       Model::kSavedReplacement,
                                       Model::kBackup};
/// "bsp", "bounded-delay"…; INVALID_ARGUMENT for others.
absl::StatusOr<Model> parse_model(std::string_view name);
std::string_view to_string(Model model);
/// The same, without characters that the name of a test may not have.
std::string test_name(Model model);

struct JobResult {
  std::optional<std::string> failure;  ///< what promise was broken; nothing if all were kept
  std::uint64_t numbers_checked = 0;   ///< in rows that were read
  std::uint64_t steps = 0;             ///< of all tasks
  std::uint64_t digest = 0;            ///< of the whole schedule: equal if two runs were the same
  transport::Duration time{0};         ///< virtual
  std::uint64_t final_rows = 0;        ///< digest of the tables at the end
  std::uint64_t ended_early = 0;       ///< iterations that ended early, counted for each worker
  std::uint64_t rows_localized = 0;
  std::uint64_t rows_moved_by_intent = 0;
  std::uint64_t rows_replicated = 0;
  std::uint64_t replicas_used = 0;  ///< pulled or pushed
  std::uint64_t checkpoints = 0;    ///< that were written, as worker 0 was told
  std::uint64_t resumed = 0;        ///< jobs that went on from a checkpoint
  std::uint64_t failovers = 0;      ///< servers whose place was taken by a copy
  std::uint64_t moves = 0;          ///< processes that have stepped aside for one that had joined
  std::uint64_t joins = 0;          ///< copies that have begun later, and got all that the others have
  std::uint64_t replacements = 0;   ///< processes that have taken a worker's place
  std::uint64_t links_cut = 0;
  std::uint64_t left_behind =
      0;  ///< servers and copies that a configuration has left out, and that have gone on
  std::uint64_t inherited = 0;  ///< rows that were there at the end, and whose first home was not
  std::uint64_t faults = 0;     ///< of processes, connections and the disk, that have happened
  std::uint64_t restored = 0;   ///< rows that have come back from images
  std::uint64_t losses = 0;     ///< operations that failed because a row was lost with a dead worker or node
};

struct Scenario;
JobResult run_job(const Scenario& scenario, const std::function<void(const std::string&)>& trace = nullptr);
/// `trace`, if set, is told line by line what happens.
JobResult run_job(Model model, std::uint64_t seed,
                  const std::function<void(const std::string&)>& trace = nullptr);

}  // namespace verbena::simulation
