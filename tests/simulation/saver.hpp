// A worker's checkpoints, in whatever workload: when it makes one, what it saves of its own, and what it says
// to its world.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consistency/rules.hpp"
#include "tests/simulation/scenario.hpp"
#include "tests/simulation/workload.hpp"
#include <verbena/session.hpp>

namespace verbena::simulation {

/// Where the checkpoints of a simulated job are.
inline constexpr const char* kCheckpointFolder = "jobs/checkpoints";

class Saver {
 public:
  /// What a worker alone knows.
  using State = std::vector<std::uint64_t>;

  Saver(World& world, const Scenario& scenario, Session& session)
      : world_(world),
        scenario_(scenario),
        session_(session),
        random_(scenario.seed * 1033 + session.rank() + 1) {}

  /// Whether all workers end the clock with a checkpoint. A function of the seed.
  [[nodiscard]] bool is_due(consistency::Clock clock) const;
  /// Ends the clock with a checkpoint, which is a barrier. Whether it is written, only the world hears,
  /// unless the session is catching up, and has no part in it.
  absl::Status save(const State& state);
  /// The session is about to end: the world hears of the last checkpoint now, if it is not to be left to
  /// ~Session().
  void finish();
  /// What this worker saved in the checkpoint that the job goes on from; nullopt: it begins.
  absl::StatusOr<std::optional<State>> resume();

 private:
  absl::Status pass();
  void wait_until_written();
  [[nodiscard]] CheckpointOptions options() const;

  World& world_;
  const Scenario& scenario_;
  Session& session_;
  std::mt19937_64 random_;
  consistency::Clock saved_ = 0;  ///< the last checkpoint's clock, until the world has heard of it
};

}  // namespace verbena::simulation
