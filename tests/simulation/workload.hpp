// What a worker of a test job does: random pulls, pushes and pauses between its clocks; and the history of all
// workers' doings, by which each read is checked. It runs in the simulation, which checks at once, and in real
// threads, whose history is written down and checked afterwards.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tests/simulation/iterations.hpp"
#include "tests/simulation/ledger.hpp"
#include "tests/simulation/scenario.hpp"
#include "worker/session.hpp"

namespace verbena::simulation {

/// Those who know everything.
struct History {
  explicit History(const Scenario& scenario);
  Ledger ledger;
  Iterations iterations;
};

/// Where a workload runs. Thread safety: as the world has threads.
class World {
 public:
  using Wrong = std::optional<std::string>;
  /// What a worker does now, to be told to the history; what is wrong with it.
  using Event = std::function<Wrong(History& history, TimePoint now)>;

  virtual ~World() = default;
  /// Events are heard in an order that agrees with time: one that was noted before another began comes first.
  /// An error, where the world knows already that something is wrong.
  virtual absl::Status note(Event event) = 0;
  /// Takes a worker so long.
  virtual void compute(Duration time) = 0;
  /// It has opened its tables.
  virtual void joined(std::uint32_t /*rank*/) {}
  /// One-sided reads that a worker has made; nothing where they are not counted, or memory is mapped.
  [[nodiscard]] virtual std::optional<std::uint64_t> reads(std::uint32_t /*rank*/) const { return {}; }
  /// All rows, as a worker sees them at the end.
  virtual void final_rows(std::uint64_t /*digest*/) {}
  [[nodiscard]] virtual bool traces() const { return false; }
  virtual void trace(const std::string& /*line*/) {}
};

absl::Status run_workload(World& world, const Scenario& scenario, Session& session);

}  // namespace verbena::simulation
