#include "server/server.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "consistency/rules.hpp"
#include "protocol/eviction.hpp"
#include "protocol/log_record.hpp"
#include "protocol/server_function.hpp"
#include "server/fixed_shard.hpp"
#include "server/function_run.hpp"
#include "server/sparse_shard.hpp"

namespace verbena::server {

namespace {

/// The time until a row's lock is tried again: its holder needs less, if it has a processor.
constexpr auto kLockPatience = std::chrono::microseconds(20);
/// The time until a worker is tried again that did not take what it was granted: it wakes up for messages.
constexpr auto kReaderPatience = std::chrono::milliseconds(1);
/// For workers that have to be told that their goodbye was heard.
constexpr auto kPartingPatience = std::chrono::seconds(2);
// The weights can take all counts that the protocol lets through.
static_assert(protocol::kMaxExamples == consistency::kMaxExamples);

std::uint32_t lanes_of(const ServerOptions& options) {
  return options.lanes > 0 ? options.lanes : std::max(2U, options.threads) - 1;
}

absl::Status with_name(const std::string& name, const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("{}: {}", name, std::string(status.message())));
}

Sender sender_of(const Peer& peer) {
  // What comes through the log has been checked by the copy that serves.
  const std::size_t most =
      peer.inbox ? protocol::max_bulk_bytes(peer.inbox->capacity_bytes()) : protocol::kMaxLoggedBytes;
  return {{peer.worker, peer.node}, peer.clock, most};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::create(transport::Transport& transport,
                                                       const ServerOptions& options,
                                                       std::uint32_t keys_of_segment,
                                                       const ImageGrain& image_grain) {
  if (options.workers == 0 || options.workers > protocol::kMaxWorkers) {
    return absl::InvalidArgumentError(
        fmt::format("a server needs 1 to {} workers, not {}", protocol::kMaxWorkers, options.workers));
  }
  if (options.rank >= options.servers) {
    return absl::InvalidArgumentError(
        fmt::format("server {} of {}: ranks count from 0", options.rank, options.servers));
  }
  if (!(options.push_budget_mb_per_s >= 0) || !std::isfinite(options.push_budget_mb_per_s)) {
    return absl::InvalidArgumentError(
        fmt::format("a push budget of {} MB/s: expected 0 or more", options.push_budget_mb_per_s));
  }
  const std::uint32_t lanes = lanes_of(options);
  if (lanes > protocol::kMaxLanes) {
    return absl::InvalidArgumentError(
        fmt::format("a server has 1 to {} lanes, not {}", protocol::kMaxLanes, lanes));
  }
  if (options.backup_every_ms > 0 && !options.outlives_workers) {
    return absl::InvalidArgumentError(
        "a server backs up rows only where the job goes on when a node dies: let it outlive workers, too");
  }
  RETURN_IF_ERROR(transport::check_silence_timeout(options.silence_timeout_ms));
  auto heartbeat = transport::Heartbeat::create(transport);
  if (!heartbeat.ok()) return heartbeat.status();
  std::unique_ptr<transport::MemoryRegion> clock_board;
  if (options.rank == 0) {
    auto region = transport.allocate_region(protocol::ClockBoard::bytes_for(options.workers),
                                            transport::Access::kRemoteReadHostWrite);
    if (!region.ok()) return region.status();
    clock_board = *std::move(region);
  }
  RETURN_IF_ERROR(transport.listen(options.address));
  return std::unique_ptr<Server>(new Server(transport, options, *std::move(heartbeat), std::move(clock_board),
                                            keys_of_segment, image_grain));
}

Server::Server(transport::Transport& transport, ServerOptions options,
               std::unique_ptr<transport::Heartbeat> heartbeat,
               std::unique_ptr<transport::MemoryRegion> clock_board_memory, std::uint32_t keys_of_segment,
               const ImageGrain& image_grain)
    : transport_(transport),
      options_(std::move(options)),
      placement_(options_.servers),
      heartbeat_(std::move(heartbeat)),
      clock_board_memory_(std::move(clock_board_memory)),
      region_desk_([this](RegionDesk::Order& order) { carry_out(order); },
                   [this] { transport_.interrupt(); }),
      shards_(transport, region_desk_,
              {.server = options_.rank,
               .placement = placement_,
               .lanes = lanes_of(options_),
               .workers = options_.workers,
               .has_push_budget = options_.push_budget_mb_per_s > 0,
               .keys_of_segment = keys_of_segment}),
      workers_(options_.workers),
      chain_(transport, options_, lanes_of(options_), image_grain, workers_, *this),
      job_view_{
          .server = options_.rank,
          .servers = options_.servers,
          .lanes = lanes_of(options_),
          .host = *this,
          .shards = shards_,
          .workers = workers_,
          .reply = [this](Peer& peer, const protocol::ControlMessage& message) { reply(peer, message); }},
      saving_(job_view_, [this] { transport_.interrupt(); }),
      succession_(job_view_,
                  [this] {
                    if (backup_) backup_->on_rest();
                  }),
      observers_(job_view_),
      reception_({.transport = transport,
                  .options = options_,
                  .lanes = lanes_of(options_),
                  .chain = chain_,
                  .heartbeat = *heartbeat_,
                  .clock_board = clock_board_memory_.get(),
                  .workers = workers_},
                 *this),
      absences_(transport, options_, workers_, *this),
      strangers_(options_.workers),
      image_grain_(image_grain) {
  if (options_.backup_every_ms > 0 && options_.servers > 1)
    backup_.emplace(transport, options_, shards_, succession_.heirs(), static_cast<Backup::Host&>(*this));
  if (clock_board_memory_) clock_board_ = {clock_board_memory_->bytes().data(), options_.workers};
  std::vector<transport::TokenBucket*> budgets;
  for (std::uint32_t worker = 0; options_.push_budget_mb_per_s > 0 && worker < options_.workers; ++worker)
    budgets.push_back(&push_budgets_.emplace_back(options_.push_budget_mb_per_s * 1e6, transport.now()));
  for (std::uint32_t lane = 0; lane < lanes_of(options_); ++lane) {
    lanes_.push_back(std::make_unique<Lane>(lane, options_.workers, budgets));
    if (chain_.is_replicated() || transport_.connections_may_break()) lanes_.back()->keep_what_is_told();
  }
  for (std::uint32_t worker = 0; chain_.is_replicated() && worker < options_.workers; ++worker) {
    workers_[worker] = peers_.emplace_back(std::make_unique<Peer>()).get();
    workers_[worker]->worker = worker;
  }
}

Server::~Server() = default;

bool Server::finished() const {
  if (!status_.ok()) return all_know_why();
  const auto has_goodbye = [](const std::unique_ptr<Peer>& peer) {
    return !(peer->is_worker() || peer->is_copy()) || !peer->connection || peer->control.empty();
  };
  if (!std::all_of(peers_.begin(), peers_.end(), has_goodbye)) return false;
  if (chain_.may_follower_come()) return false;
  if (!chain_.serves()) return chain_.is_dismissed();
  return progress_.left == options_.workers && !waits_for_partings();
}

/// Of a job that has failed: a worker that comes late must learn the reason, too, and not only that a server
/// has ended.
bool Server::all_know_why() const {
  const auto is_there = [](const std::unique_ptr<Peer>& peer) {
    return peer->is_worker() && peer->connection;
  };
  if (std::any_of(peers_.begin(), peers_.end(), is_there)) return false;
  if (!chain_.serves() || has_stepped_aside_) return true;
  for (std::uint32_t worker = 0; worker < options_.workers; ++worker) {
    if (workers_[worker] == nullptr && !came_too_late_.contains(worker)) return false;
  }
  const auto is_told = [](const std::unique_ptr<Peer>& peer) { return !peer->refused || peer->closed; };
  return std::all_of(peers_.begin(), peers_.end(), is_told);
}

/// Workers whose goodbye was heard by the copy that served before this one may not have been answered.
bool Server::waits_for_partings() const {
  if (transport_.now() > serves_since_ + kPartingPatience) return false;
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const Peer* worker) { return worker->messages > 0 && !worker->has_welcome; });
}

