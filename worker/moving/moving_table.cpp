#include "worker/moving/moving_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "protocol/prefetch.hpp"
#include "worker/moving/moving_now.hpp"

namespace verbena::worker {

using protocol::Key;
using protocol::KeyAnswers;
using protocol::KeyRequests;
using protocol::LockResult;
using protocol::SlotHeader;

namespace {

constexpr std::size_t kReadStagingBytes = std::size_t{256} << 10;
/// To reach a row where it is believed to be; then it is fetched.
constexpr std::uint32_t kMostVainAttempts = 4;
/// Of one message: what a server does at a time, and no more open requests than leave room for others.
constexpr std::size_t kMostRecords = 1024;
/// Tries to take a row's lock: whoever holds it needs some tens of nanoseconds, if he has a processor. After
/// so many, others get ours; after all, the session's other affairs are looked after.
constexpr int kLockTriesAtOnce = 100;
constexpr int kLockTries = 120;
/// Then the server is asked to do it, which knows whether the holder is alive.
constexpr auto kLockPatience = std::chrono::milliseconds(100);

/// Of a message: it does not fit.
absl::Status wrong_answer(const KeyAnswers::Answer& answer) {
  return absl::InvalidArgumentError(fmt::format("answered message {} with kind {}, which does not fit",
                                                answer.key, static_cast<std::uint32_t>(answer.kind)));
}

}  // namespace

MovingTable::MovingTable(SessionCore& session, std::uint32_t number, const TableOptions& options,
                         protocol::ValueType type)
    : TableCore(session, number, options, type),
      slot_bytes_(protocol::slot_bytes(stride_bytes_)),
      homes_(options_.rows, static_cast<std::uint32_t>(session.options().servers.size())),
      holder_(session.options().rank + 1),
      node_(session.node()),
      is_asynchronous_(!rules_.pushes_at_once),
      own_home_keys_(homes_.range(node_)),
      replicas_(type_, options_.width) {
  static_assert(protocol::kMaxWorkers < SlotHeader::kServer);
}

absl::Status MovingTable::add_server(ServerLink& link, const transport::RemoteDescriptor& slots) {
  if (slots.length_bytes < protocol::slot_region_bytes(options_.rows, slot_bytes_)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} opened dynamic table \"{}\" with {} bytes for {} rows of {} bytes", link.connection->peer_name(),
        options_.name, slots.length_bytes, options_.rows, slot_bytes_));
  }
  if (marks_ == nullptr) {
    try {
      marks_ = protocol::make_zeroed_array<std::uint64_t>(options_.rows / 64 + 1);
      locations_.allocate(options_.rows);
      moving_.allocate(options_.rows);
      intended_.allocate(options_.rows);
      ending_.allocate(options_.rows);
      intents_.allocate(options_.rows);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          fmt::format("table \"{}\": no memory to know where {} rows are", options_.name, options_.rows));
    }
  }
  Node node{.link = &link,
            .slots = slots,
            .mapped = nullptr,
            .home_keys = homes_.range(link.server),
            .to_locate = {},
            .done = {},
            .released = {}};
  const ReadPath path = session_.options().read_path;
  if (link.server == node_) own_ = link.connection->mapped_in_place(slots);
  if (own_ != nullptr)
    presence_ = {own_ + protocol::presence_offset(options_.rows, slot_bytes_), own_home_keys_};
  if (path != ReadPath::kCached) node.mapped = link.connection->mapped(slots);
  if (node.mapped == nullptr && path == ReadPath::kInPlace) {
    return absl::FailedPreconditionError(
        fmt::format("reads in place need a server on this host; {} is not", link.connection->peer_name()));
  }
  nodes_.push_back(std::move(node));
  return absl::OkStatus();
}

MovingTable::Location MovingTable::location(Key key) const {
  const auto known = locations_.find(key);
  return known == locations_.end() ? Location{.node = home(key), .epoch = 0} : known->second;
}

