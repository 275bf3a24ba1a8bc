// What the workers of a job and a server say to each other of checkpoints (docs/protocol.md); what is saved,
// and how, is Saving's.
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "consistency/rules.hpp"
#include "protocol/messages.hpp"
#include "server/job_view.hpp"
#include "server/peer.hpp"
#include "server/saving.hpp"

namespace verbena::server {

/// Thread safety: belongs to the transport's thread.
class SavingDesk {
 public:
  /// `job` must outlive it. `wake`: has the transport's thread call step() soon; may be called from any
  /// thread.
  SavingDesk(const JobView& job, std::function<void()> wake)
      : job_(job), saving_(job.server, job.lanes, std::move(wake)) {}

  // From a worker. INVALID_ARGUMENT: it breaks rules.
  absl::Status on_save_rows(Peer& peer, const protocol::SaveRows& save);
  absl::Status on_part_saved(Peer& peer, const protocol::PartSaved& saved);
  /// A worker has finished a clock, or has left. Called before the lanes hear of it.
  void on_clock() { copy_moving_rows(); }
  void on_left(Peer& worker);
  /// Another process is the worker from now on, which has no part in checkpoints of clocks that the one
  /// before it had finished.
  void on_replaced(Peer& worker);
  /// False: there was nothing to do.
  bool step();

 private:
  absl::Status begin(const protocol::SaveRows& save);
  void tell_if_it_saves_nothing(Peer& worker);
  void copy_moving_rows();
  void tell_worker_0(const protocol::PartSaved& saved);

  const JobView& job_;
  Saving saving_;
  consistency::Clock clock_ = 0;          ///< of the newest checkpoint that was asked for
  bool has_moving_rows_to_copy_ = false;  ///< at the cut that is expected
};

}  // namespace verbena::server