bool Server::receive() {
  heartbeat_->count_turn();
  std::swap(intents_, heeding_);
  const std::size_t count = transport_.poll(events_);
  for (const transport::Event& event : std::span(events_).first(count)) on_event(event);
  bool worked = count > 0 || !heeding_.empty();
  take_intents();
  if (chain_.is_replicated()) worked |= chain_.poll();
  if (reception_.has_waiting() && status_.ok()) reception_.take_waiting();
  strangers_.part(transport_, [&](Peer& peer) { to_do_.add(peer); });
  if (!push_budgets_.empty()) refill_budgets();
  absences_.poll(count == 0);
  return worked;
}

bool Server::send() {
  take_outgoing();
  bool worked = region_desk_.serve();
  worked |= try_again();
  // What has left, before look_after() lets those who have it go on.
  if (backup_ && status_.ok()) worked |= backup_->poll();
  worked |= step_opening();
  worked |= saving_.step();
  waits_for_reader_ = false;
  to_do_.for_each_once([&](Peer& peer) {
    worked |= look_after(peer);
    if (peer.is_busy()) to_do_.add(peer);
  });
  if (std::exchange(dropped_, false)) {
    strangers_.forget_dropped();
    observers_.forget_dropped();
    to_do_.forget_dropped();
    reception_.forget_dropped();
    std::erase_if(peers_, [](const auto& peer) { return !peer->is_worker() && !peer->connection; });
  }
  return worked;
}

bool Server::look_after(Peer& peer) {
  if (!peer.connection) return false;
  if (!peer.closed) peer.control.flush(*peer.connection);
  if (!peer.announcements.empty()) {
    if (!peer.is_there()) peer.announcements.clear();
    if (const absl::Status status = announce(peer); !status.ok()) fail(status);
  }
  send_answers(peer);
  observers_.send(peer);
  bool worked = release_inbox(peer);
  if (peer.pushes && peer.pushes->is_connected()) worked |= send_outgoing(peer);
  return drop_if_closed(peer) || worked;
}

Peer& Server::add_peer(std::unique_ptr<transport::Connection> connection) {
  Peer& peer = *peers_.emplace_back(std::make_unique<Peer>());
  connection->user_data = reinterpret_cast<std::uintptr_t>(&peer);
  peer.connection = std::move(connection);
  return peer;
}

void Server::on_event(const transport::Event& event) {
  if (event.kind == transport::Event::Kind::kAccepted) {
    while (std::unique_ptr<transport::Connection> connection = transport_.take_accepted()) {
      Peer& peer = add_peer(std::move(connection));
      // An answer would sound as if the job had failed.
      has_stepped_aside_ ? drop(peer) : strangers_.add(peer, transport_.now());
    }
    return;
  }
  Peer& peer = *reinterpret_cast<Peer*>(static_cast<std::uintptr_t>(event.connection->user_data));
  to_do_.add(peer);
  const bool is_said =
      event.kind == transport::Event::Kind::kMessage || event.kind == transport::Event::Kind::kNotification;
  if (peer.closed || (peer.refused && is_said)) return;
  absl::Status status;
  switch (event.kind) {
    case transport::Event::Kind::kMessage:
      on_message(peer, event.message);
      break;
    case transport::Event::Kind::kNotification:
      status = on_notification(peer, event.notification);
      break;
    case transport::Event::Kind::kCompletion:
      if (peer.watch && peer.watch->on_completion(event)) break;
      if (peer.pushes && peer.pushes->is_connected()) peer.pushes->ring().on_completion(event);
      if (peer.log) peer.log->ring().on_completion(event);
      if (peer.takes_them) peer.takes_them->ring().on_completion(event);
      break;
    case transport::Event::Kind::kDisconnected:
      on_disconnected(peer);
      break;
    case transport::Event::Kind::kAccepted:
      break;
  }
  if (!status.ok()) reject(peer, status);
}

/// A worker that says something after its hello has the welcome. Before, lanes must not push to it: what they
/// push can overtake the welcome, without which it cannot be read. One that is back still reads what the copy
/// before this one had, until it says that it has adopted this one: clocks told before would promise too
/// much.
void Server::hear(Peer& peer) {
  if (!peer.is_worker() || (peer.has_come_back && !peer.has_adopted) || std::exchange(peer.has_welcome, true))
    return;
  peer.pushes->give_buffers_to(lanes_, peer.worker);
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane)
    enqueue(lane, {.kind = LaneTask::Kind::kTell, .worker = peer.worker});
}

/// A worker of this server, or of the copy before it, is one of the copy that serves now, as all copies hear
/// at this place of their log.
void Server::on_adopted(const WorkerMessage& record) {
  Peer& worker = *record.worker;
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane)
    enqueue(lane, {.kind = LaneTask::Kind::kBack, .worker = worker.worker});
  // Otherwise it is of another copy, or the connection has broken since.
  if (record.is_forwarded || record.times_back != worker.times_back) return;
  worker.has_adopted = true;
  hear(worker);
}

