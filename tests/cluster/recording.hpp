// Records what the workers of a real run do. The simulator's ledger checks it afterwards, and needs all
// events in one order that agrees with time. So each event takes the next number of one counter, which all
// workers share:
// - If an event was noted before another one began, it has the smaller number.
// - If a read has seen a push, the push was noted before, whatever way the bytes took. In processes the
//   counter's increments are acquire and release, so that this and its reverse (what had ended when a pull
//   began) follow from the rules of the language, on every processor. In threads they are relaxed: otherwise
//   the counter would order the workers, and the thread sanitizer would not see where nothing else does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/simulation/history.hpp"
#include "tests/simulation/scenario.hpp"
#include "tests/simulation/workload.hpp"

namespace verbena::testing {

/// The scenario of a seed for a real run: with its tables, workers and random choices, but without its
/// network and its disasters.
simulation::Scenario native_scenario(simulation::Model model, std::uint64_t seed);

/// Those whose promises a recording shows: not kTrouble, which is about disasters, not kChurn, whose workers
/// check by themselves what they read, and not kCheckpoints, where several jobs follow one another.
std::vector<simulation::Model> recorded_models();

struct NumberedEvent {
  std::uint64_t number = 0;
  simulation::Event event;
};
/// The events of one worker, in their order.
using Recording = std::vector<NumberedEvent>;

/// Does a worker's part of the scenario, until it leaves. `recording` gets what it did, also if it fails.
absl::Status record_workload(const simulation::Scenario& scenario, Session& session,
                             std::function<std::uint64_t()> next_number, Recording& recording);

/// Returns the first thing that is wrong in what all workers did; nullopt if every promise was kept.
std::optional<std::string> check(const std::vector<Recording>& workers, simulation::History& history);

absl::Status write_recording(const Recording& recording, const std::string& path);
absl::StatusOr<Recording> read_recording(const std::string& path);

}  // namespace verbena::testing
