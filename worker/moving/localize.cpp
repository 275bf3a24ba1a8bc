#include "worker/moving/localize.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/prefetch.hpp"
#include "worker/moving/moving_rows.hpp"

namespace verbena::worker {

using protocol::KeyAnswers;
using protocol::KeyRequests;
using protocol::SlotHeader;

namespace {

double seconds_between(transport::TimePoint from, transport::TimePoint to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

Localize::Localize(MovingRows& rows, Why why)
    : MovingOperation(rows, why == Why::kIntent ? "intent" : "localize"), why_(why) {}

void Localize::add_move(Key key) {
  if (moves_.empty()) asked_at_ = rows_.session.now();
  moves_.push_back({.key = key});
  ++moves_in_[static_cast<std::size_t>(Phase::kAsk)];
}

void Localize::begin(const Keys& all) {
  set_keys(all);
  if (rows_.are_always_here()) return;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + base::kKeysAhead < keys.size()) rows_.prefetch_presence(keys[i + base::kKeysAhead]);
    const Key key = keys[i];
    if (rows_.own.is_mapped() && rows_.seems_near(key) && rows_.lost(key) == nullptr) continue;
    const auto [mover, begins] = rows_.moving.try_emplace(key, Mover{this, moves_.size()});
    if (begins) {
      add_move(key);
    } else if (mover->second.operation != this) {
      (mover->second.operation->is_intent() ? awaited_intents_ : awaited_moves_).push_back(key);
    }
  }
}

bool Localize::add_intended(Key key) {
  const auto [mover, begins] = rows_.moving.try_emplace(key, Mover{this, moves_.size()});
  if (begins) add_move(key);
  return mover->second.operation == this;
}

void Localize::leave_to_other(std::size_t index) {
  enter(moves_[index], Phase::kDone);
  awaited_moves_.push_back(moves_[index].key);
  rows_.moving.erase(moves_[index].key);
}

bool Localize::do_own() {
  if (rows_.has_dead) do_without_dead();
  if (batch_ && batch_->tag == 0) {
    awaited = rows_.nodes[moves_[batch_->moves.front()].from].link;
    if (!reads.post()) return false;
    end_copying();
  } else if (seen_generation_ == rows_.generation) {
    return false;
  }
  awaited = nullptr;
  seen_generation_ = rows_.generation;
  if (batch_ && batch_->tag != 0 && !batch_->sent) send_install();
  if (!batch_) begin_copying();
  send_requests();
  if (has_moves_left() || !awaited_moves_.empty() || !awaited_intents_.empty()) return false;
  return end_all();
}

void Localize::send_requests() {
  send_requests(Phase::kInstalled, Phase::kDone,
                counts_intents() ? KeyRequests::Kind::kSettled : KeyRequests::Kind::kArrived);
  send_requests(Phase::kKept, Phase::kDone, KeyRequests::Kind::kKept);
  look_after_others_moves();
  send_requests(Phase::kAsk, Phase::kAsking,
                is_intent() ? KeyRequests::Kind::kIntend : KeyRequests::Kind::kLocalize);
  send_requests(Phase::kTake, Phase::kTaking, KeyRequests::Kind::kHandOver);
  send_requests(Phase::kTake, Phase::kTaking, KeyRequests::Kind::kYield);
  send_requests(Phase::kTake, Phase::kTaking, KeyRequests::Kind::kRestore);
  send_requests(Phase::kNotThere, Phase::kAsking, KeyRequests::Kind::kMissing);
}

void Localize::look_after_others_moves() {
  // Some rows that an intent was to bring have not come.
  std::erase_if(awaited_intents_, [&](Key key) {
    if (rows_.moving.contains(key)) return false;
    if (!rows_.is_near(key)) {
      rows_.moving[key] = {this, moves_.size()};
      add_move(key);
    }
    return true;
  });
  std::erase_if(awaited_moves_, [&](Key key) {
    if (rows_.moving.contains(key)) return false;
    note_if_lost(key);
    return true;
  });
}

/// All that is left is to tell the homes: once this operation has ended, it may take long until anybody calls
/// the session again.
bool Localize::end_all() {
  const bool told = std::all_of(rows_.nodes.begin(), rows_.nodes.end(), [](const NodeView& node) {
    return node.is_dead || node.link->control.empty();
  });
  if (!told) {
    seen_generation_ = 0;
    return false;
  }
  if (moves_.empty()) {
    // Another operation has brought the row, so no end of a move has said so.
    if (why_ == Why::kFetch) rows_.directory.end_fetch(keys[0]);
    return true;
  }
  const double seconds = seconds_between(asked_at_, rows_.session.now());
  if (is_intent()) rows_.intents.lead().add_coming(seconds);
  if (brings_) rows_.session.counters().move_times.add(seconds);
  return true;
}

// ---- copying

/// Begins to copy the next rows that have been handed over, as many as go into one message.
void Localize::begin_copying() {
  if (!has_moves_in(Phase::kTaken)) return;
  const std::size_t record_bytes = protocol::record_bytes(rows_.layout.slot_bytes);
  const std::size_t most = rows_.records_a_message(*rows_.nodes[rows_.node].link, record_bytes);
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < moves_.size() && taken.size() < most; ++i) {
    Move& move = moves_[i];
    if (move.phase != Phase::kTaken) continue;
    const std::byte* const mapped = rows_.nodes[move.from].mapped;
    if (rows_.own.is_mapped() && mapped != nullptr) {
      install(move, protocol::slot_values(mapped + protocol::slot_offset(move.key, rows_.layout.slot_bytes)));
    } else {
      taken.push_back(i);
    }
  }
  if (taken.empty()) return;
  const std::optional<LocalSpan> memory =
      rows_.take_staging(protocol::kTaggedRecordsBegin + taken.size() * record_bytes);
  if (!memory) return;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    Move& move = moves_[taken[i]];
    enter(move, Phase::kCopying);
    rows_.add_slot_read(*this, move.from, move.key, {copied_slot(*memory, i), rows_.layout.slot_bytes},
                        *memory);
  }
  batch_ = {.memory = *memory, .moves = std::move(taken), .tag = 0, .sent = false};
  awaited = rows_.nodes[moves_[batch_->moves.front()].from].link;
  reads.post();
}

