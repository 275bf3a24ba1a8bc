// How a server comes to be the home of a dead server's keys (docs/decisions/0065-homes-fail-over.md).
//
// Servers have no connections to one another: workers tell them who is gone, and each server passes it on to
// all its workers. So all who are left come to know of the same deaths, and whom one of them takes for dead
// is dead for all. The server that inherits the keys of a dead one (protocol/heirs.hpp) waits until each
// worker has said that what the dead home had let it move has come, or stays. Then nobody moves rows of those
// keys, and a census (inherited_keys.hpp) finds who owns them. Another death in between begins this anew.
//
// Workers of a dead node are not waited for: what they still move goes to a dead node. Nor is a worker that
// has died; if a last message of it takes a row from its owner after the census, the row is lost with it, and
// who wants to move it finds that out, as without a census.
//
// Rows that come back from images (backup.hpp) do so when, in addition, the workers of nodes that are gone
// are gone, too: until then one of them may change the row in place.
//
// Thread safety: belongs to the transport's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"
#include "protocol/heirs.hpp"
#include "protocol/messages.hpp"
#include "server/job_view.hpp"
#include "server/peer.hpp"

namespace verbena::server {

class MovingShard;

class Succession {
 public:
  /// `job` must outlive it. `on_rest`: called when nobody uses the nodes that are gone any more, before rows
  /// come back; maybe several times.
  Succession(const JobView& job, std::function<void()> on_rest)
      : job_(job), on_rest_(std::move(on_rest)), heirs_(job.servers) {}

  [[nodiscard]] const protocol::Heirs& heirs() const { return heirs_; }
  // From a worker. INVALID_ARGUMENT: it breaks rules. RESOURCE_EXHAUSTED: no memory for inherited keys.
  absl::Status on_server_gone(Peer& worker, const protocol::ServerGone& gone);
  absl::Status on_moves_ended(Peer& worker, const protocol::MovesEnded& ended);
  absl::Status on_found(Peer& worker, const protocol::KeyAnswers& answers);
  absl::Status on_census(Peer& worker, const protocol::Census& census);
  /// A worker has left, or was let go: nobody waits for it any more.
  void on_left() {
    if (heirs_.gone() > 0) begin_census_if_all_moves_have_ended();
  }

 private:
  [[nodiscard]] bool is_awaited(const Peer* worker) const;
  void begin_census_if_all_moves_have_ended();
  [[nodiscard]] MovingShard* shard_of(const Peer& worker, std::uint32_t table) const;

  const JobView& job_;
  const std::function<void()> on_rest_;
  protocol::Heirs heirs_;
};

}  // namespace verbena::server
