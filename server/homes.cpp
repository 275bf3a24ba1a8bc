#include "server/homes.hpp"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::server {

using protocol::KeyAnswers;

namespace {

absl::Status has_no_intent(Key key) {
  return absl::InvalidArgumentError(fmt::format("ends an intent on key {}, which it does not have", key));
}

}  // namespace

absl::StatusOr<Homes> Homes::create(KeyRange keys, std::uint32_t home) {
  try {
    return Homes(keys, home);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory to remember the owners of {} rows", keys.size()));
  }
}

void Homes::set_mover(Key key, const Worker& worker) {
  if (worker.rank >= nodes_.size()) nodes_.resize(worker.rank + 1);
  nodes_[worker.rank] = worker.node;
  std::uint32_t& mover = movers_[key - keys_.first];
  if (mover == kNobody) ++moving_;
  mover = (worker.rank + 1) * 4 + (mover & kWaitedFor);
}

Homes::Answer Homes::answer(Key key, std::uint32_t worker, KeyAnswers::Kind kind) const {
  const Place at = place(key);
  return {worker, {.key = key, .kind = kind, .node = at.node, .epoch = at.epoch}};
}

KeyAnswers::Kind Homes::kind_of_answer(Key key, const Waiting& to) const {
  if (lost_.contains(key)) return KeyAnswers::Kind::kLost;
  if (to.what == Waiting::For::kLocate) return KeyAnswers::Kind::kOwned;
  if (in_doubt_.contains(key)) return KeyAnswers::Kind::kTake;  // the worker that moves it finds out
  if (place(key).node == to.worker.node) return KeyAnswers::Kind::kHere;
  const bool stays = to.what == Waiting::For::kIntend && intents_.others_than(key, to.worker.node);
  return stays ? KeyAnswers::Kind::kShared : KeyAnswers::Kind::kTake;
}

void Homes::answer_in_turn(Key key, const Waiting& to, Answers& answers) {
  if (is_moving(key)) {
    lines_[key].push_back(to);
    movers_[key - keys_.first] |= kWaitedFor;
    return;
  }
  if (answer_now(key, to, answers)) set_mover(key, to.worker);
}

bool Homes::answer_now(Key key, const Waiting& to, Answers& answers) const {
  const KeyAnswers::Kind kind = kind_of_answer(key, to);
  answers.push_back(answer(key, to.worker.rank, kind));
  const bool moves = kind == KeyAnswers::Kind::kTake;
  answers.back().yields = moves && to.what == Waiting::For::kIntend && place(key).node != to.worker.node;
  return moves;
}

void Homes::locate(Key key, std::uint32_t worker, Answers& answers) {
  answer_in_turn(key, {{.rank = worker}, Waiting::For::kLocate}, answers);
}

void Homes::localize(Key key, const Worker& worker, Answers& answers) {
  answer_in_turn(key, {worker, Waiting::For::kLocalize}, answers);
}

void Homes::intend(Key key, const Worker& worker, Answers& answers) {
  intents_.add(key, worker);
  answer_in_turn(key, {worker, Waiting::For::kIntend}, answers);
}

absl::Status Homes::end_intent(Key key, std::uint32_t worker, Answers& answers) {
  if (!intents_.remove(key, worker)) return has_no_intent(key);
  tell_if_alone(key, answers);
  return absl::OkStatus();
}

void Homes::leave(std::uint32_t worker, Answers& answers) {
  for (const Key key : intents_.keys_of(worker)) static_cast<void>(end_intent(key, worker, answers));
}

void Homes::tell_if_alone(Key key, Answers& answers) {
  if (!intents_.has_any(key) || is_moving(key)) return;
  if (const std::optional<std::uint32_t> worker = intents_.tell_alone(key, place(key).node))
    answers.push_back(answer(key, *worker, KeyAnswers::Kind::kAlone));
}

absl::Status Homes::check_mover(Key key, std::uint32_t worker, std::uint64_t epoch,
                                std::uint64_t moved) const {
  if (is_mover(key, worker) && epoch == place(key).epoch + moved &&
      epoch <= protocol::SlotHeader::kMaxEpoch) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("says that key {} has {}, at epoch {}, which is not its to say", key,
                  moved > 0 ? "arrived" : "been kept", epoch));
}

absl::Status Homes::arrived(Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers) {
  RETURN_IF_ERROR(check_mover(key, worker, epoch, /*moved=*/1));
  set_place(key, {nodes_[worker], epoch});
  in_doubt_.erase(key);
  intents_.forget_told(key);  // workers were told that it is kept where it was
  answer_line(key, answers);
  return absl::OkStatus();
}

