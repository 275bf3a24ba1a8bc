#include "worker/moving/moving_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "base/prefetch.hpp"
#include "base/return_if_error.hpp"

namespace verbena::worker {

using protocol::KeyAnswers;
using protocol::KeyRequests;

namespace {

/// The most records of one message: as many as a server processes at a time, and so few open requests that
/// there is room for others.
constexpr std::size_t kMostRecords = protocol::kMaxPushRecords;

absl::Status not_the_one_asked(const KeyAnswers::Answer& answer) {
  return absl::InvalidArgumentError(
      fmt::format("answered with kind {} about key {}, of which another server was asked",
                  static_cast<std::uint32_t>(answer.kind), answer.key));
}

}  // namespace

MovingRows::MovingRows(SessionCore& of_session, std::uint32_t table_number, const TableOptions& of,
                       const RowLayout& layout_of_table, bool is_asynchronous_table)
    : session(of_session),
      table(table_number),
      options(of),
      layout(layout_of_table),
      node(of_session.node()),
      is_asynchronous(is_asynchronous_table),
      own(layout, of_session.options().rank + 1, of_session.options().servers.size() == 1),
      directory(of_session.placement().table(of.rows)),
      requests(table_number),
      intents(*this),
      replication(*this) {
  static_assert(protocol::kMaxWorkers < protocol::SlotHeader::kServer);
}

absl::Status MovingRows::add_server(ServerLink& link, const transport::RemoteDescriptor& slots) {
  if (slots.length_bytes < protocol::slot_region_bytes(options.rows, layout.slot_bytes)) {
    return absl::InvalidArgumentError(fmt::format(
        "{} opened dynamic table \"{}\" with {} bytes for {} rows of {} bytes", link.connection->peer_name(),
        options.name, slots.length_bytes, options.rows, layout.slot_bytes));
  }
  if (nodes.empty()) {
    try {
      marked.allocate(options.rows);
      directory.allocate();
      moving.allocate(options.rows);
      intents.allocate(options.rows);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          fmt::format("table \"{}\": no memory to know where {} rows are", options.name, options.rows));
    }
  }
  NodeView view{.link = &link,
                .slots = slots,
                .mapped = nullptr,
                .home_keys = directory.home_keys(link.server),
                .is_dead = false};
  if (link.server == node) {
    if (std::byte* const mapped = link.connection->mapped_in_place(slots))
      own.map(mapped, options.rows, view.home_keys);
  }
  const ReadPath path = session.options().read_path;
  if (path != ReadPath::kCached) view.mapped = link.connection->mapped(slots);
  if (view.mapped == nullptr && path == ReadPath::kInPlace) {
    return absl::FailedPreconditionError(
        fmt::format("reads in place need a server on this host; {} is not", link.connection->peer_name()));
  }
  nodes.push_back(view);
  requests.add_server();
  return absl::OkStatus();
}

// ---- where a row is

bool MovingRows::is_coming(Key key) const {
  const auto mover = moving.find(key);
  if (mover == moving.end()) return false;
  // A move that has not been asked for may be waiting for the operation that wants to know; a row that is
  // here may be waiting to be read.
  const Localize::Phase phase = mover->second.operation->phase(mover->second.index);
  return phase > Localize::Phase::kAsk && phase < Localize::Phase::kInstalled;
}

bool MovingRows::waits_for_home(Key key) const {
  if (!directory.is_asked(key)) return false;
  if (!directory.is_fetched(key)) return true;
  const auto mover = moving.find(key);
  return mover == moving.end() ||
         mover->second.operation->phase(mover->second.index) != Localize::Phase::kInstalled;
}

void MovingRows::ask_where(Key key, bool is_sure) {
  const Directory::Advice advice = directory.missed(key, is_sure);
  if (advice == Directory::Advice::kWait) return;
  requests.add(directory.home(key), KeyRequests::Kind::kLocate, {.key = key});
  ++session.counters().locations_asked;
  if (advice == Directory::Advice::kAskAndFetch) fetch(key);
}

/// Others move the row again and again, and a read or push of this session always comes too late. If the
/// session localizes the row itself, it gets its turn in the home's queue.
void MovingRows::fetch(Key key) {
  // A session that has failed starts no operations: `moving` would refer to one that is gone.
  if (!session.status().ok() || !directory.begin_fetch(key)) return;
  // A localize that has not begun may be one that must come after the operation that chases the row.
  if (const auto mover = moving.find(key); mover != moving.end()) {
    const auto [other, index] = mover->second;
    if (!other->is_intent() && other->phase(index) == Localize::Phase::kAsk) other->leave_to_other(index);
  }
  auto localize = std::make_shared<Localize>(*this, Localize::Why::kFetch);
  localize->begin(Keys(KeyRange{key, key + 1}));
  session.start(std::move(localize));
}