void Server::on_message(Peer& peer, std::span<const std::byte> bytes) {
  absl::StatusOr<protocol::ControlMessage> message = protocol::decode_control(bytes);
  absl::Status status = message.status();
  hear(peer);
  if (status.ok()) {
    const bool is_of_images = std::holds_alternative<protocol::BackedUp>(*message) ||
                              std::holds_alternative<protocol::Failed>(*message);
    if (peer.is_other_server() && !is_of_images) {
      status = absl::FailedPreconditionError("sends or keeps images, and says something else");
    } else if (const auto* hello = std::get_if<protocol::Hello>(&*message)) {
      if (!status_.ok() && hello->worker < options_.workers) came_too_late_.insert(hello->worker);
      status = status_.ok() ? reception_.on_hello(peer, *hello) : status_;
    } else if (protocol::comes_from_observer(*message)) {
      status = status_.ok() ? observers_.on_message(peer, *message, [this] { return observed(); }) : status_;
    } else if (const auto* follow = std::get_if<protocol::Follow>(&*message)) {
      status = status_.ok() ? chain_.on_follow(peer, *follow) : status_;
    } else if (const auto* followed = std::get_if<protocol::Followed>(&*message)) {
      status = chain_.on_followed(peer, *followed);
    } else if (const auto* back_up = std::get_if<protocol::BackUp>(&*message)) {
      status = on_back_up(peer, *back_up);
    } else if (const auto* backed_up = std::get_if<protocol::BackedUp>(&*message)) {
      status = peer.sends_images ? backup_->on_backed_up(peer, *backed_up)
                                 : absl::FailedPreconditionError("answers what nobody has said");
    } else if (const auto* ended = std::get_if<protocol::Failed>(&*message); ended && !peer.is_worker()) {
      // It was refused and takes its leave, or the job has ended where this server follows.
      if (peer.is_predecessor && chain_.ends_with(peer)) fail(absl::AbortedError(ended->reason));
    } else if (peer.is_copy() && std::holds_alternative<protocol::Goodbye>(*message)) {
      chain_.on_goodbye(peer);
    } else if (!peer.is_worker()) {
      status = absl::FailedPreconditionError("spoke before its hello");
    } else if (std::holds_alternative<protocol::Adopted>(*message) &&
               (!peer.has_come_back || peer.has_adopted)) {
      status = absl::FailedPreconditionError("has adopted nothing");
    } else if (peer.left) {
      // One that is back may not know that its goodbye was heard.
      const bool has_adopted = std::holds_alternative<protocol::Adopted>(*message);
      peer.has_adopted |= has_adopted;
      hear(peer);
      if (!peer.has_come_back || !(has_adopted || std::holds_alternative<protocol::Goodbye>(*message)))
        status = absl::FailedPreconditionError("spoke after its goodbye");
    } else if (protocol::is_logged(*message)) {
      status = chain_.take({.worker = &peer, .times_back = peer.times_back, .control = *std::move(message)});
    } else if (const auto* save = std::get_if<protocol::SaveRows>(&*message)) {
      status = saving_.on_save_rows(peer, *save);
    } else if (const auto* saved = std::get_if<protocol::PartSaved>(&*message)) {
      status = saving_.on_part_saved(peer, *saved);
    } else if (auto* requests = std::get_if<protocol::KeyRequests>(&*message)) {
      if (requests->kind == protocol::KeyRequests::Kind::kIntend) {
        intents_.push_back({peer.worker, std::move(*requests)});
      } else {
        status = on_key_requests(peer, *requests);
      }
    } else if (const auto* gone = std::get_if<protocol::ServerGone>(&*message)) {
      status = succession_.on_server_gone(peer, *gone);
      if (status.ok() && backup_) backup_->on_server_gone(gone->server);
    } else if (const auto* at = std::get_if<protocol::ServerAt>(&*message)) {
      status = backup_ ? backup_->on_address(*at)
                       : absl::FailedPreconditionError("says where servers are, and nobody has asked");
    } else if (const auto* moves_ended = std::get_if<protocol::MovesEnded>(&*message)) {
      status = succession_.on_moves_ended(peer, *moves_ended);
    } else if (const auto* found = std::get_if<protocol::KeyAnswers>(&*message)) {
      status = succession_.on_found(peer, *found);
    } else if (const auto* census = std::get_if<protocol::Census>(&*message)) {
      status = succession_.on_census(peer, *census);
      give_answers(census->table);
    } else if (const auto* failed = std::get_if<protocol::Failed>(&*message)) {
      on_failed(peer, *failed);
    } else {
      status = absl::InvalidArgumentError("sent what only a server sends");
    }
  }
  if (!status.ok()) reject(peer, status);
}

absl::Status Server::on_back_up(Peer& peer, const protocol::BackUp& back_up) {
  if (!status_.ok()) return status_;
  if (peer.is_worker() || peer.hello || peer.is_observer || peer.is_copy())
    return absl::FailedPreconditionError("is known, and wants to keep images");
  if (!backup_) {
    return absl::FailedPreconditionError(
        "wants to keep images of rows, which this server does not send: start all servers of the job with "
        "the "
        "same options");
  }
  return backup_->on_back_up(peer, back_up);
}

absl::Status Server::welcomed(Peer& worker, bool is_back) {
  if (is_back) RETURN_IF_ERROR(take_back(worker));
  if (progress_.ended >= 0) tell_end_of_iteration(worker);
  return absl::OkStatus();
}

/// What the process before it has said of clocks that it has finished stays; shards forget what only that one
/// could refer to.
void Server::replaced(Peer& worker) {
  for (const std::unique_ptr<TableShard>& shard : shards_)
    shard->on_goodbye({worker.worker, worker.node}, *this);
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane)
    enqueue(lane, {.kind = LaneTask::Kind::kReplace, .worker = worker.worker});
  saving_.on_replaced(worker);
}

/// It has lost what it knew of tables, and has heard nothing of this copy's lanes, or forgotten it.
absl::Status Server::take_back(Peer& worker) {
  worker.come_back();
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane)
    enqueue(lane, {.kind = LaneTask::Kind::kMute, .worker = worker.worker});
  if (!is_told_later(worker)) RETURN_IF_ERROR(tell_tables_again(worker));
  if (worker.left) reply(worker, protocol::Goodbye{});
  return absl::OkStatus();
}

/// All that this copy has is told when all have come, and in its order: a region that is added meanwhile is
/// not told alone, before those that the worker does not know.
bool Server::is_told_later(const Peer& worker) const {
  return worker.has_come_back && chain_.waits_for_workers();
}

/// Without knowing where they are, it reads nothing here.
absl::Status Server::tell_tables_again(Peer& worker) {
  for (std::uint32_t table = 0; table < worker.tables_opened; ++table)
    list_announcements(worker, shards_[table]);
  return announce(worker);
}

