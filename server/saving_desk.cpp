#include "server/saving_desk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "server/moving_shard.hpp"

namespace verbena::server {

absl::Status SavingDesk::on_save_rows(Peer& peer, const protocol::SaveRows& save) {
  // Of a clock that this server has heard the end of asks only who takes the place of worker 0, if other
  // servers have not. And the server may still have to do with what was asked for by that one, or over a
  // connection that has broken.
  const bool is_cut = save.clock <= peer.clock;
  const bool may_ask =
      is_cut ? save.clock <= peer.former_clock : peer.has_come_back || !saving_.is_under_way();
  if (peer.worker != 0 || !may_ask) {
    return absl::InvalidArgumentError(
        fmt::format("asks for a checkpoint of clock {} at clock {}", save.clock, peer.clock));
  }
  clock_ = save.clock;
  const absl::Status status =
      is_cut ? absl::UnavailableError("has made this cut for the process before") : begin(save);
  job_.reply(peer, protocol::PartSaved{.clock = save.clock,
                                       .rank = job_.server,
                                       .code = static_cast<std::uint32_t>(status.code()),
                                       .reason = std::string(status.message())});
  // Also of those of whom the process before it was told.
  for (Peer* const worker : job_.workers) {
    if (worker != nullptr) tell_if_it_saves_nothing(*worker);
  }
  return absl::OkStatus();
}

absl::Status SavingDesk::begin(const protocol::SaveRows& save) {
  // Whoever has asked for this cut is gone; it is still to come, as worker 0 has not finished the clock.
  const bool is_expected = saving_.is_under_way() && saving_.cut()->clock() == save.clock;
  if (saving_.is_under_way() && !is_expected)
    return absl::UnavailableError("still writes a checkpoint that was given up");
  RETURN_IF_ERROR(saving_.begin(save));
  if (is_expected) return absl::OkStatus();
  has_moving_rows_to_copy_ = true;
  const auto task = std::make_shared<const StateTask>(StateTask{.cut = saving_.cut()});
  for (std::uint32_t lane = 0; lane < job_.lanes; ++lane)
    job_.host.enqueue(lane, {.kind = LaneTask::Kind::kState, .state = task});
  return absl::OkStatus();
}

void SavingDesk::on_left(Peer& worker) {
  if (worker.saved < clock_) tell_if_it_saves_nothing(worker);
  copy_moving_rows();
}

void SavingDesk::on_replaced(Peer& worker) {
  if (worker.saved < clock_) tell_if_it_saves_nothing(worker);
}

/// The worker has left, or another process is it that has not been at the cut: there will be no part of it.
void SavingDesk::tell_if_it_saves_nothing(Peer& worker) {
  const bool was_replaced = worker.worker != 0 && clock_ <= worker.former_clock;
  if (job_.server != 0 || !(worker.left || was_replaced)) return;
  worker.saved = clock_;
  const auto code = worker.left ? absl::StatusCode::kFailedPrecondition : absl::StatusCode::kUnavailable;
  tell_worker_0({.clock = clock_,
                 .stage = protocol::PartSaved::Stage::kWritten,
                 .is_worker = true,
                 .rank = worker.worker,
                 .code = static_cast<std::uint32_t>(code),
                 .reason = worker.left ? "has left the job" : "was replaced by another process"});
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
