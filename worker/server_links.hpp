// All servers of a session, and what is asked about all of them together: how far their lanes' clocks are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "consistency/rules.hpp"
#include "worker/server_link.hpp"

namespace verbena::worker {

/// Which servers a question is about. Dead servers are never included.
enum class Servers : std::uint8_t {
  kCounting,  ///< servers that have rows whose readers wait for clocks
  kAll,
};

/// By rank. Thread safety: none; belongs to its session.
class ServerLinks {
 public:
  ServerLink& add(std::unique_ptr<ServerLink> link) { return *links_.emplace_back(std::move(link)); }
  [[nodiscard]] auto begin() const { return links_.begin(); }
  [[nodiscard]] auto end() const { return links_.end(); }
  [[nodiscard]] std::size_t size() const { return links_.size(); }
  [[nodiscard]] ServerLink& front() const { return *links_.front(); }
  /// REQUIRES: server < size()
  [[nodiscard]] ServerLink& operator[](std::uint32_t server) const { return *links_[server]; }
  [[nodiscard]] std::uint32_t dead() const {
    return static_cast<std::uint32_t>(
        std::count_if(links_.begin(), links_.end(), [](const auto& link) { return link->is_dead; }));
  }

  /// The difference matters between barriers: nobody asks a server that has only rows of dynamic tables for
  /// clocks, and a message for each mini-batch would cost more than the mini-batch.
  [[nodiscard]] static bool is_among(const ServerLink& link, Servers which) {
    return !link.is_dead && (which == Servers::kAll || link.counts_clocks);
  }
  /// Includes dead servers.
  [[nodiscard]] bool any_counts_clocks() const;
  [[nodiscard]] bool all_lanes_at(consistency::Clock clock, Servers which) const;
  /// Of the clocks of processes that were this worker before: those below it are done at all servers that
  /// have rows whose readers wait for clocks; and those that are done at some server.
  [[nodiscard]] consistency::Clock former_clock() const;
  [[nodiscard]] consistency::Clock newest_former_clock() const;
  /// For messages.
  [[nodiscard]] std::string slowest_lane(Servers which) const;
  /// The worker's next clock has begun.
  void start_clock();

 private:
  std::vector<std::unique_ptr<ServerLink>> links_;
};

}  // namespace verbena::worker
