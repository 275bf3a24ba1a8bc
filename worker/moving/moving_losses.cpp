// What becomes of rows, and of operations on them, when a node dies and the session goes on without it. Lost
// are the rows that lay there, those that were on their way through the hands of the dead, and those that
// only their home could have told the place of.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "worker/moving/moving_table.hpp"

namespace verbena::worker {

using protocol::Key;
using protocol::KeyAnswers;

void MovingTable::lose_row(Key key, const absl::Status& why) {
  if (!lost_.try_emplace(key, why).second) return;
  mark(key);
  chased_.erase(key);
  fetched_.erase(key);
  ++news_;
}

absl::Status MovingTable::lost_with(Key key, std::uint32_t node) const {
  return absl::DataLossError(
      fmt::format("row {} of table \"{}\" was lost with node {}", key, options_.name, node));
}

absl::Status MovingTable::homeless(Key key) const {
  return absl::UnavailableError(
      fmt::format("row {} of table \"{}\" cannot be found or moved: {}, its home, is gone", key,
                  options_.name, nodes_[home(key)].link->connection->peer_name()));
}

bool MovingTable::note_if_lost(MovingOperation& operation, Key key) const {
  if (lost_.empty() || !lost_.contains(key)) return false;
  if (operation.status.ok()) operation.status = lost_.at(key);
  return true;
}

absl::Status MovingTable::on_lost(const KeyAnswers::Answer& answer) {
  const auto mover = moving_.find(answer.key);
  Localize* const localize = mover == moving_.end() ? nullptr : mover->second.operation;
  Move* const move = localize == nullptr ? nullptr : &localize->moves[mover->second.index];
  const bool was_asked = move != nullptr && move->phase == Phase::kAsking;
  if (!was_asked && locating_.erase(answer.key) == 0)
    return absl::InvalidArgumentError(
        fmt::format("told that key {} is lost, which nobody asked", answer.key));
  lose_row(answer.key, lost_with(answer.key, answer.node));
  if (was_asked) give_up_move(*localize, *move, lost_.at(answer.key));
  return absl::OkStatus();
}

void MovingTable::on_dead_server(std::uint32_t server) {
  Node& node = nodes_[server];
  node.is_dead = has_dead_ = true;
  node.mapped = nullptr;
  node.to_locate.clear();
  node.done.clear();
  node.released.clear();
  std::vector<Key> unknown;
  for (const Key key : locating_) {
    if (home(key) == server) unknown.push_back(key);
  }
  std::sort(unknown.begin(), unknown.end());
  for (const Key key : unknown) {
    locating_.erase(key);
    if (!is_coming(key)) lose_row(key, homeless(key));
  }
  ++news_;
}

void MovingTable::forget_messages(MovingPush& push, std::uint32_t server) {
  for (auto message = push.messages.begin(); message != push.messages.end();) {
    if (message->node != server) {
      ++message;
      continue;
    }
    for (std::size_t record = 0; record < message->indices.size(); ++record) {
      const std::size_t index = message->indices[record];
      const bool was_refused =
          std::find(message->moved.begin(), message->moved.end(), record) != message->moved.end();
      if (was_refused || !message->sent) {
        push.todo.push_back(index);
        continue;
      }
      // Whatever has become of it, later updates of this worker must not come without it, nor be read without
      // it.
      lose_row(push.keys[index],
               absl::UnavailableError(fmt::format(
                   "row {} of table \"{}\" may or may not have got an update: {} is gone", push.keys[index],
                   options_.name, nodes_[server].link->connection->peer_name())));
      note_if_lost(push, push.keys[index]);
      end_push(push, index);
    }
    pushes_.erase(message->number);
    // What was sent the device may still read.
    if (!message->sent) session_.give_staging(message->memory);
    message = push.messages.erase(message);
  }
}

void MovingTable::give_up_move(Localize& localize, Move& move, const absl::Status& why) {
  localize.enter(move, Phase::kDone);
  fetched_.erase(move.key);
  // The home knows of the intent, and is to be told when it is over.
  if (const auto intended = intended_.find(move.key);
      intended != intended_.end() && intended->second.state != Intended::State::kCounted) {
    intended->second.state = Intended::State::kShared;
  }
  if (!localize.intends && localize.status.ok()) localize.status = why;
  moving_.erase(move.key);
  ++news_;
}

/// What was for a server to do that is gone.
void MovingTable::do_without_dead(Localize& localize) {
  for (Move& move : localize.moves) {
    const bool is_from_owner =
        move.phase == Phase::kTake || move.phase == Phase::kTaking || move.phase == Phase::kTaken;
    if (is_from_owner && nodes_[move.from].is_dead) localize.enter(move, Phase::kNotThere);
    if (!nodes_[home(move.key)].is_dead) continue;
    if (move.phase == Phase::kNotThere) lose_row(move.key, homeless(move.key));
    switch (move.phase) {
      case Phase::kAsk:
      case Phase::kAsking:
      case Phase::kTake:
      case Phase::kNotThere:
      case Phase::kKept:
        give_up_move(localize, move, homeless(move.key));
        break;
      case Phase::kInstalled:
        // Nobody else can be told; the workers of this node see it.
        arrive(localize, move);
        break;
      case Phase::kTaking:
      case Phase::kTaken:
      case Phase::kCopying:
      case Phase::kDone:
        break;
    }
  }
}

void MovingTable::drop_lost_replica(Key key) {
  Replica* const replica = replicas_.find(key);
  if (replica == nullptr) return;
  if (replica->is_dirty) session_.note_lost(lost_.at(key));
  replicas_.erase(key);
  unmark_if_plain(key);
  ++news_;
}

}  // namespace verbena::worker