void Server::all_have_come() {
  for (Peer* const worker : workers_) {
    if (!worker->is_there() || !worker->has_come_back) continue;
    if (const absl::Status status = tell_tables_again(*worker); !status.ok()) reject(*worker, status);
  }
}

bool Server::acknowledges_at_once() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const std::unique_ptr<TableShard>& shard) {
    const FixedShard* const fixed = shard->for_lanes();
    return fixed != nullptr && fixed->rules.acknowledges_at_once();
  });
}

/// A configuration says that this copy serves from now on.
void Server::serve() {
  serves_since_ = transport_.now();
  dismiss_copies();
}

void Server::begin_catching_up() {
  lanes_behind_ = std::make_shared<std::atomic<std::uint32_t>>(static_cast<std::uint32_t>(lanes_.size()));
  const auto task = std::make_shared<const StateTask>(StateTask{.behind = lanes_behind_});
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane)
    enqueue(lane, {.kind = LaneTask::Kind::kState, .state = task});
}

/// Acquire: pairs with the lanes' release; whoever reads rows after that finds them as lanes have left them.
bool Server::has_caught_up() const {
  return lanes_behind_ == nullptr || lanes_behind_->load(std::memory_order_acquire) == 0;
}

absl::Status Server::go_by(const WorkerMessage& record) {
  Peer& peer = *record.worker;
  if (!record.control) return go_by(peer, record.message, *record.inbox);
  if (const auto* open = std::get_if<protocol::OpenTable>(&*record.control))
    return on_open_table(peer, *open);
  if (const auto* end = std::get_if<protocol::EndIteration>(&*record.control))
    return on_end_iteration(peer, end->clock);
  if (const auto* hello = std::get_if<protocol::Hello>(&*record.control))
    return reception_.replace(record, *hello);
  if (std::holds_alternative<protocol::Goodbye>(*record.control)) {
    on_goodbye(peer);
  } else if (std::holds_alternative<protocol::Adopted>(*record.control)) {
    on_adopted(record);
  } else {
    return absl::InvalidArgumentError("the log has what does not belong into it");
  }
  return absl::OkStatus();
}

/// Lanes write what they have when they come to this place of their tasks.
bool Server::begin_image(bool must) {
  if (!opening_.empty()) return false;  // rows are still being loaded
  if (!must && holds_back_much()) return false;
  lane_images_ = std::make_shared<LaneImages>(
      static_cast<std::uint32_t>(lanes_.size()), image_grain_, [this] { transport_.interrupt(); },
      [this](std::uint32_t lane) {
        if (wake_lane_) wake_lane_(lane);
      });
  image_head_ = write_head(shards_, workers_, progress_);
  const auto task = std::make_shared<const StateTask>(StateTask{.image = lane_images_});
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane)
    enqueue(lane, {.kind = LaneTask::Kind::kState, .state = task});
  return true;
}

/// Under models that hold updates back, and with rules that take one step a clock, lanes have least to write
/// when all updates are of clocks that have ended.
bool Server::holds_back_much() const {
  return std::any_of(workers_.begin(), workers_.end(),
                     [this](const Peer* worker) { return !worker->left && worker->clock <= held_back_of_; });
}

std::optional<Image> Server::take_image() {
  if (!lane_images_->are_written()) return std::nullopt;
  return make_image(std::move(image_head_), std::exchange(lane_images_, nullptr));
}

void Server::forget_image() {
  if (lane_images_ != nullptr) lane_images_->give_up();
  lane_images_.reset();
}

absl::StatusOr<ImageBulk> Server::load(std::string_view head) {
  absl::StatusOr<LoadedHead> loaded =
      load_head(head, shards_, workers_, static_cast<std::uint32_t>(lanes_.size()));
  if (!loaded.ok()) return loaded.status();
  progress_ = loaded->progress;
  images_of_lanes_ = std::move(loaded->lanes);
  return std::move(loaded->bulk);
}

void Server::go_on_from_image() {
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    for (const std::unique_ptr<TableShard>& shard : shards_)
      enqueue(lane, {.kind = LaneTask::Kind::kOpen, .shard = shard->for_lanes()});
    enqueue(lane, {.kind = LaneTask::Kind::kState,
                   .state = std::make_shared<const StateTask>(StateTask{.read = images_of_lanes_[lane]})});
  }
  images_of_lanes_.clear();
  for (const Peer* const worker : workers_) {
    if (worker->left && clock_board_.is_mapped()) clock_board_.leave(worker->worker);
  }
}

void Server::drop(Peer& peer) {
  peer.closed = true;
  to_do_.add(peer);
}

protocol::Observed Server::observed() const {
  consistency::Clock clock = consistency::VectorClock::kLeft;
  for (const Peer* const worker : workers_) {
    if (worker == nullptr || !worker->left) clock = std::min(clock, worker == nullptr ? 0 : worker->clock);
  }
  return {.server = options_.rank,
          .servers = options_.servers,
          .workers = options_.workers,
          .left = progress_.left,
          .lanes = static_cast<std::uint32_t>(lanes_.size()),
          .tables = static_cast<std::uint32_t>(shards_.size()),
          .clock = clock};
}

absl::Status Server::on_open_table(Peer& peer, const protocol::OpenTable& open) {
  // A worker that is back says again what it does not know to have been heard.
  const bool is_known =
      open.table < peer.tables_opened || (open.table == peer.tables_opened && peer.waits_for_table);
  if (says_again(peer) && is_known) return absl::OkStatus();
  if (open.table != peer.tables_opened || peer.waits_for_table) {
    return absl::InvalidArgumentError(
        fmt::format("opens table {} after {} tables", open.table, peer.tables_opened));
  }
  const absl::StatusOr<TableShard*> shard = open_shard(open);
  if (!shard.ok()) return shard.status();
  if (peer.connection != nullptr) RETURN_IF_ERROR(check_rings(peer, **shard));
  // One that follows goes by what comes next, as all copies do, however long its own load takes: its lanes
  // use nothing before that.
  if (!opening_.is_under_way(open.table) || !chain_.serves()) return tell_opened(peer, **shard);
  peer.waits_for_table = true;
  opening_.wait(open.table, peer);
  return absl::OkStatus();
}

absl::Status Server::check_rings(const Peer& peer, const TableShard& shard) {
  const std::size_t record = sizeof(protocol::BulkHeader) + shard.row_message_bytes();
  const std::size_t most =
      std::min(protocol::max_bulk_bytes(peer.inbox->capacity_bytes()), peer.pushes->message_bytes());
  if (record > most) {
    return absl::InvalidArgumentError(
        fmt::format("a row of table \"{}\" needs {} bytes in a message, the rings of worker {} take {}: ask "
                    "for larger rings",
                    shard.table.name, record, peer.worker, most));
  }
  return absl::OkStatus();
}