void MovingTable::ask_where(Key key, bool is_sure) {
  if (nodes_[home(key)].is_dead) {
    if (!is_coming(key)) lose_row(key, homeless(key));
    return;
  }
  if (!locating_.insert(key).second) return;
  nodes_[home(key)].to_locate.push_back({.key = key});
  ++session_.counters().locations_asked;
  Chase& chase = chased_[key];
  if (is_sure) chase.not_at = location(key);
  if (++chase.attempts > kMostVainAttempts) fetch(key);
}

bool MovingTable::is_not_here(const KeyAnswers::Answer& here) const {
  const auto chase = chased_.find(here.key);
  return fetched_.contains(here.key) && chase != chased_.end() && chase->second.not_at &&
         chase->second.not_at->node == node_ && chase->second.not_at->epoch == here.epoch;
}

bool MovingTable::is_coming(Key key) const {
  const auto mover = moving_.find(key);
  if (mover == moving_.end()) return false;
  // One that has not been asked for may be waiting for whoever wants to know, and one that is here for being
  // read.
  const Phase phase = mover->second.operation->moves[mover->second.index].phase;
  return phase > Phase::kAsk && phase < Phase::kInstalled;
}

void MovingTable::reached(Key key) {
  if (chased_.empty()) return;
  chased_.erase(key);
  if (fetched_.erase(key) > 0) ++news_;  // it may leave
}

/// For what becomes of a move. It may be another's message number, and no key.
void MovingTable::prefetch_move(Key key) const {
  if (key >= options_.rows) return;
  moving_.prefetch(key);
  locations_.prefetch(key);
  intended_.prefetch(key);
}

/// Others move the row again and again, and a read or push of this session always comes too late. It is their
/// turn in the home's line, once it localizes the row itself.
void MovingTable::fetch(Key key) {
  if (!fetched_.insert(key).second) return;
  // A localize that has not begun may be one that is to come after whoever chases the row.
  if (const auto mover = moving_.find(key); mover != moving_.end() && !mover->second.operation->intends) {
    Localize& other = *mover->second.operation;
    if (Move& move = other.moves[mover->second.index]; move.phase == Phase::kAsk) {
      other.enter(move, Phase::kDone);
      other.awaited_moves.push_back(key);
      moving_.erase(mover);
    }
  }
  auto localize = std::make_shared<Localize>(*this, "localize");
  localize->set_keys(KeySequence(protocol::KeyRange{key, key + 1}));
  localize->fetches = true;
  begin_localize(*localize);
  session_.start(std::move(localize));
}

bool MovingTable::is_held(Key key) const {
  if (!fetched_.contains(key)) return false;
  const auto mover = moving_.find(key);
  return mover != moving_.end() &&
         mover->second.operation->moves[mover->second.index].phase == Phase::kInstalled;
}

bool MovingTable::step(MovingOperation& operation) {
  operation.step_again = false;
  operation.awaited = nullptr;
  const std::uint64_t news_before = news_;
  const bool ended = operation.do_own();
  send_to_locate();
  send_put_off();
  give_up_rows();
  begin_refreshes();
  // What has come about just now may be what this one, or another, waits for.
  if (!ended && news_ != news_before) operation.step_again = true;
  return ended;
}

bool MovingOperation::advance() {
  return table_.step(*this);
}
bool MovingPull::do_own() {
  return table_.step_pull(*this);
}
bool MovingPush::do_own() {
  return table_.step_push(*this);
}
bool Localize::do_own() {
  return table_.step_localize(*this);
}
void MovingPush::on_dead_server(std::uint32_t server) {
  table_.forget_messages(*this, server);
}

void MovingTable::mark(Key key) {
  if (is_marked(key)) return;
  marks_[key / 64] |= std::uint64_t{1} << (key % 64);
  ++marked_;
}

