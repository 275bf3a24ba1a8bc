// The job as those parts of a server see it that talk to its workers.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "protocol/messages.hpp"
#include "server/peer.hpp"
#include "server/shards.hpp"
#include "server/table_shard.hpp"

namespace verbena::server {

/// Thread safety: belongs to the transport's thread.
struct JobView {
  std::uint32_t server = 0;  ///< this one
  std::uint32_t servers = 1;
  std::uint32_t lanes = 1;  ///< of this server
  ShardHost& host;
  const Shards& shards;
  const std::vector<Peer*>& workers;  ///< by rank; nullptr before their hello
  std::function<void(Peer& peer, const protocol::ControlMessage& message)> reply;
};

}  // namespace verbena::server
