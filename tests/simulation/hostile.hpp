// A node that breaks the rules of a simulated job: as a stranger, who never becomes a worker, or as a worker.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "transport/transport.hpp"

namespace verbena::simulation {

/// Where a hostile node goes, and what it must know to be believed.
struct HostileJob {
  std::vector<std::string> servers;  ///< their addresses, by rank
  std::uint32_t workers = 1;
  bool ranks_are_taken = false;  ///< all workers are there, so that whoever names one's rank is refused
};

/// Comes to a server, says what it likes for a while, and goes. INTERNAL if it was taken for a worker.
absl::Status visit(transport::Transport& transport, const HostileJob& job, std::uint32_t server,
                   std::uint64_t seed);

/// Becomes worker `rank`, calls `turns`, and says to one of the servers what no worker may, until it is
/// thrown out.
void betray(transport::Transport& transport, const HostileJob& job, std::uint32_t rank, std::uint32_t node,
            std::uint64_t seed, const std::function<void()>& turns);

}  // namespace verbena::simulation
