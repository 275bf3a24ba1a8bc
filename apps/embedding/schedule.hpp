// Which examples a worker trains in which clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <verbena/data_cursor.hpp>

namespace verbena::apps {

/// Each has a cursor.
inline constexpr std::int64_t kMostClocksPerIteration = 100'000;

/// Part `part` of `parts` of the positions 0 … size − 1: a clock's examples.
ExampleRange part_of_iteration(std::size_t size, std::size_t part, std::size_t parts);

/// A cursor over the examples of each clock, so that what an iteration that ends early has left comes first
/// when that clock's turn comes again.
std::vector<DataCursor> cursors_of_clocks(Session& session, std::size_t examples, std::size_t clocks,
                                          std::uint64_t mini_batch);

}  // namespace verbena::apps
