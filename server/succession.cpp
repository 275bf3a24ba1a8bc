#include "server/succession.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/return_if_error.hpp"
#include "server/moving_shard.hpp"

namespace verbena::server {

absl::Status Succession::on_server_gone(Peer& worker, const protocol::ServerGone& gone) {
  if (gone.server >= job_.servers || gone.server == job_.server) {
    return absl::InvalidArgumentError(fmt::format("says to server {} of {} that server {} is gone",
                                                  job_.server, job_.servers, gone.server));
  }
  if (!heirs_.lose(gone.server)) return absl::OkStatus();
  spdlog::warn("server {} hears from worker {} that server {} is gone; server {} is the home of its keys now",
               job_.server, worker.worker, gone.server, heirs_.of(gone.server));
  for (Peer* const other : job_.workers) {
    if (other != nullptr && other != &worker && other->is_there()) job_.reply(*other, gone);
  }
  for (TableShard* const shard : job_.shards.outside_lanes()) {
    MovingShard& moving = *shard->moving();
    moving.put_off_census();
    for (std::uint32_t server = 0; server < job_.servers; ++server) {
      if (heirs_.is_gone(server) && heirs_.of(server) == job_.server) RETURN_IF_ERROR(moving.inherit(server));
    }
  }
  begin_census_if_all_moves_have_ended();
  return absl::OkStatus();
}

absl::Status Succession::on_moves_ended(Peer& worker, const protocol::MovesEnded& ended) {
  if (ended.gone > heirs_.gone()) {
    return absl::InvalidArgumentError(
        fmt::format("knows of {} servers that are gone, and has not said which", ended.gone));
  }
  worker.moves_ended = ended.gone;
  begin_census_if_all_moves_have_ended();
  return absl::OkStatus();
}

/// One that has no table has moved nothing, and opens none any more.
bool Succession::is_awaited(const Peer* worker) const {
  return worker != nullptr && !worker->left && worker->tables_opened > 0 && !heirs_.is_gone(worker->node);
}

void Succession::begin_census_if_all_moves_have_ended() {
  const bool have_ended = std::all_of(job_.workers.begin(), job_.workers.end(), [&](const Peer* worker) {
    return !is_awaited(worker) || worker->moves_ended == heirs_.gone();
  });
  if (!have_ended) return;
  const bool are_at_rest = std::all_of(job_.workers.begin(), job_.workers.end(), [&](const Peer* worker) {
    return worker == nullptr || worker->left || !heirs_.is_gone(worker->node);
  });
  if (are_at_rest) on_rest_();
  for (TableShard* const shard : job_.shards.outside_lanes())
    shard->moving()->begin_census(heirs_.gone(), are_at_rest, job_.host);
}

MovingShard* Succession::shard_of(const Peer& worker, std::uint32_t table) const {
  return table < worker.tables_opened ? job_.shards[table].moving() : nullptr;
}

absl::Status Succession::on_found(Peer& worker, const protocol::KeyAnswers& answers) {
  MovingShard* const shard = shard_of(worker, answers.table);
  if (shard == nullptr)
    return absl::InvalidArgumentError(fmt::format("found rows of table {}", answers.table));
  for (const protocol::KeyAnswers::Answer& answer : answers.answers) {
    if (answer.node >= job_.servers) {
      return absl::InvalidArgumentError(
          fmt::format("found key {} on server {} of {}", answer.key, answer.node, job_.servers));
    }
    RETURN_IF_ERROR(shard->on_found(worker.worker, answer));
  }
  return absl::OkStatus();
}

absl::Status Succession::on_census(Peer& worker, const protocol::Census& census) {
  MovingShard* const shard = shard_of(worker, census.table);
  if (shard == nullptr)
    return absl::InvalidArgumentError(fmt::format("ends a census of table {}", census.table));
  // An earlier one does not count: the worker makes another, or has nothing to ask any more.
  if (census.gone != heirs_.gone()) return absl::OkStatus();
  return shard->on_census(worker.worker, census, job_.host.key_answers());
}

}  // namespace verbena::server
