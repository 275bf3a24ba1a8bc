#include "worker/moving/moving_push.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "worker/moving/moving_rows.hpp"

namespace verbena::worker {

using protocol::LockResult;

namespace {

/// How long to wait for a row's lock on this node. After that the server, which knows whether the holder is
/// alive, is asked to apply the update.
constexpr auto kLockPatience = std::chrono::milliseconds(100);

}  // namespace

MovingPush::MovingPush(MovingRows& rows, const Keys& all, std::size_t next, const std::byte* updates,
                       Waits waits)
    : MovingOperation(rows, "push"),
      updates_(updates),
      waits_(waits),
      begun_at_(rows.session.current_clock()) {
  set_keys(all);
  for (std::size_t index = next; index < keys.size(); ++index) todo_.push_back(index);
}

MovingPush::MovingPush(MovingRows& rows, std::vector<Key> replicas, std::vector<std::byte> updates)
    : MovingOperation(rows, "push of replicas' updates"),
      of_replicas_(std::move(updates)),
      is_of_replicas_(true),
      waits_(Waits::kNobody),
      begun_at_(rows.session.current_clock()) {
  set_keys(std::move(replicas));
  updates_ = of_replicas_.data();
  for (std::size_t index = 0; index < keys.size(); ++index) todo_.push_back(index);
}

void MovingPush::begin() {
  if (!is_of_replicas_ && !rows_.replication.empty()) {
    std::erase_if(todo_,
                  [&](std::size_t index) { return rows_.replication.push(keys[index], update(index)); });
  }
  for (const std::size_t index : todo_) {
    rows_.pushed.add(keys[index], {this, index});
    rows_.marked.insert(keys[index]);
  }
  if (waits_ != Waits::kCaller) ++rows_.pushes_under_way;
}

void MovingPush::let_caller_go() {
  if (waits_ == Waits::kCaller) return;
  const std::byte* const theirs = std::exchange(updates_, nullptr);
  kept_.reserve(todo_.size() * rows_.layout.row_bytes);
  for (const std::size_t index : todo_) keep(index, theirs + index * rows_.layout.row_bytes);
}

/// Of a row that is to be looked at again, where the update will not be much longer at `update`.
void MovingPush::keep(std::size_t index, const std::byte* update) {
  if (updates_ != nullptr) return;
  if (kept_at_.empty()) kept_at_.resize(keys.size(), kNotKept);
  if (kept_at_[index] != kNotKept) return;
  kept_at_[index] = kept_.size();
  kept_.insert(kept_.end(), update, update + rows_.layout.row_bytes);
}

const std::byte* MovingPush::update(std::size_t index) const {
  return updates_ == nullptr ? kept_.data() + kept_at_[index] : updates_ + index * rows_.layout.row_bytes;
}

const std::byte* MovingPush::update_in(const Message& message, std::size_t record) const {
  return protocol::record_values(message.memory.bytes.subspan(protocol::kTaggedRecordsBegin),
                                 rows_.layout.stride_bytes, record);
}

void MovingPush::end(std::size_t index) {
  if (rows_.pushed.end_first(keys[index])) rows_.unmark_if_plain(keys[index]);
  ++rows_.generation;
}

bool MovingPush::do_own() {
  for (Message& message : messages_) {
    if (!message.sent) send(message);
  }
  // When an update is applied here, the next update of the same row can go.
  while (seen_generation_ != rows_.generation && !step_again) {
    seen_generation_ = rows_.generation;
    push_all();
  }
  if (step_again) seen_generation_ = 0;
  if (!messages_.empty()) awaited = rows_.nodes[messages_.front().node].link;
  if (!messages_.empty() || !todo_.empty()) return false;
  if (waits_ != Waits::kCaller) {
    --rows_.pushes_under_way;
    rows_.session.note_lost(status);
  }
  return true;
}

void MovingPush::push_all() {
  Indices left;
  std::vector<Indices> for_node(rows_.nodes.size());
  is_busy_ = false;
  is_impatient_ = busy_since_ && rows_.session.now() - *busy_since_ > kLockPatience;
  for (const std::size_t index : todo_) push_one(index, for_node, left);
  todo_ = std::move(left);
  if (!is_busy_) {
    busy_since_.reset();
  } else if (!busy_since_) {
    busy_since_ = rows_.session.now();
  }
  for (std::uint32_t node = 0; node < for_node.size(); ++node) {
    while (!for_node[node].empty()) make_message(node, for_node[node]);
  }
}

/// Waits for a row's lock only until the first one that is not given back: the others may be held together
/// with it, for a whole mini-batch.
LockResult MovingPush::push_here(Key key, const std::byte* update) const {
  if (!rows_.own.is_mapped()) return LockResult::kNotOwned;
  return is_busy_ ? rows_.own.try_push(key, update) : rows_.own.push(key, update);
}

void MovingPush::push_one(std::size_t index, std::vector<Indices>& for_node, Indices& left) {
  const Key key = keys[index];
  if (!rows_.pushed.is_first(key, {this, index})) {
    left.push_back(index);
    return;
  }
  if (note_if_lost(key)) {
    end(index);
    return;
  }
  const LockResult here = push_here(key, update(index));
  if (here == LockResult::kLocked) {
    ++rows_.session.counters().rows_pushed_locally;
    rows_.reached(key);
    end(index);
    return;
  }
  if (here == LockResult::kBusy) {
    is_busy_ = true;
    step_again |= !is_impatient_;
    (is_impatient_ ? for_node[rows_.node] : left).push_back(index);
    return;
  }
  const Location at = rows_.directory.location(key);
  const bool is_at_dead = rows_.nodes[at.node].is_dead;
  if ((at.node == rows_.node && rows_.own.is_mapped()) || is_at_dead)
    rows_.ask_where(key, /*is_sure=*/!is_at_dead);
  const bool waits = rows_.waits_for_home(key) || is_at_dead || rows_.lost(key) != nullptr;
  (waits ? left : for_node[at.node]).push_back(index);
}

/// Takes as many of the indices as go into one message. If none can be made now, takes all of them back to be
/// done later.
void MovingPush::make_message(std::uint32_t node, Indices& indices) {
  ServerLink& link = *rows_.nodes[node].link;
  const std::size_t record_bytes = protocol::record_bytes(rows_.layout.stride_bytes);
  const std::size_t count = std::min(indices.size(), rows_.records_a_message(link, record_bytes));
  const std::size_t bytes = protocol::kTaggedRecordsBegin + count * record_bytes;
  std::optional<LocalSpan> memory;
  if (link.open_requests + count + 1 <= protocol::kMaxOpenRequests / 2) memory = rows_.take_staging(bytes);
  if (!memory) {
    todo_.insert(todo_.end(), indices.begin(), indices.end());
    step_again = true;  // until there are fewer open requests
    indices.clear();
    return;
  }
  const auto end_of_message = indices.begin() + static_cast<std::ptrdiff_t>(count);
  Message message{.node = node,
                  .tag = rows_.tag_message(*this),
                  .memory = *memory,
                  .bytes = bytes,
                  .sent = false,
                  .indices = {indices.begin(), end_of_message},
                  .epochs = {}};
  indices.erase(indices.begin(), end_of_message);
  const protocol::BulkHeader header{
      .kind = protocol::BulkKind::kPush, .table = rows_.table, .count = static_cast<std::uint32_t>(count)};
  std::byte* to = memory->bytes.data();
  std::memcpy(to, &header, sizeof header);
  std::memcpy(to + sizeof header, &message.tag, sizeof message.tag);
  to += protocol::kTaggedRecordsBegin;
  for (const std::size_t index : message.indices) {
    const Key key = keys[index];
    const Location at = rows_.directory.location(key);
    message.epochs.push_back(at.node == node ? at.epoch : protocol::SlotHeader::kMaxEpoch);
    std::memcpy(to, &key, sizeof key);
    std::memcpy(to + sizeof key, update(index), rows_.layout.row_bytes);
    to += record_bytes;
  }
  link.open_requests += count + 1;
  messages_.push_back(std::move(message));
  send(messages_.back());
}

void MovingPush::send(Message& message) {
  message.sent = rows_.session.try_send(*rows_.nodes[message.node].link,
                                        message.memory.bytes.first(message.bytes), *message.memory.region);
}

absl::Status MovingPush::on_answer(ServerLink& link, const protocol::PushAnswer& answer) {
  const auto message = std::find_if(messages_.begin(), messages_.end(),
                                    [&](const Message& each) { return each.tag == answer.tag && each.sent; });
  if (message == messages_.end() || rows_.nodes[message->node].link != &link ||
      answer.records != message->indices.size() || link.open_requests <= answer.records) {
    return absl::InvalidArgumentError(
        fmt::format("answered push {} of {} records, which it was not sent", answer.tag, answer.records));
  }
  link.open_requests -= message->indices.size() + 1;
  rows_.session.counters().rows_pushed_remotely += message->indices.size() - answer.moved.size();
  for (const std::uint32_t record : answer.moved) {
    const std::size_t index = message->indices[record];
    // Not if something newer has been heard meanwhile.
    const Location at = rows_.directory.location(keys[index]);
    if (at.node == link.server) rows_.ask_where(keys[index], at.epoch == message->epochs[record]);
    keep(index, update_in(*message, record));
    todo_.push_back(index);
  }
  auto moved = answer.moved.begin();
  for (std::size_t record = 0; record < message->indices.size(); ++record) {
    if (moved != answer.moved.end() && *moved == record) {
      ++moved;
      continue;
    }
    const std::size_t index = message->indices[record];
    rows_.reached(keys[index]);
    end(index);
  }
  rows_.session.staging().give(message->memory);
  rows_.end_message(message->tag);
  messages_.erase(message);
  return absl::OkStatus();
}

void MovingPush::on_dead_server(std::uint32_t server) {
  for (auto message = messages_.begin(); message != messages_.end();) {
    if (message->node != server) {
      ++message;
      continue;
    }
    lose_message(*message);
    rows_.end_message(message->tag);
    // The device may still read a message that was sent.
    if (!message->sent) rows_.session.staging().give(message->memory);
    message = messages_.erase(message);
  }
}

void MovingPush::lose_message(const Message& message) {
  for (std::size_t record = 0; record < message.indices.size(); ++record) {
    const std::size_t index = message.indices[record];
    const Key key = keys[index];
    if (!message.sent) {
      keep(index, update_in(message, record));
      todo_.push_back(index);
      continue;
    }
    // Whatever has become of the update, this worker's later updates must not be applied without it, and the
    // row must not be read without it.
    rows_.lose(key, absl::UnavailableError(fmt::format(
                        "row {} of table \"{}\" may or may not have got an update: {} is gone", key,
                        rows_.options.name, rows_.nodes[message.node].link->connection->peer_name())));
    note_if_lost(key);
    end(index);
  }
}

}  // namespace verbena::worker
