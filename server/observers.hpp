// Those who look into a running job: they ask what there is, and call functions that change nothing.
#pragma once

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "protocol/messages.hpp"
#include "server/job_view.hpp"
#include "server/lane.hpp"
#include "server/peer.hpp"

namespace verbena::server {

/// Thread safety: belongs to the transport's thread.
class Observers {
 public:
  /// `job` must outlive it.
  explicit Observers(const JobView& job) : job_(job) {}

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

  const JobView& job_;
  std::vector<Peer*> peers_;  ///< that were admitted; some may have broken rules since
};

}  // namespace verbena::server