void MovingRows::reached(Key key) {
  if (directory.end_chase(key)) ++generation;  // it may leave
}

void MovingRows::unmark_if_plain(Key key) {
  if (!pushed.contains(key) && replication.find(key) == nullptr && !lost_.contains(key)) marked.erase(key);
}

// ---- rows that are lost
//
// If a node dies and the session goes on without it, these rows are lost: rows that were on that node, and
// rows that dead processes were moving. Rows of which it was the home have another one.

void MovingRows::lose(Key key, const absl::Status& why) {
  if (!lost_.try_emplace(key, why).second) return;
  marked.insert(key);
  directory.end_chase(key);
  ++generation;
}

const absl::Status* MovingRows::lost(Key key) const {
  if (lost_.empty()) return nullptr;
  const auto found = lost_.find(key);
  return found == lost_.end() ? nullptr : &found->second;
}

absl::Status MovingRows::lost_with(Key key, std::uint32_t dead_node) const {
  return absl::DataLossError(
      fmt::format("row {} of table \"{}\" was lost with node {}", key, options.name, dead_node));
}

void MovingRows::on_dead_server(std::uint32_t server) {
  nodes[server].is_dead = has_dead = true;
  nodes[server].mapped = nullptr;
  requests.drop_server(server);
  intents.forget_home(server);
  for (const Key key : directory.lose(server))
    requests.add(directory.home(key), KeyRequests::Kind::kLocate, {.key = key});
  ++generation;
}

/// The one that orders it has inherited the keys of a dead home.
absl::Status MovingRows::on_census(ServerLink& link, const protocol::Census& census) {
  if (census.server >= nodes.size() || census.server == link.server) {
    return absl::InvalidArgumentError(
        fmt::format("wants to know who owns rows of server {} of {}", census.server, nodes.size()));
  }
  auto operation = std::make_shared<HomeCensus>(*this, census, link);
  censuses.push_back(operation.get());
  session.start(std::move(operation));
  return absl::OkStatus();
}

// ---- messages

void MovingRows::send_requests() {
  requests.send([&](std::uint32_t server, const KeyRequests& message) {
    return session.ask(*nodes[server].link, message);
  });
}

bool MovingRows::has_told_all() const {
  for (std::uint32_t server = 0; server < nodes.size(); ++server) {
    if (nodes[server].is_dead) continue;
    if (!requests.is_empty(server, KeyRequests::Kind::kDone) ||
        !requests.is_empty(server, KeyRequests::Kind::kReleased) || !nodes[server].link->control.empty()) {
      return false;
    }
  }
  return true;
}

std::size_t MovingRows::send_some(std::uint32_t server, KeyRequests::Kind kind,
                                  std::span<const KeyRequests::Row> rows) {
  return requests.send_some(server, kind, rows, [&](std::uint32_t to, const KeyRequests& message) {
    return session.ask(*nodes[to].link, message);
  });
}

std::optional<LocalSpan> MovingRows::take_staging(std::size_t bytes) {
  absl::StatusOr<LocalSpan> staging = session.staging().take(bytes);
  if (staging.ok()) return *staging;
  session.fail(staging.status());
  return std::nullopt;
}

std::size_t MovingRows::records_a_message(const ServerLink& link, std::size_t record_bytes) const {
  const std::size_t room =
      protocol::max_bulk_bytes(link.inbox->capacity_bytes()) - protocol::kTaggedRecordsBegin;
  return std::clamp<std::size_t>(room / record_bytes, 1, kMostRecords);
}

void MovingRows::add_slot_read(MovingOperation& operation, std::uint32_t of_node, Key key,
                               std::span<std::byte> to, const LocalSpan& memory) {
  const NodeView& from = nodes[of_node];
  operation.reads.add(*from.link,
                      from.slots.slice(protocol::slot_offset(key, layout.slot_bytes), layout.slot_bytes), to,
                      memory);
}

protocol::Tag MovingRows::tag_message(MovingPush& push) {
  pushes_[++last_tag_] = &push;
  return last_tag_;
}

protocol::Tag MovingRows::tag_message(Localize& localize) {
  installs_[++last_tag_] = &localize;
  return last_tag_;
}

void MovingRows::end_message(protocol::Tag tag) {
  pushes_.erase(tag);
  installs_.erase(tag);
}

absl::Status MovingRows::on_answers(ServerLink& link, const KeyAnswers& answers) {
  for (std::size_t i = 0; i < answers.answers.size(); ++i) {
    if (i + base::kKeysAhead < answers.answers.size())
      prefetch_move(answers.answers[i + base::kKeysAhead].key);
    RETURN_IF_ERROR(on_answer(link, answers.answers[i]));
  }
  on_news();
  return absl::OkStatus();
}