void MovingTable::unmark_if_plain(Key key) {
  if (!is_marked(key) || pushed_.contains(key) || replicas_.find(key) != nullptr || lost_.contains(key))
    return;
  marks_[key / 64] &= ~(std::uint64_t{1} << (key % 64));
  --marked_;
}

// ---- what all have in common

std::size_t MovingTable::send_some(const Node& node, KeyRequests::Kind kind,
                                   std::span<const KeyRequests::Row> rows) {
  protocol::MessageRoom<KeyRequests::Row> room;
  std::size_t count = 0;
  while (count < rows.size() && room.take(rows[count])) ++count;
  const auto some = rows.first(count);
  const KeyRequests requests{.kind = kind, .table = number_, .rows = {some.begin(), some.end()}};
  return session_.ask(*node.link, requests) ? count : 0;
}

void MovingTable::send_all(const Node& node, KeyRequests::Kind kind, std::vector<KeyRequests::Row>& rows) {
  if (rows.empty()) return;
  std::size_t sent = 0;
  while (sent < rows.size()) {
    const std::size_t some = send_some(node, kind, std::span(rows).subspan(sent));
    if (some == 0) break;
    sent += some;
  }
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(sent));
}

void MovingTable::send_to_locate() {
  for (Node& node : nodes_) send_all(node, KeyRequests::Kind::kLocate, node.to_locate);
}

void MovingTable::add_slot_read(MovingOperation& operation, std::uint32_t node, Key key,
                                std::span<std::byte> to, const LocalSpan& memory) {
  operation.reads.add(*nodes_[node].link,
                      nodes_[node].slots.slice(protocol::slot_offset(key, slot_bytes_), slot_bytes_), to,
                      memory);
}

std::optional<LocalSpan> MovingTable::take_staging(std::size_t bytes) {
  absl::StatusOr<LocalSpan> staging = session_.take_staging(bytes);
  if (staging.ok()) return *staging;
  session_.fail(staging.status());
  return std::nullopt;
}

std::size_t MovingTable::records_a_message(const ServerLink& link, std::size_t record_bytes) const {
  const std::size_t room =
      protocol::max_bulk_bytes(link.inbox->capacity_bytes()) - sizeof(protocol::BulkHeader);
  return std::clamp<std::size_t>(room / record_bytes, 1, kMostRecords);
}

// ---- pull
//
// A number that is read was its row's at some time between the pull's beginning and its end. A row is owned
// by one slot at a time, and a slot that has ceased to own keeps its values until it owns again; so:
//
// In place. The header said "owned" when it was loaded (acquire), and the values are loaded after. Until the
// slot ceases to own, they are the row's. After that they are what the row was when it ceased to, which is
// after the header was loaded; or, if the row comes back meanwhile, what is being installed: the row's values
// of that moment, which no push changes before the slot owns again.
//
// By a one-sided read. Its lines arrive in any order, each at a time of its own between posting and
// completion; that of the header may be the last. That the slot owned then says nothing of a line that came
// before: the row may have arrived in between, and the line be a leftover of an earlier stay. But this worker
// has heard, from the home and before it posted the read, that the slot owned at epoch e; a slot owns at e
// but once; so if the header that is read says "owned at e", the slot owned at e from before the read was
// posted until the header's line was read. Each line was then either read in that time, or later, as above.
// Hence the comparison with the epoch that was known *before posting*, and not with one that is learned
// meanwhile.

void MovingTable::copy_out(std::byte* to, const std::byte* values) const {
  copy_shared_row(type_, to, values, row_bytes_);
}

bool MovingTable::pull_in_place(protocol::SlotAt<const std::byte> slot, std::byte* out) const {
  if (!protocol::load_header(slot).is_owned()) return false;
  copy_out(out, protocol::slot_values(slot));
  return true;
}