absl::Status Server::tell_opened(Peer& peer, const TableShard& shard) {
  peer.waits_for_table = false;
  ++peer.tables_opened;
  // Nor is it told of it if the connection is that of the process that takes its place, or gone: who comes
  // back is told of all.
  if (peer.connection == nullptr || peer.closed || peer.welcome) return absl::OkStatus();
  if (is_told_later(peer)) return absl::OkStatus();
  list_announcements(peer, shard);
  return announce(peer);
}

void Server::list_announcements(Peer& peer, const TableShard& shard) {
  for (std::size_t region = 0; region < shard.regions(); ++region)
    peer.announcements.push_back({.shard = &shard, .region = region});
  peer.announcements.push_back({.shard = &shard, .region = std::nullopt});
}

/// A worker that does not poll takes only some grants; the others wait here, and the server for nobody.
absl::Status Server::announce(Peer& peer) {
  if (!peer.connection->status().ok()) return absl::OkStatus();  // an event will say so
  while (!peer.announcements.empty()) {
    const absl::StatusOr<protocol::ControlMessage> granted = grant(peer, peer.announcements.front());
    if (absl::IsAborted(granted.status())) {
      waits_for_reader_ = true;
      to_do_.add(peer);
      return absl::OkStatus();
    }
    if (!peer.connection->status().ok()) return absl::OkStatus();
    if (!granted.ok()) return with_name(peer.connection->peer_name(), granted.status());
    reply(peer, *granted);
    peer.announcements.pop_front();
  }
  return absl::OkStatus();
}

absl::StatusOr<protocol::ControlMessage> Server::grant(const Peer& peer, const Announcement& next) const {
  if (next.region) return next.shard->grant_region(*next.region, *peer.connection);
  const auto rows = next.shard->grant(*peer.connection, peer.node == options_.rank);
  if (!rows.ok()) return rows.status();
  return protocol::TableOpened{.table = next.shard->table.table, .shard = protocol::Descriptor::of(*rows)};
}

/// Of what cannot be copied yet.
absl::Status Server::check_copies(TableShard& shard) const {
  const protocol::OpenTable& table = shard.table;
  const FixedShard* const fixed = shard.for_lanes();
  if (fixed == nullptr) {
    return absl::UnimplementedError(fmt::format(
        "table \"{}\": the rows of dynamic tables change without their server's knowledge, so that there "
        "are no copies of them: open it as a static one, or run without --replicas and --elastic",
        table.name));
  }
  if (table.eviction != protocol::kEvictNever && !fixed->rules.holds_updates_back) {
    return absl::UnimplementedError(
        fmt::format("table \"{}\": rows go at other moments on each copy of a server, unless the "
                    "consistency model is bsp or a-bsp",
                    table.name));
  }
  return absl::OkStatus();
}

absl::StatusOr<TableShard*> Server::open_shard(const protocol::OpenTable& open) {
  RETURN_IF_ERROR(shards_.check(open));
  if (open.table < shards_.size()) return &shards_[open.table];
  if (!lost_.ok() && open.allocation != Allocation::kDynamic) {
    return absl::Status(lost_.code(),
                        fmt::format("static table \"{}\" would wait for a worker that is gone: {}", open.name,
                                    std::string(lost_.message())));
  }
  absl::StatusOr<TableShard*> shard = shards_.create(open);
  if (!shard.ok()) return shard;
  if (backup_ && (*shard)->moving() != nullptr) RETURN_IF_ERROR(backup_->add(*(*shard)->moving()));
  if (chain_.is_replicated()) RETURN_IF_ERROR(check_copies(**shard));
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    enqueue(lane, {.kind = LaneTask::Kind::kOpen, .shard = (*shard)->for_lanes()});
  }
  if (!open.checkpoint.empty()) RETURN_IF_ERROR(resume(**shard));
  return shard;
}

// ---- checkpoints

/// The new table's rows come from a checkpoint. Workers hear that it is open when they are there.
absl::Status Server::resume(TableShard& shard) {
  const protocol::OpenTable& table = shard.table;
  const auto reader = opening_.reader(table.checkpoint);
  if (!reader.ok()) return reader.status();
  MovingShard* const moving = shard.moving();
  const auto load =
      TableLoad::create(*reader, table, moving != nullptr ? 1 : static_cast<std::uint32_t>(lanes_.size()));
  if (!load.ok()) return load.status();
  opening_.begin(table.table, *load,
                 moving == nullptr ? nullptr : std::make_unique<MovingLoad>(*load, *moving));
  const auto task = std::make_shared<const StateTask>(StateTask{.load = *load});
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    if (!progress_.has_resumed) {
      enqueue(lane, {.kind = LaneTask::Kind::kResume,
                     .clock = static_cast<consistency::Clock>((*reader)->manifest().clock)});
    }
    if (moving == nullptr) enqueue(lane, {.kind = LaneTask::Kind::kState, .state = task});
  }
  progress_.has_resumed = true;
  return absl::OkStatus();
}

/// Of tables that the worker was told of, maybe by the copy that served before, which has loaded them sooner.
bool Server::has_loaded_tables_of(const Peer& worker) const {
  for (std::uint32_t table = 0; table < worker.tables_opened; ++table) {
    if (opening_.is_under_way(table)) return false;
  }
  return true;
}

bool Server::step_opening() {
  if (opening_.empty() || !status_.ok()) return false;
  return opening_.step(
      [&](std::uint32_t table, Peer& peer) {
        if (peer.left || !peer.waits_for_table) return;
        if (absl::Status status = tell_opened(peer, shards_[table]); !status.ok()) reject(peer, status);
      },
      [&](const absl::Status& status) { fail(status); });
}

absl::Status Server::on_notification(Peer& peer, std::uint32_t notification) {
  if (peer.log != nullptr && notification == 0) return peer.log->ring().on_credit();
  if (peer.takes_them != nullptr && notification == 0) return peer.takes_them->ring().on_credit();
  if (peer.sends_images) return backup_->on_notification(peer, notification);
  if (!peer.is_worker() && !peer.is_predecessor)
    return absl::FailedPreconditionError("notified before its hello");
  hear(peer);
  absl::StatusOr<std::span<const std::byte>> bytes = peer.inbox->on_notification(notification);
  if (!bytes.ok()) return bytes.status();
  if (peer.is_predecessor) return chain_.on_record(peer, *bytes);
  if (bytes->empty()) return peer.pushes->ring().on_credit();
  if (peer.left) return absl::FailedPreconditionError("sent rows or clocks after its goodbye");
  return on_bulk(peer, *bytes);
}