absl::Status MovingRows::on_push_answer(ServerLink& link, const protocol::PushAnswer& answer) {
  const auto push = pushes_.find(answer.tag);
  if (push == pushes_.end())
    return absl::InvalidArgumentError(fmt::format("answered push {}, which nobody has sent", answer.tag));
  RETURN_IF_ERROR(push->second->on_answer(link, answer));
  on_news();
  return absl::OkStatus();
}

absl::Status MovingRows::on_install_answer(ServerLink& link, const protocol::InstallAnswer& answer) {
  const auto install = installs_.find(answer.tag);
  if (install == installs_.end())
    return absl::InvalidArgumentError(fmt::format("answered install {}, which nobody has sent", answer.tag));
  RETURN_IF_ERROR(install->second->on_installed(link));
  on_news();
  return absl::OkStatus();
}

/// Called after answers.
void MovingRows::on_news() {
  ++generation;
  bring_back();
  intents.begin_alone();
  replication.begin_refreshes();
}

/// For an answer about a move. A hostile server may name a key that does not exist.
void MovingRows::prefetch_move(Key key) const {
  if (key >= options.rows) return;
  moving.prefetch(key);
  directory.prefetch(key);
  intents.told().prefetch(key);
}

absl::Status MovingRows::on_answer(ServerLink& link, const KeyAnswers::Answer& answer) {
  const bool was_asked = answer.kind == KeyAnswers::Kind::kAlone || link.open_requests > 0;
  if (answer.key >= options.rows || answer.node >= nodes.size() || !was_asked) {
    return absl::InvalidArgumentError(
        fmt::format("answered that server {} has key {}, which nobody asked", answer.node, answer.key));
  }
  if (answer.kind == KeyAnswers::Kind::kHas || answer.kind == KeyAnswers::Kind::kHasNot ||
      answer.kind == KeyAnswers::Kind::kHasImage) {
    if (censuses.empty())
      return absl::InvalidArgumentError(fmt::format("found key {}, which nobody asked", answer.key));
    --link.open_requests;
    return censuses.front()->on_answer(link, answer);
  }
  const bool is_about_move = answer.kind != KeyAnswers::Kind::kAlone &&
                             answer.kind != KeyAnswers::Kind::kLost &&
                             answer.kind != KeyAnswers::Kind::kOwned;
  if (!is_about_move && link.server != directory.home(answer.key)) return not_the_one_asked(answer);
  if (answer.kind == KeyAnswers::Kind::kAlone) {
    intents.on_alone(answer.key);
    return absl::OkStatus();
  }
  --link.open_requests;
  if (answer.kind == KeyAnswers::Kind::kLost) return on_lost(answer);
  if (answer.kind == KeyAnswers::Kind::kOwned) return on_owned(link, answer);
  const auto mover = moving.find(answer.key);
  if (mover == moving.end())
    return absl::InvalidArgumentError(fmt::format("moves key {}, which nobody asked", answer.key));
  return mover->second.operation->on_answer(mover->second.index, link.server, answer);
}

absl::Status MovingRows::on_owned(const ServerLink& home, const KeyAnswers::Answer& answer) {
  if (!directory.end_asking(answer.key))
    return absl::InvalidArgumentError(fmt::format("told where key {} is, which nobody asked", answer.key));
  directory.set(answer.key, {.node = answer.node, .epoch = answer.epoch});
  if (!nodes[answer.node].is_dead) return absl::OkStatus();
  if (home.restores_rows) {
    to_bring_back_.push_back(answer.key);
  } else {
    lose(answer.key, lost_with(answer.key, answer.node));
  }
  return absl::OkStatus();
}

/// Rows that were on a node which is gone: they come to this node, if somebody has an image of them. Whoever
/// looks for one finds it when it is here.
void MovingRows::bring_back() {
  const std::vector<Key> keys = std::exchange(to_bring_back_, {});
  if (keys.empty() || !session.status().ok()) return;
  auto localize = std::make_shared<Localize>(*this, Localize::Why::kUser);
  localize->begin(Keys(keys));
  session.start(std::move(localize));
}

absl::Status MovingRows::on_lost(const KeyAnswers::Answer& answer) {
  const auto mover = moving.find(answer.key);
  const bool moves = mover != moving.end() &&
                     mover->second.operation->phase(mover->second.index) == Localize::Phase::kAsking;
  // If both wait for an answer, both get this one. The move ends with the second: not before the home has
  // processed what the move has asked, and knows of an intent that may be over at once.
  const bool was_located = directory.end_asking(answer.key);
  if (!moves && !was_located)
    return absl::InvalidArgumentError(
        fmt::format("told that key {} is lost, which nobody asked", answer.key));
  lose(answer.key, lost_with(answer.key, answer.node));
  if (!was_located) mover->second.operation->give_up(mover->second.index, *lost(answer.key));
  return absl::OkStatus();
}

}  // namespace verbena::worker