/// Where the i-th row of a batch is read to. The rows lie one after the other, so that one read brings many;
/// or each lies at its place in the message to this node's server.
std::byte* Localize::copied_slot(const LocalSpan& memory, std::size_t i) const {
  const std::size_t slot_bytes = rows_.layout.slot_bytes;
  if (rows_.own.is_mapped()) return memory.bytes.data() + i * slot_bytes;
  return memory.bytes.data() + protocol::kTaggedRecordsBegin + i * protocol::record_bytes(slot_bytes) +
         sizeof(Key);
}

/// The rows that were handed over have been read. They go into this node's slots, or to its server, which
/// puts them there.
void Localize::end_copying() {
  Batch& batch = *batch_;
  std::byte* record = batch.memory.bytes.data() + protocol::kTaggedRecordsBegin;
  for (std::size_t i = 0; i < batch.moves.size(); ++i) {
    Move& move = moves_[batch.moves[i]];
    const std::byte* const slot = copied_slot(batch.memory, i);
    if (rows_.nodes[move.from].is_dead) {
      enter(move, Phase::kNotThere);
      ++rows_.generation;
    } else if (rows_.own.is_mapped()) {
      install(move, protocol::slot_values(slot));
    } else {
      record = make_record(record, move, slot);
    }
  }
  std::erase_if(batch.moves, [&](std::size_t index) { return moves_[index].phase == Phase::kNotThere; });
  if (rows_.own.is_mapped() || batch.moves.empty()) {
    rows_.session.staging().give(batch.memory);
    batch_.reset();
    return;
  }
  batch.tag = rows_.tag_message(*this);
  ++rows_.nodes[rows_.node].link->open_requests;
  const protocol::BulkHeader header{.kind = protocol::BulkKind::kInstall,
                                    .table = rows_.table,
                                    .count = static_cast<std::uint32_t>(batch.moves.size())};
  std::memcpy(batch.memory.bytes.data(), &header, sizeof header);
  std::memcpy(batch.memory.bytes.data() + sizeof header, &batch.tag, sizeof batch.tag);
}

std::byte* Localize::make_record(std::byte* record, const Move& move, const std::byte* slot) const {
  const std::uint64_t header = SlotHeader::owned(move.epoch + 1).bits();
  std::memmove(record + sizeof(Key), slot, rows_.layout.slot_bytes);
  std::memcpy(record, &move.key, sizeof move.key);
  std::memcpy(record + sizeof(Key), &header, sizeof header);
  return record + protocol::record_bytes(rows_.layout.slot_bytes);
}

void Localize::send_install() {
  const std::size_t bytes =
      protocol::kTaggedRecordsBegin + batch_->moves.size() * protocol::record_bytes(rows_.layout.slot_bytes);
  batch_->sent = rows_.session.try_send(*rows_.nodes[rows_.node].link, batch_->memory.bytes.first(bytes),
                                        *batch_->memory.region);
  if (!batch_->sent) seen_generation_ = 0;
}

