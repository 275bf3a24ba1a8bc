// A node that breaks the protocol's rules in a simulated job, as a stranger or as a worker.
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

/// What a hostile node knows about the job.
struct HostileJob {
  std::vector<std::string> servers;  ///< their addresses, by rank
  std::uint32_t workers = 1;
  bool ranks_are_taken = false;  ///< all workers are there: a hello with a rank of theirs is refused
};

/// Connects to a server, sends anything for a while, and leaves. INTERNAL if the server admitted it as a
/// worker.
absl::Status visit(transport::Transport& transport, const HostileJob& job, std::uint32_t server,
                   std::uint64_t seed);

/// Joins as worker `rank`, calls `turns`, and then sends one of the servers what no worker may send, until it
/// is disconnected.
void betray(transport::Transport& transport, const HostileJob& job, std::uint32_t rank, std::uint32_t node,
            std::uint64_t seed, const std::function<void()>& turns);

}  // namespace verbena::simulation