bool MovingTable::step_pull(MovingPull& pull) {
  if (!pull.readings.empty()) {
    pull.awaited = nodes_[pull.readings.front().node].link;
    if (!pull.reads.post()) return false;
    end_reads(pull);
  } else if (pull.seen_news == news_) {
    return false;
  }
  pull.seen_news = news_;
  pull.awaited = nullptr;
  std::erase_if(pull.coming, [&](std::size_t index) {
    if (is_coming(pull.keys[index])) return false;
    pull.todo.push_back(index);
    return true;
  });
  begin_reads(pull);
  if (!pull.readings.empty()) pull.awaited = nodes_[pull.readings.front().node].link;
  if (!pull.readings.empty() || !pull.todo.empty() || !pull.coming.empty()) return false;
  if (pull.staging) session_.give_staging(*pull.staging);
  pull.staging.reset();
  return true;
}

void MovingTable::begin_reads(MovingPull& pull) {
  SessionStatistics& counters = session_.counters();
  std::vector<std::size_t> left;
  std::size_t staged = 0;
  std::size_t next = 0;
  for (; next < pull.todo.size(); ++next) {
    const std::size_t index = pull.todo[next];
    const Key key = pull.keys[index];
    std::byte* const out = out_of(pull, index);
    if (Replica* const replica = pull.is_of_replicas ? nullptr : replicas_.find(key)) {
      if (is_usable(*replica)) {
        read_replica(*replica, out);
      } else {
        ask_for_refresh(key, *replica);
        left.push_back(index);
      }
      continue;
    }
    // Read-my-writes: of what was pushed and is not applied.
    if (pushed_.contains(key)) {
      left.push_back(index);
      continue;
    }
    if (note_if_lost(pull, key)) {
      if (pull.is_of_replicas) drop_lost_replica(key);
      continue;
    }
    if (own_ != nullptr && pull_own_in_place(key, out)) {
      is_read(pull, index, out, counters.rows_pulled_locally);
      continue;
    }
    const Location at = location(key);
    const Node& node = nodes_[at.node];
    if (node.mapped != nullptr &&
        pull_in_place(protocol::slot_at(node.mapped, slot_bytes_, key, node.home_keys), out)) {
      is_read(pull, index, out, counters.rows_pulled_remotely);
      continue;
    }
    if (node.is_dead || node.mapped != nullptr || (at.node == node_ && own_ != nullptr)) {
      if (is_coming(key)) {
        pull.coming.push_back(index);
        continue;
      }
      ask_where(key, /*is_sure=*/!node.is_dead);  // of a dead node the home may know better
    }
    if (node.is_dead || (locating_.contains(key) && !is_held(key)) || lost_.contains(key)) {
      left.push_back(index);
      continue;
    }
    if (!pull.staging) pull.staging = take_staging(std::max(kReadStagingBytes, slot_bytes_));
    if (!pull.staging) return;
    if (pull.staging->bytes.size() - staged < slot_bytes_) break;
    const std::span<std::byte> slot = pull.staging->bytes.subspan(staged, slot_bytes_);
    staged += slot_bytes_;
    pull.readings.push_back({.index = index, .node = at.node, .epoch = at.epoch, .slot = slot.data()});
    add_slot_read(pull, at.node, key, slot, *pull.staging);
  }
  left.insert(left.end(), pull.todo.begin() + static_cast<std::ptrdiff_t>(next), pull.todo.end());
  pull.todo = std::move(left);
  pull.reads.post();
}

