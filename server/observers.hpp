// Those who look into a running job: they ask what there is, and call functions that change nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "protocol/messages.hpp"
#include "server/peer.hpp"
#include "server/shards.hpp"
#include "server/table_shard.hpp"

namespace verbena::server {

/// Thread safety: belongs to the transport's thread.
class Observers {
 public:
  using Reply = std::function<void(Peer& peer, const protocol::ControlMessage& message)>;
  /// All must outlive it.
  Observers(ShardHost& host, const Shards& shards, std::uint32_t lanes, Reply reply)
      : host_(host), shards_(shards), lanes_(lanes), reply_(std::move(reply)) {}

  /// One that only observers send. `observed` says how the job is now. Errors: the peer breaks rules, asks
  /// for what there is not, or is one too many (RESOURCE_EXHAUSTED).
  absl::Status on_message(Peer& peer, const protocol::ControlMessage& message,
                          absl::FunctionRef<protocol::Observed()> observed);
  /// Takes the functions that have ended in the lane; `has_answer` is called for each peer to be told.
  void take_from(Lane& lane, absl::FunctionRef<void(Peer& peer)> has_answer);
  /// Sends of an answer what the connection takes.
  void send(Peer& peer) const;
  /// Forgets those without a connection.
  void forget_dropped() {
    std::erase_if(peers_, [](const Peer* peer) { return !peer->connection; });
  }

 private:
  absl::Status admit(Peer& peer);
  absl::Status on_inspect(Peer& peer, const protocol::Inspect& inspect);

  ShardHost& host_;
  const Shards& shards_;
  const std::uint32_t lanes_;
  const Reply reply_;
  std::vector<Peer*> peers_;  ///< that were admitted; some may have broken rules since
};

}  // namespace verbena::server
