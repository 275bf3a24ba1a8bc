#include "server/homes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

namespace verbena::server {

using protocol::KeyAnswers;

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
  const KeyAnswers::Kind kind = kind_of_answer(key, to);
  if (kind == KeyAnswers::Kind::kTake) moves_[key].mover = to.worker;
  answers.push_back(answer(key, to.worker.rank, kind));
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
  if (!intents_.remove(key, worker)) {
    return absl::InvalidArgumentError(fmt::format("ends an intent on key {}, which it does not have", key));
  }
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

absl::Status Homes::arrived(protocol::Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers) {
  const auto found = moves_.find(key);
  const std::uint64_t expected = place(key).epoch + 1;
  if (found == moves_.end() || found->second.mover.rank != worker || epoch != expected ||
      epoch > protocol::SlotHeader::kMaxEpoch) {
    return absl::InvalidArgumentError(
        fmt::format("says that key {} has arrived, at epoch {}, which is not its to say", key, epoch));
  }
  set_place(key, {found->second.mover.node, epoch});
  in_doubt_.erase(key);
  answer_line(key, answers);
  return absl::OkStatus();
}

void Homes::answer_line(protocol::Key key, Answers& answers) {
  const auto found = moves_.find(key);
  Move& move = found->second;
  while (!move.line.empty()) {
    const Waiting next = move.line.front();
    move.line.erase(move.line.begin());
    const KeyAnswers::Kind kind = kind_of_answer(key, next);
    answers.push_back(answer(key, next.worker.rank, kind));
    if (kind == KeyAnswers::Kind::kTake) {
      move.mover = next.worker;
      return;
    }
  }
  moves_.erase(found);
  tell_if_alone(key, answers);
}

void Homes::lose(const Worker& worker, Answers& answers) {
  leave(worker.rank, answers);
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
