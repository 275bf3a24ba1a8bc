#include "worker/session_core.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include "base/peer_memory.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "protocol/log_record.hpp"
#include "protocol/placement.hpp"
#include "transport/backends.hpp"
#include "transport/request_id.hpp"
#include "worker/joining.hpp"
#include "worker/options.hpp"
#include "worker/table_core.hpp"

namespace verbena::worker {

namespace {

constexpr std::uint64_t kRowsUntilPoll = 64;
/// Of so many looks at the transport by hot paths, one is a whole poll().
constexpr std::uint32_t kLooksUntilPoll = 8;
constexpr std::uint64_t kRowsUntilRefill = 128;
constexpr auto kWaitSlice = std::chrono::milliseconds(100);
/// The most that one turn of a waiting loop counts toward the timeout. If a turn took longer, this process
/// itself was not running, which is not the fault of anyone else. So a job that was stopped as a whole goes
/// on.
constexpr auto kLongestTurn = 10 * kWaitSlice;
/// So soon people learn that a server is waited for.
constexpr auto kBeforeReminder = std::chrono::milliseconds(1500);
/// How long to wait until the servers have taken the reason why this worker gives up.
constexpr auto kPartingPatience = std::chrono::milliseconds(500);
/// How many clocks' updates the servers may not have applied yet, beyond the staleness bound: only a slow
/// server causes more, and they take memory. However large the staleness bound is, at most
/// kMostStaleOutstanding clocks of it count.
constexpr std::size_t kSpareOutstanding = 2;
constexpr std::size_t kMostStaleOutstanding = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<SessionCore>> SessionCore::connect(const SessionOptions& options) {
  RETURN_IF_ERROR(check(options));
  std::shared_ptr<transport::Transport> transport = options.transport;
  if (transport == nullptr) {
    auto opened = transport::open(options.servers.front(), options.network);
    if (!opened.ok()) return opened.status();
    transport = *std::move(opened);
  }
  std::unique_ptr<SessionCore> session(new SessionCore(options, std::move(transport)));
  if (!options.resume.empty()) {
    RETURN_IF_ERROR(session->checkpointing_.resume(options.resume));
    session->clock_ = static_cast<consistency::Clock>(session->checkpointing_.resumed()->manifest().clock);
    session->barrier_clock_ = session->clock_;
  }
  const transport::TimePoint deadline =
      session->transport_->now() + std::chrono::milliseconds(options.timeout_ms);
  if (absl::Status status = session->join(deadline); !status.ok()) {
    // Servers that know this worker already must not wait for it.
    session->give_up(status);
    return status;
  }
  return session;
}

absl::Status SessionCore::elsewhere() const {
  return owner_.refuse(fmt::format("the session of worker {}", options_.rank));
}

absl::Status SessionCore::join(transport::TimePoint deadline) {
  auto heartbeat = transport::Heartbeat::create(*transport_);
  if (!heartbeat.ok()) return heartbeat.status();
  heartbeat_ = *std::move(heartbeat);
  RETURN_IF_ERROR(mending_.begin(deadline));
  for (std::uint32_t server = 0; server < options_.servers.size(); ++server) {
    RETURN_IF_ERROR(connect_to(server, deadline));
  }
  const auto welcomed = [&] {
    return std::none_of(links_.begin(), links_.end(), [](const auto& link) { return link->lanes.empty(); });
  };
  RETURN_IF_ERROR(wait_until(welcomed, options_.timeout_ms, [&] {
    const auto silent =
        std::find_if(links_.begin(), links_.end(), [](const auto& link) { return link->lanes.empty(); });
    return fmt::format("the welcome of {}", (*silent)->connection->peer_name());
  }));
  say_where_servers_are();
  return status_;
}

/// Servers that keep images of one another's rows do not know that themselves. Each hears it from some
/// worker.
void SessionCore::say_where_servers_are() {
  for (const std::unique_ptr<ServerLink>& link : links_) {
    const bool is_due = link->server == node() || link->server % options_.workers == options_.rank;
    if (!link->restores_rows || !is_due) continue;
    for (std::uint32_t server = 0; server < options_.servers.size(); ++server) {
      if (server != link->server)
        control(*link, protocol::ServerAt{.server = server, .address = options_.servers[server]});
    }
  }
}

SessionCore::SessionCore(const SessionOptions& options, std::shared_ptr<transport::Transport> transport)
    : options_(options),
      placement_(static_cast<std::uint32_t>(options.servers.size())),
      transport_(std::move(transport)),
      memory_(*transport_),
      shared_memory_(*transport_, transport::Access::kRemoteRead),
      mending_(*this, options.configuration, transport_->connections_may_break()) {}

SessionCore::~SessionCore() {
  const bool was_well = status_.ok();  // otherwise its owner knows already
  if (absl::Status status = leave(); !status.ok()) {
    // The others must learn the reason, not only that this worker has ended.
    give_up(status);
    if (was_well) spdlog::warn("leaving: {}", std::string(status.message()));
  }
}

absl::Status SessionCore::connect_to(std::uint32_t server, transport::TimePoint deadline) {
  const auto reach_until = [&](transport::TimePoint until) {
    return mending_.has_copies() ? mending_.connect_to(server, until)
                                 : transport_->connect(options_.servers[server], until);
  };
  auto connection = reach_until(std::min<transport::TimePoint>(deadline, now() + kBeforeReminder));
  if (absl::IsDeadlineExceeded(connection.status()) && now() < deadline) {
    spdlog::warn("worker {} waits for server {}: {}", options_.rank, server,
                 std::string(connection.status().message()));
    connection = reach_until(deadline);
  }
  if (!connection.ok()) {
    return absl::Status(connection.status().code(),
                        fmt::format("server {}: {}", server, std::string(connection.status().message())));
  }
  auto link = std::make_unique<ServerLink>();
  link->server = server;
  if (mending_.is_possible()) link->sent = std::make_unique<SentMessages>(memory_);
  link->connection = std::move(*connection);
  link->connection->set_peer_name(fmt::format("server {}", server));
  link->connection->user_data = reinterpret_cast<std::uintptr_t>(link.get());
  ServerLink& added = links_.add(std::move(link));
  const absl::StatusOr<protocol::Hello> hello = prepare_hello(added, ground());
  if (hello.ok()) control(added, *hello);
  // It may have broken already: then mending says hello over the next one.
  if (!hello.ok() && !added.connection->status().ok() && mending_.lose(added)) return absl::OkStatus();
  absl::Status status = hello.ok() ? status_ : hello.status();
  // The link may have no rings, so what the server says must be ignored.
  if (!status.ok()) added.is_refused = true;
  return status;
}

/// A worker that a server holds back must learn that it is the server, and not others that wait, too.
void SessionCore::look_at_servers(transport::TimePoint now) {
  if (options_.silence_timeout_ms == 0 || now < next_look_) return;
  next_look_ = now + transport::kBeatInterval;
  for (const std::unique_ptr<ServerLink>& link : links_) {
    if (link->watch == nullptr || link->is_dead || link->said_goodbye) continue;
    if (link->state == ServerLink::State::kLost) continue;
    if (absl::Status status = link->watch->look(*link->connection, now); !status.ok())
      mending_.has_copies() ? mending_.suspect(*link, status) : fail(std::move(status));
  }
}

void SessionCore::control(ServerLink& link, const protocol::ControlMessage& message) {
  if (link.state == ServerLink::State::kUp) return say(link, message);
  // say_what_may_be_lost() says these by what they stand for.
  if (!protocol::is_logged(message)) link.unsaid.push_back(message);
}

/// To a copy that has just taken its server's place: what the server was told, and may not have passed on.
void SessionCore::say_what_may_be_lost(ServerLink& link) {
  say(link, protocol::Adopted{mending_.configuration()});
  if (left_) {  // the server may know that, and then hears nothing else
    link.unsaid.clear();
    return say(link, protocol::Goodbye{});
  }
  if (is_opening_ && link.shards.size() <= opening_.table) say(link, opening_);
  if (link.server == 0 && said_end_ >= 0) say(link, protocol::EndIteration{said_end_});
  if (link.server == 0 && checkpointing_.said()) say(link, *checkpointing_.said());
  for (; !link.unsaid.empty(); link.unsaid.pop_front()) say(link, link.unsaid.front());
  if (steps_aside_) say_that_it_steps_aside(link);
}

void SessionCore::say(ServerLink& link, const protocol::ControlMessage& message) {
  if (link.is_dead || link.control.send(*link.connection, protocol::encode(message))) return;
  // An event will report it.
  if (!link.connection->status().ok() && (can_do_without(link) || mending_.is_possible())) return;
  fail(absl::UnavailableError(fmt::format("{} takes no messages", link.connection->peer_name())));
}

bool SessionCore::has_rows_that_move() const {
  return (is_opening_ && opening_.allocation == Allocation::kDynamic) ||
         std::any_of(tables_.begin(), tables_.end(),
                     [](const auto& table) { return table->options().allocation == Allocation::kDynamic; });
}

/// The server has granted memory for the table that is being opened, and it cannot be mapped, although the
/// server is on this host: it has gone since, and an event will say so.
bool SessionCore::is_memory_gone(ServerLink& link, std::uint32_t table) const {
  if (!mending_.is_possible() || options_.read_path != ReadPath::kInPlace || !link.reads_in_place)
    return false;
  const auto is_gone = [&](const transport::RemoteDescriptor& memory) {
    return memory.length_bytes > 0 && link.connection->mapped(memory) == nullptr;
  };
  return is_gone(link.shards[table]) ||
         std::any_of(link.regions.begin(), link.regions.end(), [&](const protocol::RegionAdded& added) {
           return is_gone(added.memory.as<transport::RemoteDescriptor>());
         });
}

absl::StatusOr<TableCore*> SessionCore::open_table(const TableOptions& options, ValueType type) {
  if (!status_.ok()) return status_;
  RETURN_IF_ERROR(check(options, type));
  for (const std::unique_ptr<TableCore>& table : tables_) {
    if (table->options().name != options.name) continue;
    RETURN_IF_ERROR(check_same(*table, options, type));
    return table.get();
  }
  for (const std::unique_ptr<ServerLink>& link : links_) {
    if (!link->is_dead) continue;
    return absl::UnavailableError(
        fmt::format("table \"{}\" needs {}, which is gone", options.name, link->connection->peer_name()));
  }
  is_opening_ = true;
  const auto number = static_cast<std::uint32_t>(tables_.size());
  protocol::OpenTable open = to_wire(number, options, type);
  const bool is_saved = checkpointing_.resumed() != nullptr && Checkpointing::saves(options.name);
  if (is_saved) open.checkpoint = options_.resume;
  opening_ = open;
  for (const std::unique_ptr<ServerLink>& link : links_) control(*link, open);
  const auto opened = [&] {
    return std::all_of(links_.begin(), links_.end(), [&](const auto& link) {
      // A copy that takes a server's place tells again where its tables are.
      const bool is_there = !mending_.is_possible() || (link->is_up() && link->connection->status().ok());
      return is_there && link->shards.size() > number && !is_memory_gone(*link, number);
    });
  };
  // Servers may have much to read.
  const std::uint32_t timeout_ms = is_saved ? options_.clock_timeout_ms : options_.timeout_ms;
  absl::Status status = wait_until(
      opened, timeout_ms, [&] { return fmt::format("the servers to open table \"{}\"", options.name); });
  if (!status.ok()) return status;
  auto table = make_table_core(*this, number, options, type);
  for (const std::unique_ptr<ServerLink>& link : links_) {
    status = table->add_server(*link, link->shards[number]);
    link->regions.clear();
    if (!status.ok()) {
      fail(status);
      return status;
    }
    if (number == 0) link->counts_clocks = false;  // from now on the tables decide
    link->counts_clocks |= table->follows_clocks() && table->has_keys_of(link->server);
  }
  tables_.push_back(std::move(table));
  is_opening_ = false;
  // The table's updates will name this clock.
  if (status = tell_clock(clock_, Servers::kCounting); !status.ok()) return status;
  return tables_.back().get();
}

bool SessionCore::poll() {
  looks_ = 0;
  mending_.step();
  return go_on(transport_->poll(events_));
}

/// Most looks bring nothing, and are over with that. What no event tells of waits for a poll(). A call for
/// many rows does not notice what a poll() costs.
void SessionCore::look(std::uint64_t rows) {
  if (++looks_ >= kLooksUntilPoll || rows >= kRowsUntilPoll * kLooksUntilPoll) {
    poll();
    return;
  }
  rows_until_poll_ = kRowsUntilPoll;
  const std::size_t count = transport_->poll(events_);
  if (count > 0) go_on(count);
}

/// With the first `count` of events_, and with what waits.
bool SessionCore::go_on(std::size_t count) {
  rows_until_poll_ = kRowsUntilPoll;
  for (const transport::Event& event : std::span(events_).first(count)) on_event(event);
  for (const std::unique_ptr<ServerLink>& link : links_) {
    if (link->is_dead || link->state == ServerLink::State::kLost) continue;
    link->control.flush(*link->connection);
    if (link->push_ring) link->push_ring->return_credit();  // none if the hello has failed
    // Not before the server has heard of the connection that it tells of rows over.
    if (link->owes_word && link->is_up() && link->control.empty() && sending_ == 0 && !left_)
      say_what_is_known(*link);
  }
  for (const std::unique_ptr<TableCore>& table : tables_) {
    if (!left_) table->send_put_off();
  }
  bool has_worked = checkpointing_.poll();
  has_worked |= running_.step(status_);
  if (owes_end_of_moves_) say_if_moves_have_ended();
  return has_worked || count > 0;
}

absl::Status SessionCore::look_around() {
  poll();
  look_at_servers(transport_->now());
  return status_;
}

void SessionCore::on_event(const transport::Event& event) {
  if (event.connection == nullptr || event.connection->user_data == 0) return;  // of a server that is gone
  ServerLink& link = *reinterpret_cast<ServerLink*>(static_cast<std::uintptr_t>(event.connection->user_data));
  const bool is_said =
      event.kind == transport::Event::Kind::kMessage || event.kind == transport::Event::Kind::kNotification;
  // Nobody waits for the last messages of a dead server, and those of a refused server must be ignored.
  if ((link.is_dead || link.is_refused || link.state == ServerLink::State::kLost) && is_said) return;
  absl::Status status;
  switch (event.kind) {
    case transport::Event::Kind::kMessage:
      status = on_message(link, event.message);
      break;
    case transport::Event::Kind::kNotification:
      status = on_notification(link, event.notification);
      break;
    case transport::Event::Kind::kCompletion:
      on_completion(event);
      break;
    case transport::Event::Kind::kDisconnected:
      // It has heard the last that this worker had to say.
      if (steps_aside_ && link.is_up() && link.control.empty()) link.said_goodbye = true;
      // A server that has not said goodbye may not have taken the last updates. The message has its name
      // already.
      if (!link.said_goodbye && mending_.lose(link)) return;
      if (!link.said_goodbye && !lose(link, std::string(link.connection->status().message())))
        fail(absl::UnavailableError(std::string(link.connection->status().message())));
      link.said_goodbye = true;
      break;
    case transport::Event::Kind::kAccepted:
      break;
  }
  if (status.ok()) return;
  // What cannot be done over a connection that has broken is no fault of the server's.
  if (!link.connection->status().ok() && mending_.lose(link)) return;
  link.is_refused = true;
  fail(status.code() == absl::StatusCode::kAborted
           ? status
           : absl::Status(status.code(),
                          fmt::format("{} {}", link.connection->peer_name(), std::string(status.message()))));
}

absl::Status SessionCore::on_message(ServerLink& link, std::span<const std::byte> bytes) {
  absl::StatusOr<protocol::ControlMessage> message = protocol::decode_control(bytes);
  if (!message.ok()) return message.status();
  if (const auto* welcome = std::get_if<protocol::Welcome>(&*message)) {
    RETURN_IF_ERROR(take_welcome(link, *welcome, ground()));
    done_before_ = links_.newest_former_clock();
    // Its server waits for this word before it tells anything: see Mending for one that was lost meanwhile.
    if (options_.incarnation > 0 && link.state == ServerLink::State::kUp)
      say(link, protocol::Adopted{mending_.configuration()});
    return link.state == ServerLink::State::kJoining ? mending_.on_welcome(link, *welcome) : absl::OkStatus();
  }
  if (const auto* opened = std::get_if<protocol::TableOpened>(&*message)) {
    const bool is_open = link.state == ServerLink::State::kJoining && opened->table < tables_.size();
    if (opened->table != link.shards.size() || !(is_open || is_opening_) || opened->table > tables_.size())
      return absl::InvalidArgumentError("opened a table that nobody asked for");
    link.shards.push_back(opened->shard.as<transport::RemoteDescriptor>());
    return is_open ? mending_.on_table(link, *opened) : absl::OkStatus();
  }
  if (const auto* added = std::get_if<protocol::RegionAdded>(&*message)) return on_region(link, *added);
  if (const auto* failed = std::get_if<protocol::Failed>(&*message)) {
    link.said_failed = true;
    const std::string reason = base::printable(failed->reason);
    // If a job fails at its start, for example because of a wrong option, it keeps its kind of error.
    const auto code = static_cast<absl::StatusCode>(failed->code);
    if (code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kAborted) {
      fail(absl::AbortedError(reason));
    } else {
      fail(absl::Status(code, fmt::format("{}: {}", link.connection->peer_name(), reason)));
    }
    return absl::OkStatus();
  }
  if (const auto* end = std::get_if<protocol::EndIteration>(&*message)) {
    // Others may have begun the next clock before this worker has told all servers of it.
    if (end->clock > std::max(clock_, done_before_) + 1) {
      return absl::InvalidArgumentError(
          fmt::format("ended the iteration of clock {}, this worker is at {}", end->clock, clock_));
    }
    iteration_.end(end->clock);
    return absl::OkStatus();
  }
  if (const auto* saved = std::get_if<protocol::PartSaved>(&*message))
    return checkpointing_.on_part_saved(link.server, *saved);
  if (const auto* answers = std::get_if<protocol::KeyAnswers>(&*message))
    return on_answer(link, *answers, &TableCore::on_answers);
  if (const auto* answer = std::get_if<protocol::PushAnswer>(&*message))
    return on_answer(link, *answer, &TableCore::on_push_answer);
  if (const auto* answer = std::get_if<protocol::InstallAnswer>(&*message))
    return on_answer(link, *answer, &TableCore::on_install_answer);
  if (const auto* census = std::get_if<protocol::Census>(&*message))
    return on_answer(link, *census, &TableCore::on_census);
  if (const auto* gone = std::get_if<protocol::ServerGone>(&*message)) return on_server_gone(link, *gone);
  if (std::holds_alternative<protocol::Goodbye>(*message) && left_) {
    link.said_goodbye = true;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("sent what only a worker sends");
}

absl::Status SessionCore::on_region(ServerLink& link, const protocol::RegionAdded& added) {
  if (added.lane >= link.lanes.size())
    return absl::InvalidArgumentError(fmt::format("added a region to lane {}", added.lane));
  const bool is_of_open_table =
      link.state == ServerLink::State::kJoining && added.table == link.shards.size();
  if (added.table < tables_.size() && !is_of_open_table) return tables_[added.table]->on_region(link, added);
  if (!(is_opening_ || is_of_open_table) || added.table > tables_.size())
    return absl::InvalidArgumentError("added a region to a table that nobody has opened");
  link.regions.push_back(added);  // for add_server()
  return absl::OkStatus();
}

absl::Status SessionCore::on_notification(ServerLink& link, std::uint32_t notification) {
  absl::StatusOr<std::span<const std::byte>> bytes = link.push_ring->on_notification(notification);
  if (!bytes.ok()) return bytes.status();
  if (bytes->empty()) return link.inbox->on_credit();
  absl::StatusOr<protocol::BulkMessage> message = protocol::decode_bulk(*bytes);
  absl::Status status = message.ok() ? on_bulk(link, *message) : message.status();
  link.push_ring->release();
  return status;
}

template <class Answer>
absl::Status SessionCore::on_answer(ServerLink& link, const Answer& answer,
                                    absl::Status (TableCore::*heed)(ServerLink&, const Answer&)) {
  if (!status_.ok()) return absl::OkStatus();  // nobody waits any more
  if (answer.table >= tables_.size())
    return absl::InvalidArgumentError(fmt::format("answered about rows of table {}", answer.table));
  return (tables_[answer.table].get()->*heed)(link, answer);
}

absl::Status SessionCore::on_bulk(ServerLink& link, const protocol::BulkMessage& message) {
  const protocol::BulkHeader& header = message.header;
  const bool has_result = header.kind == protocol::BulkKind::kResult;
  const bool has_gone = header.kind == protocol::BulkKind::kGone;
  if (link.state == ServerLink::State::kJoining)
    return absl::InvalidArgumentError("told of rows or clocks before this worker had adopted it");
  if (!protocol::comes_from_server(header.kind) || header.lane >= link.lanes.size()) {
    return absl::InvalidArgumentError(fmt::format("sent a message of kind {} for lane {}",
                                                  static_cast<std::uint32_t>(header.kind), header.lane));
  }
  LaneView& view = link.lanes[header.lane];
  if (header.subscriptions > view.subscriptions) {
    return absl::InvalidArgumentError(fmt::format("heeded {} messages of subscription, {} were sent",
                                                  header.subscriptions, view.subscriptions));
  }
  for (const auto& [applied, updates] :
       {std::pair(header.applied, view.at_once), std::pair(header.applied_held, view.held)}) {
    if (header.clock < view.min_clock || applied < updates.applied || applied > updates.shipped) {
      return absl::InvalidArgumentError(
          fmt::format("sent clock {} after {}, {} updates applied after {} of {}", header.clock,
                      view.min_clock, applied, updates.applied, updates.shipped));
    }
  }
  if (has_gone) {
    RETURN_IF_ERROR(on_gone(link, message));
  } else if (has_result || header.count > 0) {
    if (header.table >= tables_.size())
      return absl::InvalidArgumentError(fmt::format("sent rows of table {}", header.table));
    TableCore& table = *tables_[header.table];
    RETURN_IF_ERROR(has_result ? table.on_result(link, message) : table.on_rows(link, message));
  }
  view.min_clock = header.clock;
  view.at_once.applied = header.applied;
  view.held.applied = header.applied_held;
  for (const std::unique_ptr<TableCore>& table : tables_) table->on_applied(link, header.lane);
  start_epoch();
  return absl::OkStatus();
}

/// Of a table that is not open yet, nothing is known here that could be forgotten.
absl::Status SessionCore::on_gone(ServerLink& link, const protocol::BulkMessage& message) {
  const protocol::BulkHeader& header = message.header;
  if (message.payload.size() != header.count * sizeof(Key)) {
    return absl::InvalidArgumentError(
        fmt::format("says that {} rows are gone in {} bytes", header.count, message.payload.size()));
  }
  if (header.table < tables_.size()) RETURN_IF_ERROR(tables_[header.table]->on_gone(link, message));
  link.lanes[header.lane].lookups.hear(header.count);
  link.owes_word = true;
  return absl::OkStatus();
}

/// Tells lanes what this worker has heard of what is gone there. Not in the middle of sending: a message that
/// is about to go may name a row by its number, and must come before.
void SessionCore::say_what_is_known(ServerLink& link) {
  bool has_said_all = true;
  for (std::uint32_t lane = 0; lane < link.lanes.size(); ++lane) {
    Lookups& lookups = link.lanes[lane].lookups;
    const std::uint64_t known = lookups.known_to_all();
    const std::span<std::byte> slot =
        lookups.has_to_say() ? link.small.slot(*link.inbox) : std::span<std::byte>();
    if (!slot.empty()) {
      const protocol::BulkHeader header{
          .kind = protocol::BulkKind::kHeard, .lane = lane, .clock = clock_, .applied = known};
      std::memcpy(slot.data(), &header, sizeof header);
      if (try_send(link, slot.first(sizeof header), link.small.region())) {
        link.small.sent(link.inbox->sent_position());
        lookups.said(known);
      }
    }
    has_said_all &= lookups.has_said_all();
  }
  link.owes_word = !has_said_all;
}

bool SessionCore::can_do_without(const ServerLink& link) const {
  // Without server 0 nobody says on the clock board that a worker is gone.
  const bool keeps_board = link.server == 0 && lead_.is_limited();
  return options_.outlives_servers && link.server != node() && !is_opening_ && !keeps_board &&
         !links_.any_counts_clocks();
}

/// A server is gone without a goodbye. Returns false if that ends the session.
bool SessionCore::lose(ServerLink& link, const std::string& why) {
  if (link.is_dead) return true;
  if (!can_do_without(link)) {
    has_no_node_ |=
        options_.outlives_servers && link.server == node() && !is_opening_ && !links_.any_counts_clocks();
    return false;
  }
  if (!status_.ok()) return false;
  spdlog::warn("worker {} goes on without a server: {}", options_.rank, why);
  link.is_dead = true;
  link.said_goodbye = true;
  link.open_requests = 0;
  // Servers do not hear of one another. They must know it before this worker asks them about keys that they
  // inherit.
  if (!left_) tell_all(protocol::ServerGone{link.server});
  owes_end_of_moves_ = true;
  for (const std::unique_ptr<TableCore>& table : tables_) table->on_dead_server(link.server);
  running_.on_dead_server(link.server);
  return true;
}

/// A server has heard from another worker that a server is gone. Whom one takes for dead is dead for all:
/// otherwise a row could have two homes.
absl::Status SessionCore::on_server_gone(const ServerLink& from, const protocol::ServerGone& gone) {
  if (gone.server >= links_.size() || gone.server == from.server)
    return absl::InvalidArgumentError(fmt::format("says that server {} is gone", gone.server));
  ServerLink& link = links_[gone.server];
  const std::string why =
      fmt::format("{} is gone, as {} has heard", link.connection->peer_name(), from.connection->peer_name());
  if (!lose(link, why)) fail(absl::UnavailableError(why));
  return absl::OkStatus();
}

/// Of the moves that homes have let it make which are dead now. Until then no census finds these rows.
void SessionCore::say_if_moves_have_ended() {
  if (left_ || !status_.ok()) return;
  const auto has_such_moves = [](const Operation& operation) { return operation.has_moves_of_dead_homes(); };
  if (running_.oldest(has_such_moves) != nullptr) return;
  owes_end_of_moves_ = false;
  tell_all(protocol::MovesEnded{links_.dead()});
}

void SessionCore::on_completion(const transport::Event& event) {
  ServerLink& link = *reinterpret_cast<ServerLink*>(static_cast<std::uintptr_t>(event.connection->user_data));
  if (link.watch && link.watch->on_completion(event)) return;
  const transport::RequestId id(event.id);
  if (id.of() == transport::RequestId::Of::kRead) {
    // A failed read is followed by the end of its connection. If that fails the session, nobody needs to know
    // that the read has ended.
    const bool is_ok = event.result == transport::OperationResult::kOk;
    if (!is_ok && mending_.lose(link)) return;
    if (is_ok || link.is_dead || lose(link, std::string(link.connection->status().message())))
      link.reads.end(id.number());
    return;
  }
  if (link.inbox) link.inbox->on_completion(event);  // none if the hello has failed
}

void SessionCore::start(std::shared_ptr<Operation> operation) {
  running_.start(std::move(operation), status_);
}

absl::Status SessionCore::wait_until(const std::function<bool()>& ready, std::uint32_t timeout_ms,
                                     const std::function<std::string()>& what,
                                     const std::function<void(transport::Duration)>& pause) {
  if (!status_.ok()) return status_;
  if (ready()) return absl::OkStatus();
  if (rows_held_ > 0) {
    // Others may wait for these rows while this worker waits for those others: forever.
    fail(absl::FailedPreconditionError(
        fmt::format("worker {} holds {} rows and would have to wait for {}: release() them before",
                    options_.rank, rows_held_, what())));
    return status_;
  }
  const transport::TimePoint start = transport_->now();
  transport::Duration left = std::chrono::milliseconds(timeout_ms);
  transport::TimePoint now = start;
  transport::TimePoint next_question = start + kWaitSlice;
  bool done = false;
  do {
    if (!poll() && status_.ok()) {
      if (pause) {
        pause(now - start);
      } else {
        transport_->wait(
            std::min(now + std::min<transport::Duration>(left, kWaitSlice), mending_.next_step()));
      }
    }
    const transport::TimePoint before = std::exchange(now, transport_->now());
    left -= std::min<transport::Duration>(now - before, kLongestTurn);
    look_at_servers(now);
    if (options_.on_wait != nullptr && now >= next_question) {
      next_question = now + kWaitSlice;
      if (absl::Status status = options_.on_wait(); !status.ok()) fail(std::move(status));
    }
    done = !status_.ok() || ready();  // once a turn: ready() may send
    if (!done && left <= transport::Duration::zero()) {
      fail(absl::DeadlineExceededError(
          fmt::format("worker {} waited {:.1f} s for {}", options_.rank, timeout_ms / 1000.0, what())));
      done = true;
    }
  } while (!done);
  counters_.waited_seconds += std::chrono::duration<double>(now - start).count();
  return status_;
}

absl::Status SessionCore::wait_for(Operation& operation) {
  while (!operation.ended) {
    // A server's answer comes soon or never; other workers may take long.
    const ServerLink* const server = operation.awaited;
    const auto changed = [&] { return operation.ended || operation.awaited != server; };
    const auto of_server = [&] {
      return fmt::format("{} to answer a {}", server->connection->peer_name(), operation.what);
    };
    const auto of_others = [&] { return operation.other_wait(); };
    absl::Status status = server != nullptr ? wait_until(changed, options_.timeout_ms, of_server)
                                            : wait_until(changed, options_.clock_timeout_ms, of_others);
    if (!status.ok() && !operation.ended) return status;
  }
  return operation.status;
}

bool SessionCore::may_ship_ahead(std::uint64_t rows) {
  if (rows_until_refill_ > rows) {
    rows_until_refill_ -= rows;
    return false;
  }
  rows_until_refill_ = kRowsUntilRefill;
  const transport::TimePoint now = transport_->now();
  bool may = false;
  for (const std::unique_ptr<ServerLink>& link : links_) {
    link->update_budget->refill(now);
    may |= link->update_budget->is_full();
  }
  return may;
}

absl::Status SessionCore::send(ServerLink& link, std::span<const std::byte> message,
                               const transport::MemoryRegion& region) {
  if (link.sent != nullptr) return send_kept(link, {.bytes = message, .region = &region});
  const Sending sending(*this);
  const auto try_send = [&] { return link.inbox->try_send(message, region); };
  transport::SendResult result = try_send();
  if (result == transport::SendResult::kNoCredit) {
    const auto sent = [&] {
      return link.is_dead || (result = try_send()) != transport::SendResult::kNoCredit;
    };
    absl::Status status = wait_until(sent, options_.timeout_ms, [&] {
      return fmt::format("{} to take updates: its inbox is full", link.connection->peer_name());
    });
    if (!status.ok()) return status;
  }
  return result == transport::SendResult::kFailed ? do_without(link) : status_;
}

/// It takes no message, and will not: the reason comes as an event. An error if that ends the session.
absl::Status SessionCore::do_without(ServerLink& link) {
  poll();
  const bool goes_on = link.is_dead || (!link.connection->status().ok() && can_do_without(link));
  if (status_.ok() && !goes_on)
    fail(absl::UnavailableError(fmt::format("{} takes no updates", link.connection->peer_name())));
  return status_;
}

/// To a server whose link may be mended. Returns when the message is sent to the one that serves, whichever
/// that is.
absl::Status SessionCore::send_kept(ServerLink& link, KeptMessage message) {
  const Sending sending(*this);
  transport::SendResult result = transport::SendResult::kNoCredit;
  const auto sent = [&] {
    if (link.is_up()) result = try_send_kept(link, message);
    return link.is_dead || result == transport::SendResult::kSent ||
           (link.is_up() && result == transport::SendResult::kFailed);
  };
  while (result != transport::SendResult::kSent) {
    if (link.is_dead) return status_;
    RETURN_IF_ERROR(wait_until(sent, options_.timeout_ms, [&] {
      return fmt::format("{} to take updates: its inbox is full", link.connection->peer_name());
    }));
    if (result != transport::SendResult::kFailed) continue;
    if (link.connection->status().ok()) {
      fail(absl::UnavailableError(fmt::format("{} takes no updates", link.connection->peer_name())));
      return status_;
    }
    if (!mending_.lose(link)) return do_without(link);
  }
  link.sent->add(message);
  return absl::OkStatus();
}

/// One that is to be kept; if it is sent, it knows where it lies in the server's ring.
transport::SendResult SessionCore::try_send_kept(ServerLink& link, KeptMessage& message) {
  link.sent->forget_up_to(link.inbox->delivered_position());
  std::span<const std::byte> bytes = message.bytes;
  const transport::MemoryRegion* region = message.region;
  if (message.stays && link.reads_in_place) {
    const absl::StatusOr<transport::RemoteDescriptor> granted = link.connection->grant(*message.region);
    if (!granted.ok())
      return absl::IsAborted(granted.status()) ? transport::SendResult::kNoCredit
                                               : transport::SendResult::kFailed;
    const auto offset = static_cast<std::size_t>(bytes.data() - region->bytes().data());
    const auto place = protocol::Descriptor::of(granted->slice(offset, bytes.size()));
    const protocol::BulkHeader header{.kind = protocol::BulkKind::kElsewhere};
    std::memcpy(message.slot->bytes.data(), &header, sizeof header);
    std::memcpy(message.slot->bytes.data() + sizeof header, &place, sizeof place);
    bytes = message.slot->bytes.first(sizeof header + sizeof place);
    region = message.slot->region;
  }
  const transport::SendResult result = link.inbox->try_send(bytes, *region);
  if (result == transport::SendResult::kSent) message.end = link.inbox->sent_position();
  return result;
}

bool SessionCore::ask(ServerLink& link, const protocol::KeyRequests& requests) {
  using Kind = protocol::KeyRequests::Kind;
  const std::size_t answers = protocol::KeyRequests::is_answered(requests.kind) ? requests.rows.size() : 0;
  // Requests that wait for other workers leave room for requests that do not: so that the other workers can
  // go on, this worker must be able to end the moves that it has begun.
  const bool ends_a_move =
      requests.kind == Kind::kHandOver || requests.kind == Kind::kYield || requests.kind == Kind::kMissing;
  const std::size_t most = ends_a_move ? protocol::kMaxOpenRequests : protocol::kMaxOpenRequests / 4;
  if (link.is_dead || !link.control.empty() || (answers > 0 && link.open_requests + answers > most))
    return false;
  link.open_requests += answers;
  control(link, requests);
  return true;
}

bool SessionCore::try_tell(ServerLink& link, const protocol::ControlMessage& message) {
  if (link.is_dead || !link.control.empty()) return false;
  control(link, message);
  return true;
}

bool SessionCore::try_send(ServerLink& link, std::span<const std::byte> message,
                           const transport::MemoryRegion& region) {
  if (!link.is_up()) return false;
  const transport::SendResult result = link.inbox->try_send(message, region);
  if (result == transport::SendResult::kFailed && link.connection->status().ok())
    fail(absl::UnavailableError(fmt::format("{} takes no updates", link.connection->peer_name())));
  if (result != transport::SendResult::kSent) return false;
  if (link.sent != nullptr && protocol::is_logged(base::load_once<protocol::BulkHeader>(message.data()).kind))
    link.sent->add({.bytes = message, .region = &region, .end = link.inbox->sent_position()});
  return true;
}

absl::Status SessionCore::send_small(ServerLink& link, const protocol::BulkHeader& header,
                                     std::span<const std::uint64_t> words) {
  const Sending sending(*this);
  if (link.sent != nullptr && protocol::is_logged(header.kind)) {
    const absl::StatusOr<LocalSpan> slot = link.sent->take_slot();
    if (!slot.ok()) {
      fail(slot.status());
      return status_;
    }
    assert(sizeof header + words.size_bytes() <= SentMessages::kSlotBytes);
    std::memcpy(slot->bytes.data(), &header, sizeof header);
    if (!words.empty()) std::memcpy(slot->bytes.data() + sizeof header, words.data(), words.size_bytes());
    return send_kept(link, {.bytes = slot->bytes.first(sizeof header + words.size_bytes()),
                            .region = slot->region,
                            .slot = *slot});
  }
  const transport::Connection* const connection = link.connection.get();
  // What concerns this connection alone is not said to another copy.
  const auto is_void = [&] { return link.is_dead || link.connection.get() != connection || !link.is_up(); };
  std::span<std::byte> slot;
  absl::Status status = wait_until(
      [&] { return is_void() || !(slot = link.small.slot(*link.inbox)).empty(); }, options_.timeout_ms,
      [&] { return fmt::format("{} to take messages", link.connection->peer_name()); });
  if (!status.ok() || is_void()) return status;
  std::memcpy(slot.data(), &header, sizeof header);
  if (!words.empty()) std::memcpy(slot.data() + sizeof header, words.data(), words.size_bytes());
  const std::span<const std::byte> message = slot.first(sizeof header + words.size_bytes());
  if (link.sent != nullptr) {
    status = wait_until([&] { return is_void() || try_send(link, message, link.small.region()); },
                        options_.timeout_ms,
                        [&] { return fmt::format("{} to take messages", link.connection->peer_name()); });
    if (is_void()) return status;
  } else {
    status = send(link, message, link.small.region());
  }
  link.small.sent(link.inbox->sent_position());
  return status;
}

absl::Status SessionCore::send_place(ServerLink& link, std::span<const std::byte> message,
                                     const transport::MemoryRegion& region) {
  if (link.sent != nullptr) {
    const absl::StatusOr<LocalSpan> slot = link.sent->take_slot();
    if (!slot.ok()) {
      fail(slot.status());
      return status_;
    }
    return send_kept(link, {.bytes = message, .region = &region, .stays = true, .slot = *slot});
  }
  const absl::StatusOr<transport::RemoteDescriptor> granted = link.connection->grant(region);
  if (!granted.ok()) {
    // A server takes grants whenever it polls: whoever does not for so long is no reason to wait.
    const bool has_no_room = absl::IsAborted(granted.status());
    const absl::Status why =
        has_no_room ? absl::ResourceExhaustedError(granted.status().message()) : granted.status();
    if (link.connection->status().ok()) fail(why);
    poll();  // why the connection has ended comes as an event
    return status_;
  }
  const auto offset = static_cast<std::size_t>(message.data() - region.bytes().data());
  const transport::RemoteDescriptor place = granted->slice(offset, message.size());
  const std::array<std::uint64_t, 3> words = {place.address, place.length_bytes, place.key};
  static_assert(sizeof words == sizeof(protocol::Descriptor));
  return send_small(link, {.kind = protocol::BulkKind::kElsewhere}, words);
}

absl::Status SessionCore::ship_all() {
  for (const std::unique_ptr<TableCore>& table : tables_) {
    RETURN_IF_ERROR(table->ship());
  }
  return absl::OkStatus();
}

bool SessionCore::any_table(bool consistency::Rules::*rule) const {
  return std::any_of(tables_.begin(), tables_.end(), [&](const auto& table) { return table->rules().*rule; });
}

absl::Status SessionCore::tell_clock(consistency::Clock clock, Servers which) {
  const consistency::ExampleCounts examples = iteration_.examples_of(clock_);
  const bool tell = clock > clock_ && examples.planned > 0 && any_table(&consistency::Rules::weighs_means);
  const std::array<std::uint64_t, 2> counts = {examples.processed, examples.planned};
  static_assert(sizeof counts == sizeof(protocol::ExampleCounts));
  const protocol::BulkHeader header{
      .kind = protocol::BulkKind::kClock, .count = tell ? 1U : 0U, .clock = clock};
  for (const std::unique_ptr<ServerLink>& link : links_) {
    if (!ServerLinks::is_among(*link, which) || link->told_clock >= clock) continue;
    link->told_clock = clock;
    absl::Status status =
        send_small(*link, header, std::span<const std::uint64_t>(counts).first(tell ? counts.size() : 0));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void SessionCore::end_iteration() {
  if (iteration_.has_ended(clock_) || !any_table(&consistency::Rules::ends_early)) return;
  iteration_.end(clock_);
  said_end_ = clock_;
  // Sent before the updates, so that the others need not wait for the updates to hear of it. One server tells
  // all.
  control(links_.front(), protocol::EndIteration{clock_});
}

template <class Concerned>
absl::Status SessionCore::wait_for_operations(const Concerned& concerned) {
  for (;;) {
    const std::shared_ptr<Operation> operation = running_.oldest(concerned);
    if (operation == nullptr) return status_;
    // The status of the operation is for the caller that began it.
    static_cast<void>(wait_for(*operation));
    if (!status_.ok()) return status_;
  }
}

/// Waits until all updates that tables hold back are sent, and all operations that must have ended have
/// ended.
absl::Status SessionCore::settle_tables(Milestone milestone) {
  bool all = false;
  while (!all) {
    all = true;
    for (const std::unique_ptr<TableCore>& table : tables_) all &= table->settle();
    absl::Status status =
        wait_for_operations([&](const Operation& operation) { return operation.must_end_before(milestone); });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

/// Only after this may this worker tell its clock, which goes to other servers.
absl::Status SessionCore::send_put_off() {
  const auto all_sent = [&] {
    return std::all_of(tables_.begin(), tables_.end(),
                       [](const auto& table) { return table->send_put_off(); });
  };
  return wait_until(all_sent, options_.timeout_ms,
                    [] { return std::string("the servers to take word of intents that are over"); });
}

absl::Status SessionCore::clock() {
  RETURN_IF_ERROR(advance(/*is_barrier=*/false));
  return take_lost();
}

absl::Status SessionCore::advance(bool is_barrier) {
  if (scans_ == 0) mending_.forget_former();
  absl::Status status = wait_for_operations(
      [](const Operation& operation) { return operation.must_end_before(Milestone::kClock); });
  if (!status.ok()) return status;
  if (status = ship_all(); !status.ok()) return status;
  for (const std::unique_ptr<TableCore>& table : tables_) table->on_clock_ends();
  if (links_.any_counts_clocks() || lead_.is_limited()) {
    if (status = send_put_off(); !status.ok()) return status;
  }
  if (status = tell_clock(clock_ + 1, Servers::kCounting); !status.ok()) return status;
  ++clock_;
  if (!is_catching_up()) lead_.tell(clock_);
  poll();
  if (!status_.ok()) return status_;
  for (const std::unique_ptr<TableCore>& table : tables_) table->on_clock_begins(is_barrier);
  status = wait_for_operations([&](const Operation& operation) { return operation.is_overdue(clock_); });
  if (!status.ok()) return status;
  consistency::Clock needed = 0;
  std::size_t staleness = 0;
  for (const std::unique_ptr<TableCore>& table : tables_) {
    const consistency::Rules& rules = table->rules();
    needed = std::max(needed, consistency::min_clock_needed(table->rules().clock_bound, clock_));
    if (rules.holds_updates_back) {
      // Its updates wait for other workers: so does who only pushes, or they would be more and more.
      const consistency::Clock most_ahead = std::min(rules.read_bound, consistency::kNoBound / 2) +
                                            static_cast<consistency::Clock>(kSpareOutstanding);
      needed = std::max(needed, consistency::min_clock_needed(most_ahead, clock_));
      continue;
    }
    staleness = std::max<std::size_t>(staleness, consistency::staleness(table->options().consistency));
  }
  if (status = wait_for_min_clock(needed, Servers::kCounting); !status.ok()) return status;
  if (status = keep_lead(); !status.ok()) return status;
  for (const std::unique_ptr<TableCore>& table : tables_) {
    if (status = table->bound_in_transit(); !status.ok()) return status;
  }
  links_.start_clock();
  start_epoch();
  const std::size_t most = std::min(staleness, kMostStaleOutstanding) + kSpareOutstanding;
  const auto few = [&] {
    return std::all_of(tables_.begin(), tables_.end(), [&](const auto& table) {
      return table->rules().holds_updates_back || table->most_outstanding() <= most;
    });
  };
  return wait_until(few, options_.timeout_ms,
                    [] { return std::string("the servers to apply updates of earlier clocks"); });
}

absl::Status SessionCore::barrier() {
  return barrier_after(Milestone::kBarrier);
}

absl::Status SessionCore::barrier_for_cut() {
  is_cutting_ = true;
  const absl::Status status = barrier_after(Milestone::kCut);
  is_cutting_ = false;
  return status;
}

absl::Status SessionCore::barrier_after(Milestone milestone) {
  RETURN_IF_ERROR(settle_tables(milestone));
  RETURN_IF_ERROR(advance(/*is_barrier=*/true));
  RETURN_IF_ERROR(tell_clock(clock_, Servers::kAll));
  RETURN_IF_ERROR(wait_for_min_clock(clock_, Servers::kAll));
  barrier_clock_ = clock_;
  start_epoch();
  return take_lost();
}

void SessionCore::tell_all(const protocol::ControlMessage& message) {
  for (const std::unique_ptr<ServerLink>& link : links_) control(*link, message);
}

absl::Status SessionCore::limit_lead(std::uint32_t clocks) {
  lead_.tell(clock_);  // also if it has told no server
  RETURN_IF_ERROR(barrier());
  if (options_.workers == 1) return absl::OkStatus();
  // The board goes with server 0.
  if (!mending_.servers_may_move() && lead_.limit(clocks)) return absl::OkStatus();
  // The table holds nothing. Because of its consistency model the servers count clocks, and clock() waits.
  return open_table({.name = fmt::format("verbena.lead:{}", clocks),
                     .rows = 1,
                     .width = 1,
                     .consistency = BoundedDelay{.delay = clocks}},
                    ValueType::kFloat)
      .status();
}

absl::Status SessionCore::keep_lead() {
  return wait_until([&] { return lead_.is_kept(clock_); }, options_.clock_timeout_ms,
                    [&] { return fmt::format("other workers at clock {}: {}", clock_, lead_.slowest()); },
                    [&](transport::Duration waited) { lead_.wait(clock_, *transport_, waited); });
}

std::string SessionCore::clocks_awaited(std::string_view operation) const {
  return fmt::format("other workers in a {} at clock {}: {}", operation, clock_,
                     links_.slowest_lane(Servers::kCounting));
}

absl::Status SessionCore::wait_for_min_clock(consistency::Clock clock, Servers which) {
  return wait_until([&] { return links_.all_lanes_at(clock, which); }, options_.clock_timeout_ms,
                    [&] {
                      return fmt::format("all workers to finish clock {}: {}", clock - 1,
                                         links_.slowest_lane(which));
                    });
}

/// Sends what this worker has not sent yet, before it says nothing more.
absl::Status SessionCore::send_the_rest() {
  // How it ends was said already.
  static_cast<void>(checkpointing_.finish());
  if (!status_.ok()) return status_;
  for (const std::unique_ptr<TableCore>& table : tables_) table->on_leaving();
  RETURN_IF_ERROR(settle_tables(Milestone::kLeaving));
  for (const std::unique_ptr<TableCore>& table : tables_) table->on_settled();
  RETURN_IF_ERROR(send_put_off());
  return ship_all();
}

absl::Status SessionCore::leave() {
  if (left_ || !status_.ok()) return status_;
  RETURN_IF_ERROR(send_the_rest());
  // This worker's last updates are weighted by its examples, although the clock was not finished.
  if (iteration_.has_begun(clock_) && any_table(&consistency::Rules::weighs_means)) {
    RETURN_IF_ERROR(tell_clock(clock_ + 1, Servers::kCounting));
  }
  left_ = true;
  for (const std::unique_ptr<ServerLink>& link : links_) control(*link, protocol::Goodbye{});
  const auto parted = [&] {
    return std::all_of(links_.begin(), links_.end(), [](const auto& link) { return link->said_goodbye; });
  };
  return wait_until(parted, options_.timeout_ms, [] { return std::string("the servers' goodbye"); });
}

/// To a server that waits for those that take workers' places, giving up is as a death. It ends the
/// connection when it has heard that, and so all that was said before.
absl::Status SessionCore::step_aside() {
  if (left_ || !status_.ok()) return status_;
  RETURN_IF_ERROR(send_the_rest());
  // Then each server knows of the same clock, and nothing is done again.
  RETURN_IF_ERROR(tell_clock(clock_, Servers::kAll));
  steps_aside_ = true;
  for (const std::unique_ptr<ServerLink>& link : links_) {
    if (link->is_up()) say_that_it_steps_aside(*link);  // to others when they are
  }
  const auto is_parted = [](const auto& link) { return link->said_goodbye; };
  const absl::Status parted =
      wait_until([&] { return std::all_of(links_.begin(), links_.end(), is_parted); }, options_.timeout_ms,
                 [] { return std::string("the servers to part from this worker"); });
  left_ = true;
  return parted;
}

void SessionCore::say_that_it_steps_aside(ServerLink& link) {
  say(link, protocol::Failed{static_cast<std::uint32_t>(absl::StatusCode::kAborted),
                             "another process takes its place"});
}

void SessionCore::give_up(const absl::Status& why) {
  if (left_) return;
  if (has_no_node_) {
    // This worker is as dead as its node. The servers will find that out, and the other workers go on.
    left_ = true;
    return;
  }
  for (const std::unique_ptr<ServerLink>& link : links_) {
    if (link->connection->status().ok())
      control(*link, protocol::Failed{static_cast<std::uint32_t>(absl::StatusCode::kAborted),
                                      std::string(why.message())});
  }
  // A server that knows the reason answers with Failed, too. Until then it may write into this worker's
  // memory, and would take the end of that memory for the reason.
  const auto told = [&] {
    return std::all_of(links_.begin(), links_.end(), [](const auto& link) {
      const bool known = link->lanes.empty() || link->said_failed || link->is_refused;
      return (link->control.empty() && known) || !link->connection->status().ok();
    });
  };
  // Its operations end here: whoever gives up need not keep the memory into which they would bring rows.
  fail(absl::AbortedError(fmt::format("this worker gave up: {}", std::string(why.message()))));
  running_.step(status_);
  const transport::TimePoint end = transport_->now() + kPartingPatience;
  while (!told() && transport_->now() < end) {
    if (!poll()) transport_->wait(end);
  }
  left_ = true;
}

void SessionCore::fail(absl::Status status) {
  if (!status_.ok()) return;
  status_ = std::move(status);
  start_epoch();
}

void SessionCore::note_lost(const absl::Status& why) {
  if (lost_updates_.ok()) lost_updates_ = why;
}

void SessionCore::add_posted(const transport::Connection& connection, SessionStatistics& statistics) {
  const transport::Connection::Posted& posted = connection.posted();
  statistics.requests_posted += posted.requests;
  statistics.bytes_posted += posted.bytes;
  statistics.doorbells_rung += posted.doorbells;
}

SessionStatistics SessionCore::statistics() const {
  SessionStatistics statistics = counters_;
  for (const std::unique_ptr<TableCore>& table : tables_) statistics.staleness.merge(table->staleness());
  for (const std::unique_ptr<ServerLink>& link : links_) add_posted(*link->connection, statistics);
  return statistics;
}

}  // namespace verbena::worker
