// What a seed stands for: the shape of a job, its network, its nodes' whims.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "apps/simulation/scheduler.hpp"
#include "apps/simulation/simulated_transport.hpp"
#include "tests/simulation/job.hpp"
#include "tests/simulation/ledger.hpp"
#include "worker/session.hpp"

namespace verbena::simulation {

/// What befalls a job, once all workers have opened their tables.
enum class Disaster : std::uint8_t {
  kNone,
  kWorkerDies,
  kServerDies,
  kLinkBreaks,
  kNodeDies,  ///< a server and its workers
};

struct Scenario {
  std::uint64_t seed = 0;
  std::uint32_t servers = 1;
  std::uint32_t workers = 1;
  std::uint32_t lanes = 1;
  bool lane_tasks = false;  ///< each lane is driven by a task of its own, not by its server's
  std::int64_t clocks = 1;
  std::int64_t barrier_every = 0;       ///< 0: only at the end
  bool rests = false;                   ///< every other worker does nothing for some clocks now and then
  std::vector<std::int64_t> leaves_at;  ///< by worker: the clock, or `clocks` to stay
  std::vector<double> slowness;         ///< by worker
  std::vector<std::uint32_t> nodes;     ///< by worker
  std::vector<std::uint64_t> examples;  ///< by worker; empty: no data cursors
  std::uint64_t mini_batch = 1;
  Duration mini_batch_time{0};
  std::vector<TableShape> tables;
  ReadPath read_path = ReadPath::kAuto;
  std::size_t inbox_bytes = 0;
  std::size_t push_ring_bytes = 0;
  bool async_pulls = false;
  double push_budget_mb_per_s = 0;
  double update_budget_mb_per_s = 0;
  /// ServerOptions::outlives_workers and SessionOptions::outlives_servers. REQUIRES: all tables move
  bool outlives_nodes = false;
  Disaster disaster = Disaster::kNone;
  std::uint32_t victim = 0;
  Duration disaster_delay{0};
  bool virtual_time = true;  ///< nothing happens while a session takes a step; real threads go on meanwhile
  NetworkOptions network;
  SchedulerOptions scheduler;
};

Scenario make_scenario(Model model, std::uint64_t seed);
std::string to_string(const Scenario& scenario);

/// A number of 0 … bound − 1.
inline std::uint64_t below(std::mt19937_64& random, std::uint64_t bound) {
  return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
}
inline bool chance(std::mt19937_64& random, double probability) {
  return std::bernoulli_distribution(probability)(random);
}

}  // namespace verbena::simulation
