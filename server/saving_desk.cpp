#include "server/saving_desk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "base/printable.hpp"
#include "server/moving_shard.hpp"

namespace verbena::server {

absl::Status SavingDesk::on_save_rows(Peer& peer, const protocol::SaveRows& save) {
  if (peer.worker == 0 && peer.has_come_back && save.clock > peer.clock && saving_.is_under_way()) {
    job_.reply(peer, protocol::PartSaved{.clock = save.clock,
                                         .rank = job_.server,
                                         .code = static_cast<std::uint32_t>(absl::StatusCode::kUnavailable),
                                         .reason = "still writes a checkpoint that was given up"});
    return absl::OkStatus();
  }
  if (peer.worker != 0 || save.clock <= peer.clock || saving_.is_under_way()) {
    return absl::InvalidArgumentError(
        fmt::format("asks for a checkpoint of clock {} at clock {}", save.clock, peer.clock));
  }
  const absl::Status status = saving_.begin(save);
  clock_ = save.clock;
  if (status.ok()) {
    has_moving_rows_to_copy_ = true;
    const auto task = std::make_shared<const StateTask>(StateTask{.cut = saving_.cut()});
    for (std::uint32_t lane = 0; lane < job_.lanes; ++lane)
      job_.host.enqueue(lane, {.kind = LaneTask::Kind::kState, .state = task});
  }
  job_.reply(peer, protocol::PartSaved{.clock = save.clock,
                                       .rank = job_.server,
                                       .code = static_cast<std::uint32_t>(status.code()),
                                       .reason = std::string(status.message())});
  for (Peer* const worker : job_.workers) {
    if (worker != nullptr && worker->left) tell_that_it_saves_nothing(*worker);
  }
  return absl::OkStatus();
}

void SavingDesk::on_left(Peer& worker) {
  tell_that_it_saves_nothing(worker);
  copy_moving_rows();
}

/// The worker has left: there will be no part of it.
void SavingDesk::tell_that_it_saves_nothing(Peer& worker) {
  if (job_.server != 0 || worker.saved >= clock_) return;
  worker.saved = clock_;
  tell_worker_0({.clock = clock_,
                 .stage = protocol::PartSaved::Stage::kWritten,
                 .is_worker = true,
                 .rank = worker.worker,
                 .code = static_cast<std::uint32_t>(absl::StatusCode::kFailedPrecondition),
                 .reason = "has left the job"});
}

/// If all workers have finished the clocks before the cut. Called before the lanes hear that the last one
/// has.
void SavingDesk::copy_moving_rows() {
  if (!has_moving_rows_to_copy_) return;
  const consistency::Clock clock = saving_.cut()->clock();
  const bool all_are_there = std::all_of(job_.workers.begin(), job_.workers.end(), [&](const Peer* worker) {
    return worker != nullptr && (worker->left || worker->clock >= clock);
  });
  if (!all_are_there) return;
  has_moving_rows_to_copy_ = false;
  absl::Status status;
  try {
    for (TableShard* const shard : job_.shards.outside_lanes())
      shard->moving()->copy_rows(saving_.cut()->of_server(shard->table.table));
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("there is no memory for a copy of all rows");
  }
  saving_.cut()->server_is_done(status);
}

bool SavingDesk::step() {
  const std::optional<protocol::PartSaved> saved = saving_.step();
  if (saved) tell_worker_0(*saved);
  return saved.has_value();
}

void SavingDesk::tell_worker_0(const protocol::PartSaved& saved) {
  Peer* const worker = job_.workers[0];
  if (worker != nullptr && worker->is_there()) job_.reply(*worker, saved);
}

/// Workers are not connected to one another.
absl::Status SavingDesk::on_part_saved(Peer& peer, const protocol::PartSaved& saved) {
  if (peer.has_come_back && saved.clock == peer.saved) return absl::OkStatus();  // said again
  if (job_.server != 0 || !saved.is_worker || saved.rank != peer.worker || peer.worker == 0 ||
      saved.stage != protocol::PartSaved::Stage::kWritten || saved.clock <= peer.saved ||
      saved.clock > peer.clock) {
    return absl::InvalidArgumentError(fmt::format("tells of part {} of a checkpoint of clock {} at clock {}",
                                                  saved.rank, saved.clock, peer.clock));
  }
  peer.saved = saved.clock;
  protocol::PartSaved shown = saved;
  shown.reason = base::printable(saved.reason);
  tell_worker_0(shown);
  return absl::OkStatus();
}

}  // namespace verbena::server