absl::Status Server::on_bulk(Peer& peer, std::span<const std::byte> bytes) {
  absl::StatusOr<protocol::BulkMessage> message = protocol::decode_bulk(bytes);
  if (!message.ok()) return message.status();
  if (message->header.kind == protocol::BulkKind::kElsewhere) message = read_in_place(peer, *message);
  if (!message.ok()) return message.status();
  InboxMessage& inbox = peer.in_inbox.emplace_back();
  const protocol::BulkKind kind = message->header.kind;
  if (!chain_.is_replicated()) {
    if (protocol::is_logged(kind)) peer.messages = ++peer.messages_counted;
    return go_by(peer, *message, inbox);
  }
  return chain_.take({.worker = &peer,
                      .message = *message,
                      .inbox = &inbox,
                      .travels = protocol::is_logged(kind) || kind == protocol::BulkKind::kHeard});
}

/// A message that counts: all copies of this server have it.
absl::Status Server::go_by(Peer& peer, const protocol::BulkMessage& message, InboxMessage& inbox) {
  const protocol::BulkHeader& header = message.header;
  if (header.kind == protocol::BulkKind::kClock) return on_clock(peer, message, inbox);
  if (header.kind == protocol::BulkKind::kHeard) return on_heard(peer, message, inbox);
  if (header.table >= peer.tables_opened || header.lane >= lanes_.size()) {
    return absl::InvalidArgumentError(
        fmt::format("message for table {}, lane {}", header.table, header.lane));
  }
  const FixedShard* const fixed = shards_[header.table].for_lanes();
  if (fixed != nullptr && fixed->rules.holds_updates_back && protocol::is_logged(header.kind))
    held_back_of_ = std::max(held_back_of_, header.clock);
  const absl::Status status = shards_[header.table].on_bulk(sender_of(peer), message, inbox, *this);
  give_answers(header.table);
  return status;
}

/// The message that lies where `place` says, in the peer's memory. It can be read as long as the connection
/// lives, which ends only when the lanes have used all messages.
absl::StatusOr<protocol::BulkMessage> Server::read_in_place(Peer& peer, const protocol::BulkMessage& place) {
  const absl::StatusOr<protocol::Descriptor> where = protocol::decode_elsewhere(place);
  if (!where.ok()) return where.status();
  const std::size_t most = protocol::max_bulk_bytes(peer.inbox->capacity_bytes());
  if (where->length_bytes > most) {
    return absl::InvalidArgumentError(fmt::format(
        "leaves a message of {} bytes elsewhere, expected at most {}", where->length_bytes, most));
  }
  const std::byte* const bytes = peer.connection->mapped(where->as<transport::RemoteDescriptor>());
  if (bytes == nullptr || reinterpret_cast<std::uintptr_t>(bytes) % sizeof(std::uint64_t) != 0) {
    return absl::InvalidArgumentError(
        "says that a message is in memory that this server cannot read, or that is gone");
  }
  absl::StatusOr<protocol::BulkMessage> message = protocol::decode_bulk({bytes, where->length_bytes});
  if (!message.ok()) return message;
  const protocol::BulkKind kind = message->header.kind;
  if (!protocol::has_updates(kind)) {
    return absl::InvalidArgumentError(
        fmt::format("leaves a message of kind {} elsewhere", static_cast<std::uint32_t>(kind)));
  }
  return message;
}

absl::Status Server::on_key_requests(Peer& peer, const protocol::KeyRequests& requests) {
  if (requests.table >= peer.tables_opened) {
    return absl::InvalidArgumentError(
        fmt::format("asks where rows of table {} are, which is not dynamic", requests.table));
  }
  const absl::Status status = shards_[requests.table].on_key_requests(sender_of(peer), requests, *this);
  give_answers(requests.table);
  return status;
}

/// A worker that has waited for others' clocks and now intends to use rows comes after those others: they
/// have said before that they have done with these rows. Their messages are here by now, too, but may be on a
/// connection that was looked at earlier in the same poll(). So intents are processed one poll() later.
void Server::take_intents() {
  for (const auto& [worker, requests] : heeding_) {
    Peer* const peer = workers_[worker];
    if (peer == nullptr || peer->left || peer->closed || peer->refused) continue;
    if (absl::Status status = on_key_requests(*peer, requests); !status.ok()) reject(*peer, status);
  }
  heeding_.clear();
}

absl::Status Server::expect_answers(std::uint32_t worker, std::size_t more) {
  return workers_[worker]->answers.expect(more);
}

/// Gives each answer to the peer that waits for it.
void Server::give_answers(std::uint32_t table) {
  for (const Homes::Answer& each : key_answers_) {
    Peer* const peer = workers_[each.worker];
    if (peer == nullptr || !peer->is_there()) continue;
    peer->answers.add(table, each.answer);
    to_do_.add(*peer);
  }
  key_answers_.clear();
  for (MessageAnswer& each : message_answers_) {
    Peer* const peer = workers_[each.worker];
    if (peer == nullptr || !peer->is_there()) continue;
    peer->answers.add(std::move(each.answer));
    to_do_.add(*peer);
  }
  message_answers_.clear();
}

/// Sends as many answers as the connection takes.
void Server::send_answers(Peer& peer) {
  while (peer.control.empty() && peer.is_there()) {
    const std::optional<protocol::ControlMessage> message = peer.answers.take_message();
    if (!message) return;
    reply(peer, *message);
  }
  if (!peer.is_there()) peer.answers.clear();
}

bool Server::try_again() {
  bool worked = false;
  for (TableShard* const shard : shards_.outside_lanes()) {
    if (!shard->has_put_off()) continue;
    if (!status_.ok()) shard->forget_put_off();
    worked |= shard->try_again(*this);
    give_answers(shard->table.table);
  }
  return worked;
}

absl::Status Server::on_clock(Peer& peer, const protocol::BulkMessage& message, InboxMessage& inbox) {
  const consistency::Clock clock = message.header.clock;
  if (clock <= peer.clock || clock >= consistency::VectorClock::kLeft) {
    return absl::InvalidArgumentError(fmt::format("clock {} after clock {}", clock, peer.clock));
  }
  const absl::StatusOr<protocol::ExampleCounts> examples = protocol::decode_example_counts(message);
  if (!examples.ok()) return examples.status();
  peer.clock = clock;
  saving_.on_clock();
  // The message keeps its place in the inbox until the last lane has heard of it: a worker cannot run ahead
  // of the lanes without bound, even with nothing but clocks.
  inbox.users = static_cast<std::uint32_t>(lanes_.size());
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    enqueue(lane, {.kind = LaneTask::Kind::kClock,
                   .worker = peer.worker,
                   .inbox = &inbox,
                   .clock = clock,
                   .examples = {examples->processed, examples->planned}});
  }
  return absl::OkStatus();
}