void MovingTable::end_reads(MovingPull& pull) {
  for (const MovingPull::Reading& read : pull.readings) {
    const Key key = pull.keys[read.index];
    if (nodes_[read.node].is_dead) {
      pull.todo.push_back(read.index);
      continue;
    }
    if (!pull.is_of_replicas && is_marked(key) && replicas_.find(key) != nullptr) {
      // It has got a replica meanwhile, whose reading may be the older one: what is read does not go back.
      pull.todo.push_back(read.index);
      continue;
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, read.slot, sizeof bits);
    bits ^= protocol::first_header_bits(key, nodes_[read.node].home_keys);
    if (SlotHeader(bits).is_owned_at(read.epoch)) {
      const std::byte* const row = protocol::slot_values(read.slot);
      if (!pull.is_of_replicas) std::memcpy(pull.out + read.index * row_bytes_, row, row_bytes_);
      is_read(pull, read.index, row, session_.counters().rows_pulled_remotely);
      continue;
    }
    // Unless something newer has been heard meanwhile.
    const Location at = location(key);
    const bool is_newest = at.node == read.node && at.epoch == read.epoch;
    const bool waits = is_newest && is_coming(key);
    (waits ? pull.coming : pull.todo).push_back(read.index);
    if (is_newest && !waits) ask_where(key, /*is_sure=*/true);
  }
  pull.readings.clear();
}

// ---- push
//
// An update is applied once: by whoever finds the slot to own the row and has its lock, which keeps it from
// moving. A server answers for each record whether it did; only what it did not apply is sent again,
// elsewhere.

LockResult MovingTable::push_in_place(Key key, const std::byte* update) {
  const protocol::Slot slot = own_slot(key);
  SlotHeader owned;
  LockResult result = LockResult::kBusy;
  for (int tries = 0; tries < kLockTries && result == LockResult::kBusy; ++tries) {
    if (tries > kLockTriesAtOnce) std::this_thread::yield();
    result = protocol::try_lock(slot, holder_, owned);
  }
  if (result == LockResult::kLocked) add_and_unlock(slot, owned, update);
  return result;
}

void MovingTable::begin_push(MovingPush& push) {
  if (!push.is_of_replicas && !replicas_.empty()) {
    std::erase_if(push.todo, [&](std::size_t index) {
      return push_to_replica(push.keys[index], push.updates + index * row_bytes_);
    });
  }
  for (const std::size_t index : push.todo) {
    pushed_[push.keys[index]].push_back({&push, index});
    mark(push.keys[index]);
  }
  if (!push.update_copy.empty()) ++pushes_under_way_;
}

bool MovingTable::may_push(const MovingPush& push, std::size_t index) const {
  const Pushed& first = pushed_.at(push.keys[index]).front();
  return first.operation == &push && first.index == index;
}

void MovingTable::end_push(const MovingPush& push, std::size_t index) {
  const auto found = pushed_.find(push.keys[index]);
  found->second.erase(found->second.begin());
  if (found->second.empty()) {
    pushed_.erase(found);
    unmark_if_plain(push.keys[index]);
  }
  ++news_;
}

bool MovingTable::step_push(MovingPush& push) {
  for (Message& message : push.messages) {
    if (!message.sent) send_message(message);
  }
  // What is pushed here lets the next update of the same row go.
  while (push.seen_news != news_ && !push.step_again) {
    push.seen_news = news_;
    std::vector<std::size_t> left;
    std::vector<std::vector<std::size_t>> for_node(nodes_.size());
    const bool was_busy = push.busy_since && session_.now() - *push.busy_since > kLockPatience;
    bool is_busy = false;
    for (const std::size_t index : push.todo) {
      const Key key = push.keys[index];
      if (!may_push(push, index)) {
        left.push_back(index);
        continue;
      }
      if (note_if_lost(push, key)) {
        end_push(push, index);
        continue;
      }
      const LockResult here =
          own_ == nullptr ? LockResult::kNotOwned : push_in_place(key, push.updates + index * row_bytes_);
      if (here == LockResult::kLocked) {
        ++session_.counters().rows_pushed_locally;
        reached(key);
        end_push(push, index);
        continue;
      }
      if (here == LockResult::kBusy) {
        is_busy = true;
        push.step_again |= !was_busy;
        (was_busy ? for_node[node_] : left).push_back(index);
        continue;
      }
      const Location at = location(key);
      if ((at.node == node_ && own_ != nullptr) || nodes_[at.node].is_dead)
        ask_where(key, /*is_sure=*/!nodes_[at.node].is_dead);
      // Where else it may be only its home could say.
      const bool waits_for_move = nodes_[home(key)].is_dead && is_coming(key);
      const bool waits = waits_for_move || (locating_.contains(key) && !is_held(key)) ||
                         nodes_[at.node].is_dead || lost_.contains(key);
      (waits ? left : for_node[at.node]).push_back(index);
    }
    push.todo = std::move(left);
    if (!is_busy) {
      push.busy_since.reset();
    } else if (!push.busy_since) {
      push.busy_since = session_.now();
    }
    for (std::uint32_t node = 0; node < nodes_.size(); ++node) {
      while (!for_node[node].empty()) make_message(push, node, for_node[node]);
    }
  }
  if (push.step_again) push.seen_news = 0;
  if (!push.messages.empty()) push.awaited = nodes_[push.messages.front().node].link;
  if (!push.messages.empty() || !push.todo.empty()) return false;
  if (!push.update_copy.empty()) {
    --pushes_under_way_;
    session_.note_lost(push.status);
  }
  return true;
}

