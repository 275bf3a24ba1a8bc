// What a worker of a test job does: random pulls, pushes and pauses between its clocks. It runs in the
// simulation, which checks at once, and in real threads and processes, whose history is written down and
// checked afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "tests/simulation/history.hpp"
#include "tests/simulation/scenario.hpp"
#include <verbena/session.hpp>

namespace verbena::simulation {

/// Where a workload runs. Thread safety: as the world has threads.
class World {
 public:
  virtual ~World() = default;
  /// What a worker does now, to be heard by the history. An error, where the world knows already that
  /// something is wrong.
  virtual absl::Status note(Event event) = 0;
  /// Takes a worker so long.
  virtual void compute(Duration time) = 0;
  /// It has opened its tables.
  virtual void joined(std::uint32_t /*rank*/) {}
  /// One-sided reads that a worker has made; nothing where they are not counted, or memory is mapped.
  [[nodiscard]] virtual std::optional<std::uint64_t> reads(std::uint32_t /*rank*/) const { return {}; }
  /// An operation has ended since a row was lost with a worker that has died.
  virtual void lost() {}
  /// All rows, as a worker sees them at the end.
  virtual void final_rows(std::uint64_t /*digest*/) {}
  [[nodiscard]] virtual bool traces() const { return false; }
  virtual void trace(const std::string& /*line*/) {}
};

absl::Status run_workload(World& world, const Scenario& scenario, Session& session);

}  // namespace verbena::simulation
