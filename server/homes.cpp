#include "server/homes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace verbena::server {

using protocol::KeyAnswers;

absl::StatusOr<Homes> Homes::create(protocol::KeyRange keys, std::uint32_t home) {
  const std::size_t count = std::max<std::size_t>(keys.size(), 1);
  Places places(static_cast<std::uint64_t*>(std::calloc(count, sizeof(std::uint64_t))), &std::free);
  if (places == nullptr) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory to remember the owners of {} rows", keys.size()));
  }
  return Homes(keys, home, std::move(places));
}

Homes::Answer Homes::answer(protocol::Key key, std::uint32_t worker, KeyAnswers::Kind kind) const {
  const Place at = place(key);
  return {worker, {.key = key, .kind = kind, .node = at.node, .epoch = at.epoch}};
}

void Homes::locate(protocol::Key key, std::uint32_t worker, Answers& answers) {
  if (const auto move = moves_.find(key); move != moves_.end()) {
    move->second.line.push_back({{.rank = worker}, /*localizes=*/false});
    return;
  }
  answers.push_back(answer(key, worker, KeyAnswers::Kind::kOwned));
}

void Homes::localize(protocol::Key key, const Worker& worker, Answers& answers) {
  if (const auto move = moves_.find(key); move != moves_.end()) {
    move->second.line.push_back({worker, /*localizes=*/true});
    return;
  }
  if (place(key).node == worker.node) {
    answers.push_back(answer(key, worker.rank, KeyAnswers::Kind::kHere));
    return;
  }
  moves_[key].mover = worker;
  answers.push_back(answer(key, worker.rank, KeyAnswers::Kind::kTake));
}

absl::Status Homes::arrived(protocol::Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers) {
  const auto found = moves_.find(key);
  const std::uint64_t expected = place(key).epoch + 1;
  if (found == moves_.end() || found->second.mover.rank != worker || epoch != expected ||
      epoch > protocol::SlotHeader::kMaxEpoch) {
    return absl::InvalidArgumentError(
        fmt::format("says that key {} has arrived, at epoch {}, which is not its to say", key, epoch));
  }
  Move& move = found->second;
  set_place(key, {move.mover.node, epoch});
  while (!move.line.empty()) {
    const Waiting next = move.line.front();
    move.line.pop_front();
    if (next.localizes && next.worker.node != move.mover.node) {
      move.mover = next.worker;
      answers.push_back(answer(key, next.worker.rank, KeyAnswers::Kind::kTake));
      return absl::OkStatus();
    }
    answers.push_back(
        answer(key, next.worker.rank, next.localizes ? KeyAnswers::Kind::kHere : KeyAnswers::Kind::kOwned));
  }
  moves_.erase(found);
  return absl::OkStatus();
}

}  // namespace verbena::server