/// Takes as many of the indices as go into one message, or all: those that must wait go back to be done.
void MovingTable::make_message(MovingPush& push, std::uint32_t node, std::vector<std::size_t>& indices) {
  const ServerLink& link = *nodes_[node].link;
  const std::size_t record_bytes = protocol::record_bytes(stride_bytes_);
  const std::size_t count = std::min(indices.size(), records_a_message(link, record_bytes));
  const std::size_t bytes = sizeof(protocol::BulkHeader) + count * record_bytes;
  std::optional<LocalSpan> memory;
  if (link.open_requests + count + 1 <= protocol::kMaxOpenRequests / 2) memory = take_staging(bytes);
  if (!memory) {
    push.todo.insert(push.todo.end(), indices.begin(), indices.end());
    push.step_again = true;  // until there are fewer open requests
    indices.clear();
    return;
  }
  Message message{.node = node,
                  .number = ++messages_made_,
                  .memory = *memory,
                  .bytes = bytes,
                  .sent = false,
                  .indices = {indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(count)},
                  .epochs = {},
                  .moved = {}};
  indices.erase(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(count));
  const protocol::BulkHeader header{.kind = protocol::BulkKind::kPush,
                                    .table = number_,
                                    .count = static_cast<std::uint32_t>(count),
                                    .applied = message.number};
  std::byte* to = memory->bytes.data();
  std::memcpy(to, &header, sizeof header);
  to += sizeof header;
  for (const std::size_t index : message.indices) {
    const Key key = push.keys[index];
    const Location at = location(key);
    message.epochs.push_back(at.node == node ? at.epoch : SlotHeader::kMaxEpoch);
    std::memcpy(to, &key, sizeof key);
    std::memcpy(to + sizeof key, push.updates + index * row_bytes_, row_bytes_);
    to += record_bytes;
  }
  pushes_[message.number] = &push;
  nodes_[node].link->open_requests += count + 1;
  push.messages.push_back(std::move(message));
  send_message(push.messages.back());
}

void MovingTable::send_message(Message& message) {
  message.sent = session_.try_send(*nodes_[message.node].link, message.memory.bytes.first(message.bytes),
                                   *message.memory.region);
}

// ---- answers

absl::Status MovingTable::on_answers(ServerLink& link, const KeyAnswers& answers) {
  for (std::size_t i = 0; i < answers.answers.size(); ++i) {
    if (i + protocol::kKeysAhead < answers.answers.size())
      prefetch_move(answers.answers[i + protocol::kKeysAhead].key);
    if (absl::Status status = on_answer(link, answers.answers[i]); !status.ok()) return status;
  }
  ++news_;
  if (!alone_.empty()) begin_intents(std::exchange(alone_, {}));
  begin_refreshes();
  return absl::OkStatus();
}

