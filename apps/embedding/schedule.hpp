// Which examples a worker trains in which clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include <verbena/data_cursor.hpp>

namespace verbena::apps {

/// There is a limit because each clock has a cursor.
inline constexpr std::int64_t kMostClocksPerIteration = 100'000;

/// The examples of one clock: part `part` of `parts` of the positions 0 … size − 1.
ExampleRange part_of_iteration(std::size_t size, std::size_t part, std::size_t parts);

/// Name of what saved_places() says of the cursors, among what is saved of a training (training.hpp).
inline constexpr const char* kSavedPlaces = "places";

/// Makes a cursor over the examples of each clock. If an iteration ends early, the examples that it has left
/// come first when it is that clock's turn again. `saved`: where the cursors were; nullptr: at the beginning.
/// DATA_LOSS: it was saved of other ones.
absl::StatusOr<std::vector<DataCursor>> cursors_of_clocks(Session& session, std::size_t examples,
                                                          std::size_t clocks, std::uint64_t mini_batch,
                                                          const nlohmann::json* saved = nullptr);

}  // namespace verbena::apps
