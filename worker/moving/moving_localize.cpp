// How rows come to this worker's node: it asks the row's home, which gives it the move, and then the owner,
// which hands over; it copies the row, and tells the home (docs/allocation.md).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "protocol/prefetch.hpp"
#include "transport/word_copy.hpp"
#include "worker/moving/moving_table.hpp"

namespace verbena::worker {

using protocol::Key;
using protocol::KeyAnswers;
using protocol::KeyRequests;
using protocol::SlotHeader;

namespace {

double seconds_between(transport::TimePoint from, transport::TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

void MovingTable::begin_localize(Localize& localize) {
  for (std::size_t i = 0; i < localize.keys.size(); ++i) {
    if (i + protocol::kKeysAhead < localize.keys.size())
      prefetch_presence(localize.keys[i + protocol::kKeysAhead]);
    const Key key = localize.keys[i];
    if (own_ != nullptr && seems_near(key) && !lost_.contains(key)) continue;
    const auto [mover, begins] = moving_.try_emplace(key, Mover{&localize, localize.moves.size()});
    if (begins) {
      localize.add_move(key);
    } else if (mover->second.operation != &localize) {
      (mover->second.operation->intends ? localize.awaited_intents : localize.awaited_moves).push_back(key);
    }
  }
  if (!localize.moves.empty()) localize.asked_at = session_.now();
}

bool MovingTable::step_localize(Localize& localize) {
  if (has_dead_) do_without_dead(localize);
  if (localize.batch && localize.batch->number == 0) {
    localize.awaited = nodes_[localize.moves[localize.batch->moves.front()].from].link;
    if (!localize.reads.post()) return false;
    end_copying(localize);
  } else if (localize.seen_news == news_) {
    return false;
  }
  localize.awaited = nullptr;
  localize.seen_news = news_;
  if (localize.batch && localize.batch->number != 0 && !localize.batch->sent) {
    Localize::Batch& batch = *localize.batch;
    const std::size_t bytes =
        sizeof(protocol::BulkHeader) + batch.moves.size() * protocol::record_bytes(slot_bytes_);
    batch.sent =
        session_.try_send(*nodes_[node_].link, batch.memory.bytes.first(bytes), *batch.memory.region);
    if (!batch.sent) localize.seen_news = 0;
  }
  if (!localize.batch) begin_copying(localize);
  send_requests(localize, Phase::kInstalled, Phase::kDone,
                counts_intents(localize) ? KeyRequests::Kind::kSettled : KeyRequests::Kind::kArrived);
  send_requests(localize, Phase::kKept, Phase::kDone, KeyRequests::Kind::kKept);
  // Some of what an intent was to bring has not come.
  const auto ended = [&](Key key) {
    if (moving_.contains(key)) return false;
    if (!is_near(key)) {
      moving_[key] = {&localize, localize.moves.size()};
      localize.add_move(key);
    }
    return true;
  };
  std::erase_if(localize.awaited_intents, ended);
  send_requests(localize, Phase::kAsk, Phase::kAsking,
                localize.intends ? KeyRequests::Kind::kIntend : KeyRequests::Kind::kLocalize);
  send_requests(localize, Phase::kTake, Phase::kTaking, KeyRequests::Kind::kHandOver);
  send_requests(localize, Phase::kTake, Phase::kTaking, KeyRequests::Kind::kYield);
  send_requests(localize, Phase::kNotThere, Phase::kAsking, KeyRequests::Kind::kMissing);
  std::erase_if(localize.awaited_moves, [&](Key key) {
    if (moving_.contains(key)) return false;
    if (!note_if_lost(localize, key) && nodes_[home(key)].is_dead && !is_near(key) && localize.status.ok())
      localize.status = homeless(key);
    return true;
  });
  if (localize.has_moves_left() || !localize.awaited_moves.empty() || !localize.awaited_intents.empty())
    return false;
  // Once this has ended nobody may look at the session for long: the homes must have been told.
  const bool told = std::all_of(nodes_.begin(), nodes_.end(),
                                [](const Node& node) { return node.is_dead || node.link->control.empty(); });
  if (!told) localize.seen_news = 0;
  // Another has brought it, so that no move's end has said so.
  if (told && localize.fetches && localize.moves.empty()) fetched_.erase(localize.keys[0]);
  if (!told || localize.moves.empty()) return told;
  const double seconds = seconds_between(localize.asked_at, session_.now());
  if (localize.intends) lead_.add_coming(seconds);
  if (localize.brings) session_.counters().move_times.add(seconds);
  return told;
}

/// The next rows that have been handed over, as many as go into one message.
void MovingTable::begin_copying(Localize& localize) {
  if (!localize.has_moves_in(Phase::kTaken)) return;
  const ServerLink& own_link = *nodes_[node_].link;
  const std::size_t record_bytes = protocol::record_bytes(slot_bytes_);
  const std::size_t most = records_a_message(own_link, record_bytes);
  std::vector<std::size_t> moves;
  for (std::size_t i = 0; i < localize.moves.size() && moves.size() < most; ++i) {
    Move& move = localize.moves[i];
    if (move.phase != Phase::kTaken) continue;
    const std::byte* const mapped = nodes_[move.from].mapped;
    if (own_ != nullptr && mapped != nullptr) {
      const std::byte* const slot = mapped + protocol::slot_offset(move.key, slot_bytes_);
      install(localize, move, protocol::slot_values(slot));
    } else {
      moves.push_back(i);
    }
  }
  if (moves.empty()) return;
  const std::optional<LocalSpan> memory =
      take_staging(sizeof(protocol::BulkHeader) + moves.size() * record_bytes);
  if (!memory) return;
  for (std::size_t i = 0; i < moves.size(); ++i) {
    Move& move = localize.moves[moves[i]];
    localize.enter(move, Phase::kCopying);
    add_slot_read(localize, move.from, move.key, {copied_slot(*memory, i), slot_bytes_}, *memory);
  }
  localize.batch = {.memory = *memory, .moves = std::move(moves), .number = 0, .sent = false};
  localize.awaited = nodes_[localize.moves[localize.batch->moves.front()].from].link;
  localize.reads.post();
}

/// Where the i-th row of a batch is read to: one after the other, so that one read brings many; or where the
/// message to this node's server has it.
std::byte* MovingTable::copied_slot(const LocalSpan& memory, std::size_t i) const {
  if (own_ != nullptr) return memory.bytes.data() + i * slot_bytes_;
  return memory.bytes.data() + sizeof(protocol::BulkHeader) + i * protocol::record_bytes(slot_bytes_) +
         sizeof(Key);
}

/// The rows that were handed over are here: into this node's slots, or to its server, which puts them there.
void MovingTable::end_copying(Localize& localize) {
  Localize::Batch& batch = *localize.batch;
  const std::size_t record_bytes = protocol::record_bytes(slot_bytes_);
  std::byte* record = batch.memory.bytes.data() + sizeof(protocol::BulkHeader);
  for (std::size_t i = 0; i < batch.moves.size(); ++i) {
    Move& move = localize.moves[batch.moves[i]];
    const std::byte* const from = copied_slot(batch.memory, i);
    if (nodes_[move.from].is_dead) {
      localize.enter(move, Phase::kNotThere);
      ++news_;
      continue;
    }
    if (own_ != nullptr) {
      install(localize, move, protocol::slot_values(from));
      continue;
    }
    const std::uint64_t header = SlotHeader::owned(move.epoch + 1).bits();
    std::memmove(record + sizeof(Key), from, slot_bytes_);
    std::memcpy(record, &move.key, sizeof move.key);
    std::memcpy(record + sizeof(Key), &header, sizeof header);
    record += record_bytes;
  }
  std::erase_if(batch.moves,
                [&](std::size_t index) { return localize.moves[index].phase == Phase::kNotThere; });
  if (own_ != nullptr || batch.moves.empty()) {
    session_.give_staging(batch.memory);
    localize.batch.reset();
    return;
  }
  batch.number = ++messages_made_;
  installs_[batch.number] = &localize;
  ++nodes_[node_].link->open_requests;
  const protocol::BulkHeader header{.kind = protocol::BulkKind::kInstall,
                                    .table = number_,
                                    .count = static_cast<std::uint32_t>(batch.moves.size()),
                                    .applied = batch.number};
  std::memcpy(batch.memory.bytes.data(), &header, sizeof header);
}

/// Nobody but this worker changes the slot: it does not own yet, and the home has given this worker the move.
void MovingTable::install(Localize& localize, Move& move, const std::byte* values) {
  const protocol::Slot slot = own_slot(move.key);
  if (move.from != node_) {  // else a row in doubt, which has been here all the time
    transport::copy_words(reinterpret_cast<std::uint64_t*>(protocol::slot_values(slot)),
                          reinterpret_cast<const std::uint64_t*>(values),
                          stride_bytes_ / sizeof(std::uint64_t));
  }
  protocol::store_header(slot, SlotHeader::owned(move.epoch + 1));
  presence_.store(move.key, protocol::Presence::here(move.epoch + 1, localize.intends ? 1 : 0));
  is_installed(localize, move);
}

void MovingTable::is_installed(Localize& localize, Move& move) {
  localize.enter(move, Phase::kInstalled);
  locations_[move.key] = {.node = node_, .epoch = move.epoch + 1};
  ++news_;
}

/// Of its rows, that is, when they have come.
bool MovingTable::counts_intents(const Localize& localize) const {
  return localize.intends && own_ != nullptr;
}

/// The owner may keep the row, unless that is this worker's own node: then it is a row in doubt.
bool MovingTable::yields(const Localize& localize, const Move& move) const {
  return localize.intends && move.from != node_;
}

void MovingTable::send_requests(Localize& localize, Phase from, Phase to, KeyRequests::Kind kind) {
  if (!localize.has_moves_in(from)) return;
  struct Requests {
    std::vector<KeyRequests::Row> rows;
    std::vector<std::size_t> moves;  ///< by row
  };
  std::vector<Requests> for_server(nodes_.size());
  const bool is_to_owner = kind == KeyRequests::Kind::kHandOver || kind == KeyRequests::Kind::kYield;
  const bool tells_epoch =
      is_to_owner || kind == KeyRequests::Kind::kMissing || kind == KeyRequests::Kind::kKept;
  const bool has_arrived = kind == KeyRequests::Kind::kArrived || kind == KeyRequests::Kind::kSettled;
  for (std::size_t i = 0; i < localize.moves.size(); ++i) {
    const Move& move = localize.moves[i];
    if (move.phase != from || (from == Phase::kInstalled && fetched_.contains(move.key)) ||
        (from == Phase::kTake && yields(localize, move) != (kind == KeyRequests::Kind::kYield))) {
      continue;
    }
    const std::uint64_t epoch = tells_epoch ? move.epoch : has_arrived ? move.epoch + 1 : 0;
    Requests& requests = for_server[is_to_owner ? move.from : home(move.key)];
    requests.rows.push_back({.key = move.key, .epoch = epoch});
    requests.moves.push_back(i);
  }
  for (std::uint32_t server = 0; server < nodes_.size(); ++server) {
    const auto& [rows, moves] = for_server[server];
    // An intent that begins anew comes after the end of the one before.
    if (kind == KeyRequests::Kind::kIntend && !rows.empty() && !nodes_[server].done.empty()) {
      localize.seen_news = 0;
      continue;
    }
    for (std::size_t sent = 0; sent < rows.size();) {
      const std::size_t some = send_some(nodes_[server], kind, std::span(rows).subspan(sent));
      if (some == 0) {
        localize.seen_news = 0;  // again at the next poll
        break;
      }
      for (const std::size_t index : std::span(moves).subspan(sent, some)) {
        Move& move = localize.moves[index];
        localize.enter(move, to);
        if (from == Phase::kInstalled) arrive(localize, move);
        if (from == Phase::kKept) end_shared(localize, move);
      }
      sent += some;
    }
  }
}

void MovingTable::arrive(Localize& localize, Move& move) {
  localize.brings = true;
  ++(localize.intends ? session_.counters().rows_moved_by_intent : session_.counters().rows_localized);
  end_move(localize, move, move.epoch + 1);
  if (counts_intents(localize)) {
    intended_[move.key] = {.state = Intended::State::kCounted,
                           .since = protocol::Presence::here(move.epoch + 1, 0).since()};
  }
}

void MovingTable::end_move(Localize& localize, Move& move, std::uint64_t epoch) {
  localize.enter(move, Phase::kDone);
  fetched_.erase(move.key);  // where it was here already, and may be gone again
  locations_[move.key] = {.node = node_, .epoch = epoch};
  if (const auto intended = intended_.find(move.key); intended != intended_.end()) {
    Intended& known = intended->second;
    if (known.state != Intended::State::kCounted) {
      known.state = Intended::State::kHere;
    } else if (known.since != protocol::Presence::here(epoch, 0).since()) {
      known.since = presence_.begin_intent(move.key).value_or(known.since);  // it had left, and is back
    }
  }
  if (replicas_.find(move.key) != nullptr) arrived_.push_back(move.key);
  moving_.erase(move.key);
  ++news_;
}

absl::Status MovingTable::on_move_answer(const KeyAnswers::Answer& answer) {
  const auto mover = moving_.find(answer.key);
  if (mover == moving_.end())
    return absl::InvalidArgumentError(fmt::format("moves key {}, which nobody asked", answer.key));
  Localize& localize = *mover->second.operation;
  Move& move = localize.moves[mover->second.index];
  if (answer.kind == KeyAnswers::Kind::kRefused && move.phase == Phase::kTaking) {
    localize.enter(move, Phase::kNotThere);
    return absl::OkStatus();
  }
  if (answer.kind == KeyAnswers::Kind::kHere && move.phase == Phase::kAsking && answer.node == node_) {
    if (is_not_here(answer)) {
      move.epoch = answer.epoch;
      localize.enter(move, Phase::kNotThere);
    } else {
      end_move(localize, move, answer.epoch);
      if (localize.intends) begin_counted_intent(move.key);
    }
    return absl::OkStatus();
  }
  if (answer.kind == KeyAnswers::Kind::kShared && move.phase == Phase::kAsking && localize.intends &&
      answer.node != node_) {
    move.from = answer.node;
    move.epoch = answer.epoch;
    end_shared(localize, move);
    return absl::OkStatus();
  }
  const bool is_granted = move.phase == Phase::kAsking;
  const bool is_handed_over =
      move.phase == Phase::kTaking && answer.node == move.from && answer.epoch == move.epoch;
  if (answer.epoch < SlotHeader::kMaxEpoch && is_granted &&
      (answer.kind == KeyAnswers::Kind::kTake || answer.kind == KeyAnswers::Kind::kTaken)) {
    move.from = answer.node;
    move.epoch = answer.epoch;
    localize.enter(move, answer.kind == KeyAnswers::Kind::kTake ? Phase::kTake : Phase::kTaken);
    return absl::OkStatus();
  }
  if (is_handed_over && answer.kind == KeyAnswers::Kind::kTaken) {
    localize.enter(move, Phase::kTaken);
    return absl::OkStatus();
  }
  if (is_handed_over && answer.kind == KeyAnswers::Kind::kKept && yields(localize, move)) {
    localize.enter(move, Phase::kKept);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format("answered out of turn, with kind {} about key {}",
                                                static_cast<std::uint32_t>(answer.kind), answer.key));
}

}  // namespace verbena::worker