absl::Status Homes::settled(Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers) {
  RETURN_IF_ERROR(check_mover(key, worker, epoch, /*moved=*/1));
  // This comes first, so that those in line find out at the row's new place that it is kept.
  if (!intents_.remove(key, worker)) return has_no_intent(key);
  return arrived(key, worker, epoch, answers);
}

absl::Status Homes::kept(Key key, std::uint32_t worker, std::uint64_t epoch, Answers& answers) {
  RETURN_IF_ERROR(check_mover(key, worker, epoch, /*moved=*/0));
  if ((movers_[key - keys_.first] & kReleased) == 0) intents_.mark_told(key, worker);
  answer_line(key, answers);
  return absl::OkStatus();
}

void Homes::found(Key key, std::uint32_t node, std::uint64_t epoch) {
  if (epoch > place(key).epoch) set_place(key, {node, epoch});
}

void Homes::released(Key key, std::uint32_t node, Answers& answers) {
  if (place(key).node != node) return;  // it has left since
  intents_.forget_told(key);
  if (is_moving(key)) movers_[key - keys_.first] |= kReleased;
  tell_if_alone(key, answers);
}

void Homes::answer_line(Key key, Answers& answers) {
  std::uint32_t& mover = movers_[key - keys_.first];
  while ((mover & kWaitedFor) != 0) {
    const auto line = lines_.find(key);
    const Waiting next = line->second.front();
    line->second.erase(line->second.begin());
    if (line->second.empty()) {
      lines_.erase(line);
      mover &= ~kWaitedFor;
    }
    if (answer_now(key, next, answers)) {
      set_mover(key, next.worker);
      return;
    }
  }
  mover = kNobody;
  --moving_;
  tell_if_alone(key, answers);
}

void Homes::lose(const Worker& worker, Answers& answers) {
  leave(worker.rank, answers);
  // Rows that it has kept are no longer kept.
  for (const Key key : intents_.keys()) {
    if (place(key).node == worker.node) released(key, worker.node, answers);
  }
  absl::erase_if(lines_, [&](auto& one) {
    auto& [key, line] = one;
    std::erase_if(line, [&](const Waiting& waiting) { return waiting.worker.rank == worker.rank; });
    if (line.empty()) movers_[key - keys_.first] &= ~kWaitedFor;
    return line.empty();
  });
  std::vector<Key> moved;
  for (Key key = keys_.first, left = moving_; left > 0; ++key) {
    if (!is_moving(key)) continue;
    --left;
    if (is_mover(key, worker.rank)) moved.push_back(key);
  }
  for (const Key key : moved) {
    const std::uint64_t epoch = place(key).epoch + 1;
    auto& others = in_doubt_[key];
    if (epoch <= protocol::SlotHeader::kMaxEpoch) others.push_back({worker.node, epoch});
    answer_line(key, answers);
  }
}

absl::Status Homes::check_missing(Key key, const Worker& worker, std::uint64_t epoch) const {
  if (!is_mover(key, worker.rank) || place(key).epoch == epoch) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("misses key {} at epoch {}, was told {}", key, epoch, place(key).epoch));
}

absl::Status Homes::missing(Key key, const Worker& worker, std::uint64_t epoch, Answers& answers,
                            std::optional<std::uint32_t> keeper) {
  RETURN_IF_ERROR(check_missing(key, worker, epoch));
  const bool moves_it = is_mover(key, worker.rank);
  // A worker that does not move the row knows about its own node only; and the row may have moved since.
  const bool is_told = place(key).node == worker.node && place(key).epoch == epoch;
  if (!moves_it && (is_moving(key) || !is_told || lost_.contains(key))) {
    localize(key, worker, answers);
    return absl::OkStatus();
  }
  const auto others = in_doubt_.find(key);
  const std::uint64_t restored = place(key).epoch + protocol::kRestoredAhead;
  // One that is in doubt may be with a dead worker that brings it home after all.
  if (keeper && moves_it && others == in_doubt_.end() && restored <= protocol::SlotHeader::kMaxEpoch) {
    set_place(key, {*keeper, restored});
    answers.push_back(answer(key, worker.rank, KeyAnswers::Kind::kImage));
    return absl::OkStatus();
  }
  if (others == in_doubt_.end() || others->second.empty()) {
    if (others != in_doubt_.end()) in_doubt_.erase(others);
    lost_.insert(key);
    answers.push_back(answer(key, worker.rank, KeyAnswers::Kind::kLost));
    if (moves_it) answer_line(key, answers);
    return absl::OkStatus();
  }
  set_place(key, others->second.front());
  others->second.pop_front();
  set_mover(key, worker);
  answers.push_back(answer(key, worker.rank, KeyAnswers::Kind::kTake));
  return absl::OkStatus();
}

}  // namespace verbena::server
