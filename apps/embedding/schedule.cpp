#include "apps/embedding/schedule.hpp"

namespace verbena::apps {

ExampleRange part_of_iteration(std::size_t size, std::size_t part, std::size_t parts) {
  return {size * part / parts, size * (part + 1) / parts};
}

std::vector<DataCursor> cursors_of_clocks(Session& session, std::size_t examples, std::size_t clocks,
                                          std::uint64_t mini_batch) {
  std::vector<DataCursor> cursors;
  for (std::size_t part = 0; part < clocks; ++part) {
    cursors.emplace_back(session,
                         DataCursor::Options{.examples = part_of_iteration(examples, part, clocks).size(),
                                             .mini_batch = mini_batch});
  }
  return cursors;
}

}  // namespace verbena::apps