/// The worker knows which rows are gone. Comes after its updates before, which may name them.
absl::Status Server::on_heard(Peer& peer, const protocol::BulkMessage& message, InboxMessage& inbox) {
  if (message.header.lane >= lanes_.size() || !message.payload.empty()) {
    return absl::InvalidArgumentError(fmt::format("says in {} bytes what it has heard of lane {}",
                                                  message.payload.size(), message.header.lane));
  }
  inbox.users = 1;
  enqueue(message.header.lane, {.kind = LaneTask::Kind::kHeard,
                                .worker = peer.worker,
                                .inbox = &inbox,
                                .heard = message.header.applied});
  return absl::OkStatus();
}

absl::Status Server::on_end_iteration(Peer& peer, consistency::Clock clock) {
  // The worker may have finished the clock since.
  if (clock == peer.ended && says_again(peer)) return absl::OkStatus();
  if (clock > peer.clock || clock <= peer.ended) {
    return absl::InvalidArgumentError(fmt::format(
        "ends the iteration of clock {} at clock {}, after that of {}", clock, peer.clock, peer.ended));
  }
  peer.ended = clock;
  // The first worker to say so ends the iteration. A worker that has run ahead of the others, as no worker
  // under A-BSP can, ends nothing. So at most one message for each clock that all have reached waits for a
  // worker.
  const bool all_reached = std::all_of(workers_.begin(), workers_.end(), [&](const Peer* other) {
    return clock <= (other == nullptr ? 0 : other->left ? clock : other->clock);
  });
  if (clock <= progress_.ended || !all_reached) return absl::OkStatus();
  progress_.ended = clock;
  for (Peer* const other : workers_) {
    if (other != nullptr && other != &peer) tell_end_of_iteration(*other);
  }
  return absl::OkStatus();
}

void Server::tell_end_of_iteration(Peer& peer) {
  if (peer.is_there()) reply(peer, protocol::EndIteration{progress_.ended});
}

void Server::on_goodbye(Peer& peer) {
  if (peer.left) return;
  // The worker waits for this message: nothing is written into its memory afterwards.
  reply(peer, protocol::Goodbye{});
  if (peer.left) return;  // it took no message, and was let go
  part_from(peer);
  for (const std::unique_ptr<TableShard>& shard : shards_) {
    shard->on_goodbye({peer.worker, peer.node}, *this);
    give_answers(shard->table.table);
  }
  succession_.on_left();
  dismiss_copies();
}

/// When the last goodbye counts here, all copies have it. One that follows cannot say so: the copy before it
/// may still wait to hear that it has it.
void Server::dismiss_copies() {
  if (progress_.left == options_.workers && chain_.serves()) chain_.dismiss_follower();
}

/// No clock waits for it any more.
void Server::part_from(Peer& peer) {
  peer.left = true;
  peer.absence = {};
  ++progress_.left;
  saving_.on_left(peer);
  if (clock_board_.is_mapped()) clock_board_.leave(peer.worker);
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    enqueue(
        lane,
        {.kind = LaneTask::Kind::kClock, .worker = peer.worker, .clock = consistency::VectorClock::kLeft});
  }
}

void Server::on_disconnected(Peer& peer) {
  peer.closed = true;
  if (peer.is_copy()) return chain_.on_gone(peer);
  if (peer.is_other_server()) return backup_->on_gone(peer);
  if (!peer.is_worker() || peer.left) return;
  absences_.begin(peer, absl::UnavailableError(std::string(peer.connection->status().message())));
}

/// If the job cannot go on without it, it fails.
void Server::go_on_without(Peer& peer, const absl::Status& why) {
  if (!options_.outlives_workers || !shards_.wait_for_no_clock() || !status_.ok()) return fail(why);
  spdlog::warn("the job goes on without a worker: {}", std::string(why.message()));
  if (lost_.ok()) lost_ = why;
  part_from(peer);
  for (const std::unique_ptr<TableShard>& shard : shards_) {
    shard->on_lost({peer.worker, peer.node}, *this);
    give_answers(shard->table.table);
  }
  succession_.on_left();
}

/// They are changed without their server, by workers that die, too.
bool Server::has_rows_that_move() const {
  return !shards_.outside_lanes().empty();
}

/// A worker that may be back says again what it does not know to have been heard.
bool Server::says_again(const Peer& worker) const {
  return chain_.is_replicated() || worker.has_come_back;
}

/// A worker says that it has another connection. The end of the one that is known will be, or was, noticed
/// later.
void Server::break_with(Peer& worker) {
  if (worker.closed) return;
  drop(worker);
  if (worker.left) return;
  absences_.begin(worker,
                  absl::UnavailableError(fmt::format("{} connects again", worker.connection->peer_name())));
}

/// Where others take the places of workers, whoever starts them hears of it, too, and decides.
void Server::on_failed(Peer& worker, const protocol::Failed& failed) {
  const absl::Status why =
      absl::AbortedError(fmt::format("{} gave up: {}", worker.connection->peer_name(), failed.reason));
  if (!absences_.waits_for_others()) return fail(why);
  drop(worker);
  absences_.begin(worker, base::printable(why));
}

void Server::enqueue(std::uint32_t lane, const LaneTask& task) {
  lanes_[lane]->enqueue(task);
  if (wake_lane_) wake_lane_(lane);
}

absl::Status Server::begin_call(std::uint32_t lane, std::uint32_t worker) {
  // Of a worker that is back, results may wait that it has had before.
  const std::uint32_t most = protocol::kMaxOpenCalls * (says_again(*workers_[worker]) ? 2 : 1);
  if (lanes_[lane]->may_call(worker, chain_.serves() ? most : UINT32_MAX)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("calls more than {} functions of a lane at a time", protocol::kMaxOpenCalls));
}

void Server::reply(Peer& peer, const protocol::ControlMessage& message) {
  if (peer.connection == nullptr) return;  // it is a worker of another copy of this server
  to_do_.add(peer);
  if (peer.control.send(*peer.connection, protocol::encode(message))) return;
  peer.closed = true;  // as good as gone
  if (peer.is_other_server()) return backup_->on_gone(peer);
  if (peer.is_worker() && !peer.left) {
    absences_.begin(
        peer, absl::UnavailableError(fmt::format("{} takes no messages", peer.connection->peer_name())));
  }
}

