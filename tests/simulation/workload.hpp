// What a worker of a test job does: random pulls, pushes and pauses between its clocks. It runs in the
// simulation, which checks it at once, and in real threads and processes, whose history is recorded and
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

/// What a workload runs in. Thread safety: none; one thread.
class World {
 public:
  virtual ~World() = default;
  /// A worker does this now. Returns an error if the world knows already that something is wrong.
  virtual absl::Status note(Event event) = 0;
  /// The calling worker computes for so long.
  virtual void compute(Duration time) = 0;
  /// The process that calls this, which is that worker: its number in the history, and that of the one whose
  /// place it has taken.
  struct Identity {
    std::uint32_t number = 0;
    std::optional<std::uint32_t> former = std::nullopt;
  };
  [[nodiscard]] virtual Identity identity(std::uint32_t rank) const { return {.number = rank}; }
  /// No other process takes the place of the one with that number.
  [[nodiscard]] virtual bool has_place(std::uint32_t /*number*/) const { return true; }
  /// Another process waits to take the place of the calling one, which steps aside at the end of its clock.
  [[nodiscard]] virtual bool is_to_step_aside(std::uint32_t /*number*/) const { return false; }
  /// It has, and all servers know the clocks below that one.
  virtual void stepped_aside(std::uint32_t /*number*/, std::int64_t /*clock*/) {}
  /// The worker has opened its tables.
  virtual void joined(std::uint32_t /*rank*/) {}
  /// A worker is about to push in its clock.
  virtual void pushes_at(std::int64_t /*clock*/) {}
  /// The min clocks of servers' lanes, as far as they can be seen.
  struct MinClocks {
    std::int64_t newest = 0;
    std::int64_t most_behind = 0;  ///< how far the oldest was behind the clock of a push, at most
  };
  [[nodiscard]] virtual MinClocks min_clocks() const { return {}; }
  /// How many one-sided reads a worker has made; nullopt if they are not counted, perhaps from some moment
  /// on, or if memory is mapped.
  [[nodiscard]] virtual std::optional<std::uint64_t> reads(std::uint32_t /*rank*/) const { return {}; }
  /// The servers are in this process, so that they know the functions that the workload has registered.
  [[nodiscard]] virtual bool knows_functions() const { return false; }
  /// An operation has failed because a row was lost with a worker that has died.
  virtual void lost() {}
  /// How many of the servers that are left own the row now; nullopt if that is not known, or if last words of
  /// dead workers may still change it.
  [[nodiscard]] virtual std::optional<std::uint32_t> owners(std::uint32_t /*table*/, Key /*key*/) const {
    return {};
  }
  /// At the end the row is there, and can be read.
  virtual void is_there(std::uint32_t /*table*/, Key /*key*/) {}
  /// The workload has checked so many numbers itself, without the history.
  virtual void checked(std::uint64_t /*numbers*/) {}
  /// The worker is about to end its clock with a checkpoint of `clock`.
  virtual void cut(std::uint32_t /*rank*/, std::int64_t /*clock*/) {}
  /// The worker begins to wait for it to be written.
  virtual void waits_for_disk(std::uint32_t /*rank*/) {}
  /// How the writing of that checkpoint has ended, as the worker was told.
  virtual void written(std::uint32_t /*rank*/, std::int64_t /*clock*/, const absl::Status& /*status*/) {}
  /// A digest of all rows, as a worker sees them at the end.
  virtual void final_rows(std::uint64_t /*digest*/) {}
  [[nodiscard]] virtual bool traces() const { return false; }
  virtual void trace(const std::string& /*line*/) {}
};

absl::Status run_workload(World& world, const Scenario& scenario, Session& session);

}  // namespace verbena::simulation
