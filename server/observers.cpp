#include "server/observers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <variant>

#include "base/return_if_error.hpp"
#include "protocol/server_function.hpp"
#include "server/function_run.hpp"

namespace verbena::server {

namespace {

constexpr std::ptrdiff_t kMostObservers = 16;

}  // namespace

absl::Status Observers::on_message(Peer& peer, const protocol::ControlMessage& message,
                                   absl::FunctionRef<protocol::Observed()> observed) {
  if (peer.is_worker()) return absl::FailedPreconditionError("is a worker, and observes");
  if (std::holds_alternative<protocol::Observe>(message)) {
    RETURN_IF_ERROR(admit(peer));
    job_.reply(peer, observed());
    return absl::OkStatus();
  }
  if (!peer.is_observer) return absl::FailedPreconditionError("spoke before it said that it observes");
  if (const auto* inspect = std::get_if<protocol::Inspect>(&message)) return on_inspect(peer, *inspect);
  const std::uint32_t table = std::get<protocol::Describe>(message).table;
  if (table >= job_.shards.size())
    return absl::InvalidArgumentError(fmt::format("asks for table {} of {}", table, job_.shards.size()));
  job_.reply(peer, job_.shards[table].table);
  return absl::OkStatus();
}

absl::Status Observers::admit(Peer& peer) {
  if (peer.is_observer) return absl::OkStatus();
  const auto others = std::count_if(peers_.begin(), peers_.end(),
                                    [](const Peer* other) { return other->is_observer && !other->closed; });
  if (others >= kMostObservers)
    return absl::ResourceExhaustedError(fmt::format("there are {} observers already", others));
  peer.is_observer = true;
  peers_.push_back(&peer);
  return absl::OkStatus();
}

absl::Status Observers::on_inspect(Peer& peer, const protocol::Inspect& inspect) {
  if (peer.inspection != nullptr) return absl::FailedPreconditionError("asks before it has its answer");
  if (inspect.table >= job_.shards.size() || inspect.lane >= job_.lanes) {
    return absl::InvalidArgumentError(
        fmt::format("asks about table {}, lane {}", inspect.table, inspect.lane));
  }
  const FixedShard* const shard = job_.shards[inspect.table].for_lanes();
  absl::StatusOr<protocol::BoundFunction> function = absl::FailedPreconditionError(
      fmt::format("table \"{}\" is dynamic: server functions are for static ones",
                  job_.shards[inspect.table].table.name));
  if (shard != nullptr) function = shard->find_function(inspect.text, 0);
  if (function.ok() && function->changes_rows()) {
    function =
        absl::PermissionDeniedError(fmt::format("{} changes rows, and observers only look", inspect.text));
  }
  const bool is_possible = function.ok();
  peer.inspection = std::make_shared<FunctionRun>(
      kNoWorker, inspect.table, 0,
      protocol::CallMessage{.range = kAllKeys, .keys = inspect.keys, .text = inspect.text}, function,
      FunctionRun::Window{inspect.first_row, inspect.most_rows});
  if (is_possible) {
    job_.host.enqueue(inspect.lane, {.kind = LaneTask::Kind::kCall, .call = peer.inspection});
  } else {
    peer.inspection->finish();
    peer.has_inspected = true;
  }
  return absl::OkStatus();
}

void Observers::take_from(Lane& lane, absl::FunctionRef<void(Peer& peer)> has_answer) {
  std::shared_ptr<FunctionRun> run;
  while (lane.take_inspected(run)) {
    for (Peer* const peer : peers_) {
      if (peer->inspection != run) continue;  // whose is gone by now
      peer->has_inspected = true;
      has_answer(*peer);
    }
  }
}

void Observers::send(Peer& peer) const {
  while (peer.has_inspected && peer.control.empty() && peer.is_there()) {
    FunctionRun& run = *peer.inspection;
    const std::span<const std::uint64_t> words = run.take_words(protocol::kMaxInspectedWords);
    job_.reply(
        peer, protocol::Inspected{
                  .rows = run.rows(), .words_left = run.words_left(), .words = {words.begin(), words.end()}});
    if (!run.is_told()) continue;
    peer.inspection.reset();
    peer.has_inspected = false;
  }
}

}  // namespace verbena::server