void Server::reject(Peer& peer, const absl::Status& because) {
  // What cannot be done over a connection that has broken is no fault of the other side's. Nothing that came
  // after it may count: the worker says it again, in its order.
  const bool has_broken = peer.connection != nullptr && !peer.connection->status().ok();
  const bool another_may_come = peer.is_copy() || (peer.is_worker() && absences_.waits_for_connections());
  if (has_broken && another_may_come) {
    drop(peer);
    return on_disconnected(peer);
  }
  const absl::Status why = base::printable(because);  // it may quote what the peer has said
  peer.refused = true;
  if (peer.is_other_server()) {
    // The job can do without images, and so much the more without those of one that breaks rules.
    spdlog::warn("{}: {}", peer.connection->peer_name(), std::string(why.message()));
    backup_->on_gone(peer);
    return drop(peer);
  }
  if ((peer.is_worker() && workers_[peer.worker] == &peer) || peer.is_copy()) {
    fail(with_name(peer.connection->peer_name(), why));
    return;
  }
  if (std::exchange(peer.is_observer, false)) strangers_.add(peer, transport_.now());
  strangers_.refuse(peer, std::string(why.message()), transport_.now());
  reply(peer, protocol::Failed{static_cast<std::uint32_t>(why.code()), std::string(why.message())});
}

void Server::fail(const absl::Status& because) {
  if (!status_.ok()) return;
  const absl::Status why = base::printable(because);  // it may quote what a peer has said
  status_ = why;
  chain_.drop_log();
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer->closed && peer->connection)
      reply(*peer, protocol::Failed{static_cast<std::uint32_t>(why.code()), std::string(why.message())});
  }
}

bool Server::tell_of_stop() {
  const bool may_be_misheard = chain_.is_replicated();  // as if the job had failed, which goes on elsewhere
  if (!status_.ok() || !transport_.connections_may_break() || may_be_misheard) return false;
  fail(absl::AbortedError(fmt::format("server {} was stopped", options_.rank)));
  return true;
}

void Server::step_aside(const absl::Status& because) {
  if (!status_.ok()) return;
  status_ = because;
  has_stepped_aside_ = true;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer->closed && peer->connection) drop(*peer);
  }
  chain_.drop_log();
}

transport::TimePoint Server::next_poll() const {
  transport::TimePoint next = transport::TimePoint::max();
  next = std::min(next, absences_.next_poll());
  for (const transport::TokenBucket& budget : push_budgets_) next = std::min(next, budget.due());
  next = std::min(next, chain_.next_poll());
  if (backup_) next = std::min(next, backup_->next_poll());
  if (waits_for_reader_) next = std::min<transport::TimePoint>(next, transport_.now() + kReaderPatience);
  if (shards_.have_put_off()) next = std::min<transport::TimePoint>(next, transport_.now() + kLockPatience);
  return next;
}

void Server::refill_budgets() {
  const transport::TimePoint now = transport_.now();
  bool any = false;
  for (transport::TokenBucket& budget : push_budgets_) any |= budget.refill(now);
  if (!any || !wake_lane_) return;
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) wake_lane_(lane);
}

bool Server::release_inbox(Peer& peer) {
  bool released = false;
  // What a copy that fails has dropped is not acknowledged, and release() does that now and then.
  const bool has_dropped = peer.is_predecessor && !status_.ok();
  const bool tells = !peer.left && !peer.closed && !has_dropped;
  // Acquire: pairs with the lane's release; its reads of the message come before our reuse of the space.
  while (!peer.in_inbox.empty() && peer.in_inbox.front().users.load(std::memory_order_acquire) == 0) {
    peer.in_inbox.pop_front();
    if (tells) peer.inbox->release();
    released = true;
  }
  peer.owes_credit = tells && peer.inbox && !peer.inbox->return_credit();
  return released;
}

/// A sparse table gets another region.
void Server::carry_out(RegionDesk::Order& order) {
  order.shard->allocate(order);
  if (!order.status.ok()) return;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    const bool knows_the_table = peer->is_worker() && peer->tables_opened > order.shard->table.table;
    if (!knows_the_table || !peer->is_there()) continue;
    if (is_told_later(*peer)) continue;
    peer->announcements.push_back({.shard = order.shard, .region = order.shard->regions() - 1});
    if (const absl::Status status = announce(*peer); !status.ok()) fail(status);
  }
}

void Server::take_outgoing() {
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane]->has_failed()) {
      const Lane& failed = *lanes_[lane];
      const Peer* const culprit = failed.culprit() ? workers_[*failed.culprit()] : nullptr;
      fail(with_name(culprit != nullptr && culprit->connection != nullptr
                         ? culprit->connection->peer_name()
                         : fmt::format("lane {} of server {}", lane, options_.rank),
                     failed.failure()));
    }
    observers_.take_from(*lanes_[lane], [this](Peer& peer) { to_do_.add(peer); });
    PushBuffer* buffer = nullptr;
    while (lanes_[lane]->take_outgoing(buffer)) {
      Peer& peer = *workers_[buffer->worker];
      if (peer.welcome || buffer->times_back != peer.times_back) {  // it is for the connection before
        give_back(lane, buffer);
        continue;
      }
      peer.pushes->add(lane, buffer);
      to_do_.add(peer);
    }
  }
}

void Server::give_back(std::uint32_t lane, PushBuffer* buffer) {
  lanes_[lane]->give_back(buffer);
  if (wake_lane_) wake_lane_(lane);
}

bool Server::send_outgoing(Peer& peer) {
  const auto give_back = [this](std::uint32_t lane, PushBuffer* buffer) { this->give_back(lane, buffer); };
  if (peer.left) peer.pushes->drop(give_back);
  absl::Status status;
  const bool sent = peer.pushes->send(give_back, status);
  if (!status.ok()) {
    const absl::Status why = with_name(peer.connection->peer_name(), status);
    peer.connection->status().ok() ? fail(why) : absences_.begin(peer, why);
  }
  return sent;
}

bool Server::drop_if_closed(Peer& peer) {
  if (!peer.closed) return false;
  // The lanes use its inbox until they have used up all messages. Its push buffers belong to the lanes for
  // good: a lane may hold them.
  const auto used = [](const InboxMessage& message) {
    return message.users.load(std::memory_order_acquire) == 0;
  };
  if (!std::all_of(peer.in_inbox.begin(), peer.in_inbox.end(), used)) return false;
  peer.in_inbox.clear();
  // Before the memory of the rings, which its last requests may still read and write.
  peer.connection.reset();
  peer.inbox.reset();
  if (peer.pushes) peer.pushes->disconnect();
  peer.log.reset();
  peer.takes_them.reset();
  dropped_ = true;
  return true;
}

}  // namespace verbena::server
