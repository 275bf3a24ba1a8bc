#include "server/homes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

namespace verbena::server {

using protocol::KeyAnswers;

namespace {

absl::Status has_no_intent(protocol::Key key) {
  return absl::InvalidArgumentError(fmt::format("ends an intent on key {}, which it does not have", key));
}

}  // namespace

absl::StatusOr<Homes> Homes::create(protocol::KeyRange keys, std::uint32_t home) {
  try {
    return Homes(keys, home);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory to remember the owners of {} rows", keys.size()));
  }
}

Homes::Answer Homes::answer(protocol::Key key, std::uint32_t worker, KeyAnswers::Kind kind) const {
  const Place at = place(key);
  return {worker, {.key = key, .kind = kind, .node = at.node, .epoch = at.epoch}};
}

KeyAnswers::Kind Homes::kind_of_answer(protocol::Key key, const Waiting& to) const {
  if (lost_.contains(key)) return KeyAnswers::Kind::kLost;
  if (to.what == Waiting::For::kLocate) return KeyAnswers::Kind::kOwned;
  if (in_doubt_.contains(key)) return KeyAnswers::Kind::kTake;  // who moves it finds out
  if (place(key).node == to.worker.node) return KeyAnswers::Kind::kHere;
  const bool stays = to.what == Waiting::For::kIntend && intents_.others_than(key, to.worker.node);
  return stays ? KeyAnswers::Kind::kShared : KeyAnswers::Kind::kTake;
}

void Homes::answer_in_turn(protocol::Key key, const Waiting& to, Answers& answers) {
  if (const auto move = moves_.find(key); move != moves_.end()) {
    move->second.line.push_back(to);
    return;
  }
  if (answer_now(key, to, answers)) moves_[key].mover = to.worker;
}

bool Homes::answer_now(protocol::Key key, const Waiting& to, Answers& answers) const {
  const KeyAnswers::Kind kind = kind_of_answer(key, to);
  answers.push_back(answer(key, to.worker.rank, kind));
  const bool moves = kind == KeyAnswers::Kind::kTake;
  answers.back().yields = moves && to.what == Waiting::For::kIntend && place(key).node != to.worker.node;
  return moves;
}

void Homes::locate(protocol::Key key, std::uint32_t worker, Answers& answers) {
  answer_in_turn(key, {{.rank = worker}, Waiting::For::kLocate}, answers);
}

void Homes::localize(protocol::Key key, const Worker& worker, Answers& answers) {
  answer_in_turn(key, {worker, Waiting::For::kLocalize}, answers);
}

void Homes::intend(protocol::Key key, const Worker& worker, Answers& answers) {
  intents_.add(key, worker);
  answer_in_turn(key, {worker, Waiting::For::kIntend}, answers);
}

absl::Status Homes::end_intent(protocol::Key key, std::uint32_t worker, Answers& answers) {
  if (!intents_.remove(key, worker)) return has_no_intent(key);
  tell_if_alone(key, answers);
  return absl::OkStatus();
}

void Homes::leave(std::uint32_t worker, Answers& answers) {
  for (const protocol::Key key : intents_.keys_of(worker))
    static_cast<void>(end_intent(key, worker, answers));
}

void Homes::tell_if_alone(protocol::Key key, Answers& answers) {
  if (!intents_.has_any(key) || moves_.contains(key)) return;
  if (const std::optional<std::uint32_t> worker = intents_.tell_alone(key, place(key).node))
    answers.push_back(answer(key, *worker, KeyAnswers::Kind::kAlone));
}

absl::Status Homes::check_mover(protocol::Key key, std::uint32_t worker, std::uint64_t epoch,
                                std::uint64_t moved) const {
  const auto found = moves_.find(key);
  if (found != moves_.end() && found->second.mover.rank == worker && epoch == place(key).epoch + moved &&
      epoch <= protocol::SlotHeader::kMaxEpoch) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("says that key {} has {}, at epoch {}, which is not its to say", key,
                  moved > 0 ? "arrived" : "been kept", epoch));
}

