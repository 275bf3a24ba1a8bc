#include "apps/embedding/schedule.hpp"

#include <utility>

#include "apps/resuming/saved_state.hpp"

namespace verbena::apps {

ExampleRange part_of_iteration(std::size_t size, std::size_t part, std::size_t parts) {
  return {size * part / parts, size * (part + 1) / parts};
}

absl::StatusOr<std::vector<DataCursor>> cursors_of_clocks(Session& session, std::size_t examples,
                                                          std::size_t clocks, std::uint64_t mini_batch,
                                                          const nlohmann::json* saved) {
  std::vector<std::uint64_t> places(clocks, 0);
  if (saved != nullptr) {
    absl::StatusOr<std::vector<std::uint64_t>> found = SavedState(*saved).places(kSavedPlaces, clocks);
    if (!found.ok()) return found.status();
    places = *std::move(found);
  }
  std::vector<DataCursor> cursors;
  for (std::size_t part = 0; part < clocks; ++part) {
    cursors.emplace_back(session,
                         DataCursor::Options{.examples = part_of_iteration(examples, part, clocks).size(),
                                             .mini_batch = mini_batch,
                                             .first = places[part]});
  }
  return cursors;
}

}  // namespace verbena::apps