absl::Status Localize::on_installed(ServerLink& link) {
  if (!batch_ || !batch_->sent || link.server != rows_.node || link.open_requests == 0)
    return absl::InvalidArgumentError("says that rows are installed which it was not sent");
  for (const std::size_t index : batch_->moves) on_installed(moves_[index]);
  rows_.session.staging().give(batch_->memory);
  rows_.end_message(batch_->tag);
  batch_.reset();
  --link.open_requests;
  return absl::OkStatus();
}

void Localize::install(Move& move, const std::byte* slot_values) {
  const bool is_in_doubt = move.from == rows_.node;  // the row has been here all the time
  rows_.own.install(move.key, is_in_doubt ? nullptr : slot_values, move.epoch + 1, is_intent() ? 1 : 0);
  on_installed(move);
}

void Localize::on_installed(Move& move) {
  enter(move, Phase::kInstalled);
  rows_.directory.set(move.key, {.node = rows_.node, .epoch = move.epoch + 1});
  ++rows_.generation;
}

// ---- asking and telling

bool Localize::counts_intents() const {
  return is_intent() && rows_.own.is_mapped();
}

bool Localize::yields(const Move& move) const {
  return is_intent() && move.from != rows_.node && !move.is_image;
}

KeyRequests::Kind Localize::taking(const Move& move) const {
  if (move.is_image) return KeyRequests::Kind::kRestore;
  return yields(move) ? KeyRequests::Kind::kYield : KeyRequests::Kind::kHandOver;
}

void Localize::send_requests(Phase from, Phase to, KeyRequests::Kind kind) {
  if (!has_moves_in(from)) return;
  struct Requests {
    std::vector<KeyRequests::Row> rows;
    std::vector<std::size_t> moves;  ///< by row
  };
  std::vector<Requests> for_server(rows_.nodes.size());
  const bool is_to_owner = from == Phase::kTake;
  const bool tells_epoch =
      is_to_owner || kind == KeyRequests::Kind::kMissing || kind == KeyRequests::Kind::kKept;
  const bool has_arrived = kind == KeyRequests::Kind::kArrived || kind == KeyRequests::Kind::kSettled;
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    const Move& move = moves_[i];
    if (move.phase != from || (from == Phase::kInstalled && rows_.directory.is_fetched(move.key)) ||
        (from == Phase::kTake && taking(move) != kind)) {
      continue;
    }
    const std::uint64_t epoch = tells_epoch ? move.epoch : has_arrived ? move.epoch + 1 : 0;
    const std::uint32_t home = from == Phase::kAsk ? rows_.directory.home(move.key) : move.home;
    Requests& requests = for_server[is_to_owner ? move.from : home];
    requests.rows.push_back({.key = move.key, .epoch = epoch});
    requests.moves.push_back(i);
  }
  for (std::uint32_t server = 0; server < for_server.size(); ++server) {
    const auto& [rows, indices] = for_server[server];
    if (rows.empty()) continue;
    // An intent that begins anew must come after the end of the one before.
    if (kind == KeyRequests::Kind::kIntend && !rows_.requests.is_empty(server, KeyRequests::Kind::kDone)) {
      seen_generation_ = 0;
      continue;
    }
    for (std::size_t sent = 0; sent < rows.size();) {
      const std::size_t some = rows_.send_some(server, kind, std::span(rows).subspan(sent));
      if (some == 0) {
        seen_generation_ = 0;  // again at the next poll
        break;
      }
      for (const std::size_t index : std::span(indices).subspan(sent, some)) on_sent(moves_[index], from, to);
      sent += some;
    }
  }
}

void Localize::on_sent(Move& move, Phase from, Phase to) {
  if (from == Phase::kAsk) move.home = rows_.directory.home(move.key);
  enter(move, to);
  if (from == Phase::kInstalled) arrive(move);
  if (from == Phase::kKept) end_shared(move);
}

