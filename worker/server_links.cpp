#include "worker/server_links.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::worker {

bool ServerLinks::any_counts_clocks() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) { return link->counts_clocks; });
}

bool ServerLinks::all_lanes_at(consistency::Clock clock, Servers which) const {
  return std::all_of(links_.begin(), links_.end(), [&](const auto& link) {
    return !is_among(*link, which) ||
           std::all_of(link->lanes.begin(), link->lanes.end(),
                       [&](const LaneView& lane) { return lane.min_clock >= clock; });
  });
}

consistency::Clock ServerLinks::former_clock() const {
  consistency::Clock clock = consistency::kNoBound;
  for (const std::unique_ptr<ServerLink>& link : links_) {
    if (is_among(*link, Servers::kCounting)) clock = std::min(clock, link->former_clock);
  }
  return clock == consistency::kNoBound ? 0 : clock;
}

consistency::Clock ServerLinks::newest_former_clock() const {
  consistency::Clock clock = 0;
  for (const std::unique_ptr<ServerLink>& link : links_) clock = std::max(clock, link->former_clock);
  return clock;
}

std::string ServerLinks::slowest_lane(Servers which) const {
  const ServerLink* slowest = nullptr;
  std::size_t lane = 0;
  for (const std::unique_ptr<ServerLink>& link : links_) {
    for (std::size_t i = 0; i < link->lanes.size() && is_among(*link, which); ++i) {
      if (slowest != nullptr && link->lanes[i].min_clock >= slowest->lanes[lane].min_clock) continue;
      slowest = link.get();
      lane = i;
    }
  }
  return slowest == nullptr ? "no server has welcomed it"
                            : fmt::format("at {} all have finished {} clocks",
                                          slowest->connection->peer_name(), slowest->lanes[lane].min_clock);
}

void ServerLinks::start_clock() {
  for (const std::unique_ptr<ServerLink>& link : links_) {
    for (LaneView& lane : link->lanes) lane.min_clock_at_start = lane.min_clock;
  }
}

}  // namespace verbena::worker
