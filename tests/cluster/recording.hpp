// What the workers of a real run did, written down while they do it and checked afterwards by the simulator's
// ledger, which wants to hear it in one order that agrees with time. So each event takes the next number of
// one counter, which all workers share:
// - Of two events, one of which was noted before the other began, the first has the smaller number.
// - Where a read has seen a push, by whatever way the bytes took, the push was noted before. The counter's
//   increments are acquire and release, so that this and its reverse (what had ended when a pull began)
//   follow from the language's rules and not from a processor's kindness. The thread sanitizer would then
//   take the workers for ordered by the counter, and overlook what they are not ordered by: where it looks,
//   they are relaxed.
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

/// What a seed stands for, natively: its tables, workers and whims; not its network and its disasters.
simulation::Scenario native_scenario(simulation::Model model, std::uint64_t seed);

struct NumberedEvent {
  std::uint64_t number = 0;
  simulation::Event event;
};
/// Of one worker, in its order.
using Recording = std::vector<NumberedEvent>;

/// Does a worker's part of the scenario, up to its leaving. What it did stands in `recording`, also where it
/// failed.
absl::Status record_workload(const simulation::Scenario& scenario, Session& session,
                             std::function<std::uint64_t()> next_number, Recording& recording);

/// What was wrong first with what all workers did; nothing if every promise was kept.
std::optional<std::string> check(const std::vector<Recording>& workers, simulation::History& history);

absl::Status write_recording(const Recording& recording, const std::string& path);
absl::StatusOr<Recording> read_recording(const std::string& path);

}  // namespace verbena::testing