absl::Status Localize::on_answer(std::size_t index, std::uint32_t server, const KeyAnswers::Answer& answer) {
  Move& move = moves_[index];
  const bool is_asking = move.phase == Phase::kAsking && server == move.home;
  const bool is_taking = move.phase == Phase::kTaking && server == move.from;
  const Location at = {.node = answer.node, .epoch = answer.epoch};
  const bool is_of_owner = is_taking && at == Location{.node = move.from, .epoch = move.epoch};
  switch (answer.kind) {
    case KeyAnswers::Kind::kRefused:
      if (!is_taking) break;
      enter(move, Phase::kNotThere);
      return absl::OkStatus();
    case KeyAnswers::Kind::kHere:
      if (!is_asking || at.node != rows_.node) break;
      if (rows_.directory.is_fetched(move.key) && rows_.directory.is_known_not_to_be(move.key, at)) {
        move.epoch = at.epoch;
        enter(move, Phase::kNotThere);
      } else {
        end_move(move, at.epoch);
        if (is_intent()) rows_.intents.count(move.key);
      }
      return absl::OkStatus();
    case KeyAnswers::Kind::kShared:
      if (!is_asking || !is_intent() || at.node == rows_.node) break;
      move.from = at.node;
      move.epoch = at.epoch;
      end_shared(move);
      return absl::OkStatus();
    case KeyAnswers::Kind::kTake:
    case KeyAnswers::Kind::kImage:
    case KeyAnswers::Kind::kTaken:
      if (is_of_owner && answer.kind == KeyAnswers::Kind::kTaken) {
        enter(move, Phase::kTaken);
        return absl::OkStatus();
      }
      if (!is_asking || at.epoch >= SlotHeader::kMaxEpoch) break;
      move.from = at.node;
      move.epoch = at.epoch;
      move.is_image = answer.kind == KeyAnswers::Kind::kImage;
      enter(move, answer.kind == KeyAnswers::Kind::kTaken ? Phase::kTaken : Phase::kTake);
      return absl::OkStatus();
    case KeyAnswers::Kind::kKept:
      if (!is_of_owner || !yields(move)) break;
      enter(move, Phase::kKept);
      return absl::OkStatus();
    default:
      break;
  }
  return absl::InvalidArgumentError(fmt::format("answered out of turn, with kind {} about key {}",
                                                static_cast<std::uint32_t>(answer.kind), answer.key));
}

// ---- the end of a move

void Localize::arrive(Move& move) {
  brings_ = true;
  SessionStatistics& counters = rows_.session.counters();
  if (move.is_image) ++counters.rows_restored;
  ++(is_intent() ? counters.rows_moved_by_intent : counters.rows_localized);
  end_move(move, move.epoch + 1);
  if (counts_intents()) rows_.intents.told().set_counted(move.key, move.epoch + 1);
}

void Localize::end_move(Move& move, std::uint64_t epoch) {
  enter(move, Phase::kDone);
  rows_.directory.end_fetch(move.key);  // if it was here already, and may be gone again
  rows_.directory.set(move.key, {.node = rows_.node, .epoch = epoch});
  rows_.intents.told().on_here(move.key, epoch);
  rows_.replication.note_arrived(move.key);
  rows_.moving.erase(move.key);
  ++rows_.generation;
}

/// Other nodes use the row, too: it stays where it is.
void Localize::end_shared(Move& move) {
  enter(move, Phase::kDone);
  rows_.directory.set(move.key, {.node = move.from, .epoch = move.epoch});
  rows_.moving.erase(move.key);
  ++rows_.generation;
  rows_.intents.on_shared(move.key);
}

void Localize::give_up(std::size_t index, const absl::Status& why) {
  give_up(moves_[index], why);
}

void Localize::give_up(Move& move, const absl::Status& why) {
  enter(move, Phase::kDone);
  rows_.directory.end_fetch(move.key);
  rows_.intents.told().on_not_coming(move.key);
  if (!is_intent() && status.ok()) status = why;
  rows_.moving.erase(move.key);
  ++rows_.generation;
}

/// Handles what servers were to do that are dead now.
void Localize::do_without_dead() {
  for (Move& move : moves_) {
    const bool is_from_owner =
        move.phase == Phase::kTake || move.phase == Phase::kTaking || move.phase == Phase::kTaken;
    if (is_from_owner && rows_.nodes[move.from].is_dead) enter(move, Phase::kNotThere);
    if (is_of_dead_home(move)) do_without_home(move);
  }
}

/// The home was asked, or has let the row move, and is dead. What it has let move comes; its heir finds that
/// out by itself. What is left to ask is asked of the heir, as if nobody had been asked before.
void Localize::do_without_home(Move& move) {
  switch (move.phase) {
    case Phase::kAsking:
    case Phase::kTake:
    case Phase::kNotThere:
    case Phase::kKept:
      enter(move, Phase::kAsk);
      ++rows_.generation;
      break;
    case Phase::kInstalled:
      // The heir must hear of this intent, unless it is counted here.
      if (is_intent() && !counts_intents()) rows_.intents.forget(move.key);
      arrive(move);
      break;
    case Phase::kAsk:
    case Phase::kTaking:
    case Phase::kTaken:
    case Phase::kCopying:
    case Phase::kDone:
      break;
  }
}

bool Localize::is_of_dead_home(const Move& move) const {
  return move.phase != Phase::kAsk && move.phase != Phase::kDone && rows_.nodes[move.home].is_dead;
}

bool Localize::has_moves_of_dead_homes() const {
  return std::any_of(moves_.begin(), moves_.end(), [&](const Move& move) { return is_of_dead_home(move); });
}

}  // namespace verbena::worker