absl::Status Homes::arrived(protocol::Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers) {
  if (absl::Status status = check_mover(key, worker, epoch, /*moved=*/1); !status.ok()) return status;
  set_place(key, {moves_.at(key).mover.node, epoch});
  in_doubt_.erase(key);
  intents_.forget_told(key);  // that it is kept where it was
  answer_line(key, answers);
  return absl::OkStatus();
}

absl::Status Homes::settled(protocol::Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers) {
  if (absl::Status status = check_mover(key, worker, epoch, /*moved=*/1); !status.ok()) return status;
  // First: those in line are to find out where the row is that it is kept.
  if (!intents_.remove(key, worker)) return has_no_intent(key);
  return arrived(key, worker, epoch, answers);
}

absl::Status Homes::kept(protocol::Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers) {
  if (absl::Status status = check_mover(key, worker, epoch, /*moved=*/0); !status.ok()) return status;
  if (!moves_.at(key).is_released) intents_.mark_told(key, worker);
  answer_line(key, answers);
  return absl::OkStatus();
}

void Homes::released(protocol::Key key, std::uint32_t node, Answers& answers) {
  if (place(key).node != node) return;  // it has left since
  intents_.forget_told(key);
  if (const auto move = moves_.find(key); move != moves_.end()) move->second.is_released = true;
  tell_if_alone(key, answers);
}

void Homes::answer_line(protocol::Key key, Answers& answers) {
  const auto found = moves_.find(key);
  Move& move = found->second;
  while (!move.line.empty()) {
    const Waiting next = move.line.front();
    move.line.erase(move.line.begin());
    if (answer_now(key, next, answers)) {
      move.mover = next.worker;
      move.is_released = false;
      return;
    }
  }
  moves_.erase(found);
  tell_if_alone(key, answers);
}

void Homes::lose(const Worker& worker, Answers& answers) {
  leave(worker.rank, answers);
  // What it has kept is so no longer.
  for (const protocol::Key key : intents_.keys()) {
    if (place(key).node == worker.node) released(key, worker.node, answers);
  }
  std::vector<protocol::Key> moved;
  for (auto& [key, move] : moves_) {
    std::erase_if(move.line, [&](const Waiting& waiting) { return waiting.worker.rank == worker.rank; });
    if (move.mover.rank == worker.rank) moved.push_back(key);
  }
  std::sort(moved.begin(), moved.end());
  for (const protocol::Key key : moved) {
    const std::uint64_t epoch = place(key).epoch + 1;
    auto& others = in_doubt_[key];
    if (epoch <= protocol::SlotHeader::kMaxEpoch) others.push_back({worker.node, epoch});
    answer_line(key, answers);
  }
}

absl::Status Homes::missing(protocol::Key key, const Worker& worker, std::uint64_t epoch, Answers& answers) {
  const auto move = moves_.find(key);
  const bool is_moving = move != moves_.end();
  const bool is_mover = is_moving && move->second.mover.rank == worker.rank;
  if (is_mover && place(key).epoch != epoch) {
    return absl::InvalidArgumentError(
        fmt::format("misses key {} at epoch {}, was told {}", key, epoch, place(key).epoch));
  }
  // Who does not move it knows of its own node only; and the row may have moved since.
  const bool is_told = place(key).node == worker.node && place(key).epoch == epoch;
  if (!is_mover && (is_moving || !is_told || lost_.contains(key))) {
    localize(key, worker, answers);
    return absl::OkStatus();
  }
  const auto others = in_doubt_.find(key);
  if (others == in_doubt_.end() || others->second.empty()) {
    if (others != in_doubt_.end()) in_doubt_.erase(others);
    lost_.insert(key);
    answers.push_back(answer(key, worker.rank, KeyAnswers::Kind::kLost));
    if (is_mover) answer_line(key, answers);
    return absl::OkStatus();
  }
  set_place(key, others->second.front());
  others->second.pop_front();
  moves_[key].mover = worker;
  answers.push_back(answer(key, worker.rank, KeyAnswers::Kind::kTake));
  return absl::OkStatus();
}

}  // namespace verbena::server