absl::Status MovingTable::on_answer(ServerLink& link, const KeyAnswers::Answer& answer) {
  switch (answer.kind) {
    case KeyAnswers::Kind::kMoved:
    case KeyAnswers::Kind::kApplied:
      return on_push_answer(link, answer);
    case KeyAnswers::Kind::kInstalled:
      return on_install_answer(link, answer);
    default:
      break;
  }
  const bool was_asked = answer.kind == KeyAnswers::Kind::kAlone || link.open_requests > 0;
  if (answer.key >= options_.rows || answer.node >= nodes_.size() || !was_asked) {
    return absl::InvalidArgumentError(
        fmt::format("answered that server {} has key {}, which nobody asked", answer.node, answer.key));
  }
  if (answer.kind == KeyAnswers::Kind::kAlone) {
    on_alone(answer.key);
    return absl::OkStatus();
  }
  --link.open_requests;
  if (answer.kind == KeyAnswers::Kind::kLost) return on_lost(answer);
  if (answer.kind != KeyAnswers::Kind::kOwned) return on_move_answer(answer);
  if (locating_.erase(answer.key) == 0)
    return absl::InvalidArgumentError(fmt::format("told where key {} is, which nobody asked", answer.key));
  locations_[answer.key] = {.node = answer.node, .epoch = answer.epoch};
  if (nodes_[answer.node].is_dead) lose_row(answer.key, lost_with(answer.key, answer.node));
  return absl::OkStatus();
}

absl::Status MovingTable::on_install_answer(ServerLink& link, const KeyAnswers::Answer& answer) {
  const auto found = installs_.find(answer.key);
  if (found == installs_.end() || link.server != node_ || !found->second->batch->sent)
    return wrong_answer(answer);
  Localize& localize = *found->second;
  for (const std::size_t index : localize.batch->moves) is_installed(localize, localize.moves[index]);
  session_.give_staging(localize.batch->memory);
  localize.batch.reset();
  --link.open_requests;
  installs_.erase(found);
  return absl::OkStatus();
}

absl::Status MovingTable::on_push_answer(ServerLink& link, const KeyAnswers::Answer& answer) {
  const auto found = pushes_.find(answer.key);
  if (found == pushes_.end()) return wrong_answer(answer);
  MovingPush& push = *found->second;
  const auto message = std::find_if(push.messages.begin(), push.messages.end(), [&](const Message& each) {
    return each.number == answer.key && each.sent;
  });
  if (message == push.messages.end() || nodes_[message->node].link != &link) return wrong_answer(answer);
  if (answer.kind == KeyAnswers::Kind::kMoved) {
    if (answer.node >= message->indices.size() || message->moved.size() == message->indices.size())
      return wrong_answer(answer);
    message->moved.push_back(answer.node);
    return absl::OkStatus();
  }
  if (answer.epoch != message->indices.size()) return wrong_answer(answer);
  link.open_requests -= message->indices.size() + 1;
  const std::vector<std::size_t>& again = message->moved;
  session_.counters().rows_pushed_remotely += message->indices.size() - again.size();
  for (const std::size_t record : again) {
    const std::size_t index = message->indices[record];
    // Unless something newer has been heard meanwhile.
    const Location at = location(push.keys[index]);
    if (at.node == link.server) ask_where(push.keys[index], at.epoch == message->epochs[record]);
    push.todo.push_back(index);
  }
  for (std::size_t record = 0; record < message->indices.size(); ++record) {
    if (std::find(again.begin(), again.end(), record) != again.end()) continue;
    const std::size_t index = message->indices[record];
    reached(push.keys[index]);
    end_push(push, index);
  }
  session_.give_staging(message->memory);
  push.messages.erase(message);
  pushes_.erase(found);
  return absl::OkStatus();
}

}  // namespace verbena::worker
