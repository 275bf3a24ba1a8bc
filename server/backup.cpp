#include "server/backup.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/return_if_error.hpp"
#include "protocol/log_record.hpp"
#include "server/log.hpp"

namespace verbena::server {

using protocol::BulkKind;

namespace {

/// Of one message; and that much of rows is copied before other things are looked after.
constexpr std::size_t kImageBytesAtOnce = std::size_t{1} << 16U;
/// So many keys fit into it.
constexpr std::size_t kKeysLeftAtOnce = kImageBytesAtOnce / sizeof(Key) / 2;
/// Until a server is tried to be reached again: most likely it is gone, which workers will say.
constexpr auto kBeforeNextAttempt = std::chrono::milliseconds(500);
/// If all tried to connect to one another at the same time, none would answer: the last one in the circle
/// waits until the one that is to keep its images is there, but not for ever.
constexpr auto kPatienceWithKeeper = std::chrono::seconds(2);
/// Until a table is open here, too, of which images have come; until a connection takes more; and so on.
constexpr auto kImagePatience = std::chrono::milliseconds(1);

std::span<const std::byte> bytes_of_keys(const std::vector<Key>& keys) {
  return std::as_bytes(std::span(keys));
}

}  // namespace

Backup::Backup(transport::Transport& transport, const ServerOptions& options, const Shards& shards,
               const protocol::Heirs& heirs, Host& host)
    : transport_(transport),
      options_(options),
      shards_(shards),
      heirs_(heirs),
      host_(host),
      waits_for_keeper_until_(transport.now() + kPatienceWithKeeper) {}

absl::Status Backup::add(MovingShard& shard) const {
  const std::size_t most = transport::max_ring_message_bytes(protocol::kLogRingBytes);
  if (sizeof(protocol::BulkHeader) + protocol::record_bytes(shard.slot_bytes()) > most) {
    return absl::UnimplementedError(fmt::format(
        "table \"{}\": its rows have {} bytes, which is too much for images of them; split the rows, "
        "or start the servers without a backup",
        shard.table.name, shard.stride_bytes()));
  }
  shard.restore_rows(heirs_);
  shard.note_what_leaves(keeper_ != nullptr);
  return absl::OkStatus();
}

bool Backup::poll() {
  bool worked = false;
  for (auto& [server, source] : sources_) {
    if (source.peer == nullptr && is_kept(server)) worked |= connect(server, source);
    worked |= take_messages(server, source);
  }
  return send() || worked;
}

transport::TimePoint Backup::next_poll() const {
  transport::TimePoint next = transport::TimePoint::max();
  for (const auto& [server, source] : sources_) {
    if (source.peer == nullptr && is_kept(server)) next = std::min(next, source.next_attempt);
    if (!source.messages.empty())
      next = std::min<transport::TimePoint>(next, transport_.now() + kImagePatience);
  }
  if (keeper_ == nullptr) return next;
  if (!messages_.empty() || !keeper_->control.empty())
    return std::min<transport::TimePoint>(next, transport_.now() + kImagePatience);
  return std::min(next, is_looking_ ? transport_.now() : next_look_);
}

// ---- what others send

/// This server is the one that keeps images of that one's rows.
bool Backup::is_kept(std::uint32_t server) const {
  if (server == options_.rank || heirs_.is_gone(server)) return false;
  std::uint32_t next = (server + 1) % options_.servers;
  while (heirs_.is_gone(next)) next = (next + 1) % options_.servers;
  return next == options_.rank;
}

absl::Status Backup::on_address(const protocol::ServerAt& at) {
  if (at.server >= options_.servers || at.server == options_.rank) {
    return absl::InvalidArgumentError(fmt::format("says to server {} of {} where server {} is", options_.rank,
                                                  options_.servers, at.server));
  }
  Source& source = sources_[at.server];
  if (source.address.empty()) source.address = at.address;
  return absl::OkStatus();
}

bool Backup::connect(std::uint32_t server, Source& source) {
  const transport::TimePoint now = transport_.now();
  if (now < source.next_attempt) return false;
  if (options_.rank < server && keeper_ == nullptr && now < waits_for_keeper_until_) {
    source.next_attempt = std::min<transport::TimePoint>(now + kImagePatience, waits_for_keeper_until_);
    return false;
  }
  source.next_attempt = now + kBeforeNextAttempt;
  auto connection = transport_.connect(source.address, now + source.attempt.next());
  if (!connection.ok()) {
    source.attempt.failed(connection.status(), transport::longest_attempt_beside(
                                                   std::chrono::milliseconds(options_.silence_timeout_ms)));
    return true;
  }
  Peer& peer = host_.add_peer(*std::move(connection));
  peer.connection->set_peer_name(fmt::format("server {}, which sends images of its rows", server));
  peer.sends_images = true;
  auto ring = transport::RingReceiver::create(transport_, *peer.connection, protocol::kLogRingBytes);
  if (!ring.ok()) {
    spdlog::warn("server {} cannot keep images of rows of server {}: {}", options_.rank, server,
                 std::string(ring.status().message()));
    host_.drop(peer);
    return true;
  }
  peer.inbox = *std::move(ring);
  source.peer = &peer;
  source.attempt = {};
  source.has_all = false;
  source.last_all_sent = now;
  forget_images(server);  // rows may have left without a word to this server
  host_.reply(peer, protocol::BackUp{.pid = static_cast<std::uint32_t>(::getpid()),
                                     .server = options_.rank,
                                     .servers = options_.servers,
                                     .of = server,
                                     .ring = protocol::Descriptor::of(peer.inbox->descriptor())});
  return true;
}

void Backup::forget_images(std::uint32_t server) {
  for (TableShard* const shard : shards_.outside_lanes()) shard->moving()->drop_images(server);
}

absl::Status Backup::on_backed_up(Peer& peer, const protocol::BackedUp& backed_up) {
  peer.inbox->set_credit(backed_up.credit.as<transport::RemoteDescriptor>());
  return absl::OkStatus();
}

absl::Status Backup::on_notification(Peer& peer, std::uint32_t notification) {
  const absl::StatusOr<std::span<const std::byte>> message = peer.inbox->on_notification(notification);
  if (!message.ok()) return message.status();
  for (auto& [server, source] : sources_) {
    if (source.peer != &peer) continue;
    if (message->empty()) return absl::InvalidArgumentError("returns credit that it was not given");
    source.messages.push_back(*message);
  }
  return absl::OkStatus();
}

bool Backup::take_messages(std::uint32_t server, Source& source) {
  bool worked = false;
  while (!source.messages.empty()) {
    const absl::StatusOr<bool> taken = take_message(server, source);
    if (!taken.ok()) {
      spdlog::warn("{}: {}: no images of them are kept here any more", source.peer->connection->peer_name(),
                   std::string(taken.status().message()));
      source.messages.clear();
      host_.drop(*std::exchange(source.peer, nullptr));
      forget_images(server);
      source.has_all = false;
      // All would be sent again, and come to the same end.
      source.next_attempt = transport::TimePoint::max();
      return true;
    }
    if (!*taken) return worked;
    source.messages.pop_front();
    if (!source.peer->closed) source.peer->inbox->release();
    host_.attend(*source.peer);
    worked = true;
  }
  return worked;
}

/// False: its table is not open here yet.
absl::StatusOr<bool> Backup::take_message(std::uint32_t server, Source& source) {
  const absl::StatusOr<protocol::BulkMessage> message = protocol::decode_bulk(source.messages.front());
  if (!message.ok()) return message.status();
  const protocol::BulkHeader& header = message->header;
  if (header.kind == BulkKind::kAllSent) {
    if (header.count < shards_.outside_lanes().size()) return true;  // tables were opened meanwhile
    source.as_of = std::exchange(source.last_all_sent, transport_.now());
    source.has_all = true;
    return true;
  }
  if (header.table >= shards_.size()) return false;
  MovingShard* const shard = shards_[header.table].moving();
  if (shard == nullptr)
    return absl::InvalidArgumentError(fmt::format("sends images of table {}, which is static", header.table));
  RETURN_IF_ERROR(shard->on_images(server, *message));
  return true;
}

void Backup::on_server_gone(std::uint32_t server) {
  if (keeper_ != nullptr && keeper_rank_ == server) {
    Peer& peer = *keeper_;
    lose_keeper();
    host_.drop(peer);
  }
  const auto found = sources_.find(server);
  if (found != sources_.end()) found->second.gone_at = std::min(found->second.gone_at, transport_.now());
}

void Backup::on_rest() {
  for (auto& [server, source] : sources_) {
    if (!heirs_.is_gone(server) || std::exchange(source.is_closed, true)) continue;
    source.gone_at = std::min(source.gone_at, transport_.now());  // on_server_gone() may come after this
    if (source.peer != nullptr) {
      take_messages(server, source);
      if (source.peer != nullptr) host_.drop(*std::exchange(source.peer, nullptr));
      source.messages.clear();
    }
    if (heirs_.of(server) == options_.rank) tell_what_comes_back(server, source);
  }
}

void Backup::tell_what_comes_back(std::uint32_t server, const Source& source) const {
  std::uint64_t rows = 0;
  for (TableShard* const shard : shards_.outside_lanes()) rows += shard->moving()->images(server);
  if (!source.has_all) {
    spdlog::warn(
        "server {} has images of {} rows of server {}, which was gone before it had sent all: the others "
        "are lost",
        options_.rank, rows, server);
    return;
  }
  const std::chrono::duration<double, std::milli> age = source.gone_at - source.as_of;
  spdlog::warn(
      "server {} has images of {} rows of server {}, which is gone: they come back when they are wanted, "
      "without what has changed there in the last {:.1f} ms",
      options_.rank, rows, server, age.count());
}

void Backup::on_gone(Peer& peer) {
  if (keeper_ == &peer) lose_keeper();
  for (auto& [server, source] : sources_) {
    if (source.peer != &peer) continue;
    take_messages(server, source);
    source.messages.clear();
    source.peer = nullptr;
    source.next_attempt = transport_.now() + kBeforeNextAttempt;
  }
}

// ---- what this server sends

absl::Status Backup::on_back_up(Peer& peer, const protocol::BackUp& back_up) {
  if (back_up.of != options_.rank || back_up.servers != options_.servers || heirs_.is_gone(back_up.server)) {
    return absl::InvalidArgumentError(
        fmt::format("server {} of {} wants to keep images of server {}; this is server {} of {}",
                    back_up.server, back_up.servers, back_up.of, options_.rank, options_.servers));
  }
  auto sender =
      LogSender::create(transport_, *peer.connection, back_up.ring.as<transport::RemoteDescriptor>());
  if (!sender.ok()) return sender.status();
  if (keeper_ != nullptr) {
    Peer& before = *keeper_;
    lose_keeper();
    host_.drop(before);
  }
  peer.takes_them = *std::move(sender);
  peer.connection->set_peer_name(
      fmt::format("server {} (pid {}), which keeps images of rows", back_up.server, back_up.pid));
  keeper_ = &peer;
  keeper_rank_ = back_up.server;
  for (TableShard* const shard : shards_.outside_lanes()) shard->moving()->note_what_leaves(true);
  host_.reply(peer, protocol::BackedUp{
                        .credit = protocol::Descriptor::of(peer.takes_them->ring().credit_descriptor())});
  return absl::OkStatus();
}

void Backup::lose_keeper() {
  keeper_ = nullptr;
  messages_.clear();
  is_looking_ = false;
  sent_all_ = 0;
  next_look_ = {};
  for (TableShard* const shard : shards_.outside_lanes()) shard->moving()->note_what_leaves(false);
}

bool Backup::send() {
  // Without what it was answered, which may wait to be sent, it cannot take messages.
  if (keeper_ == nullptr || !keeper_->control.empty() || !flush()) return false;
  // An image that comes back after its row has left, and is here again, must come after that.
  // Rows may leave all the time, and must not keep it from looking.
  bool worked = false;
  while (send_what_has_left()) {
    if (!messages_.empty()) return true;
    worked = true;
  }
  if (!is_looking_) {
    const transport::TimePoint now = transport_.now();
    if (now < next_look_) return worked;
    next_look_ = now + std::chrono::milliseconds(options_.backup_every_ms);
    is_looking_ = true;
    table_ = 0;
    tables_ = shards_.outside_lanes().size();
    next_ = 0;
  }
  return look_at_rows();
}

/// True: all that there was is sent.
bool Backup::flush() {
  for (; !messages_.empty(); messages_.pop_front()) {
    const std::vector<std::byte>& message = messages_.front();
    const std::span<std::byte> memory = keeper_->takes_them->place(message.size());
    if (memory.empty()) return false;
    std::memcpy(memory.data(), message.data(), message.size());
    if (!keeper_->takes_them->send(memory)) return false;
  }
  return true;
}

void Backup::put(BulkKind kind, std::uint32_t table, std::uint32_t count,
                 std::span<const std::byte> payload) {
  const protocol::BulkHeader header{.kind = kind, .table = table, .count = count};
  std::vector<std::byte>& message = messages_.emplace_back(sizeof header + payload.size());
  std::memcpy(message.data(), &header, sizeof header);
  if (!payload.empty()) std::memcpy(message.data() + sizeof header, payload.data(), payload.size());
}

bool Backup::send_what_has_left() {
  for (TableShard* const shard : shards_.outside_lanes()) {
    if (!shard->moving()->has_left()) continue;
    const std::vector<Key> keys = shard->moving()->take_left(kKeysLeftAtOnce);
    put(BulkKind::kLeft, shard->table.table, static_cast<std::uint32_t>(keys.size()), bytes_of_keys(keys));
    flush();
    return true;
  }
  return false;
}

/// Some rows at a time.
bool Backup::look_at_rows() {
  if (table_ < tables_) {
    MovingShard& shard = *shards_.outside_lanes()[table_]->moving();
    MovingShard::RowsToSend rows;
    shard.take_images(next_, /*all=*/table_ >= sent_all_, kImageBytesAtOnce, rows);
    if (rows.count > 0) put(BulkKind::kImages, shard.table.table, rows.count, rows.images);
    if (!rows.blank.empty()) {
      put(BulkKind::kBlank, shard.table.table, static_cast<std::uint32_t>(rows.blank.size()),
          std::as_bytes(std::span(rows.blank)));
    }
    if (next_ >= shard.table.rows) {
      ++table_;
      next_ = 0;
    }
  } else {
    put(BulkKind::kAllSent, 0, static_cast<std::uint32_t>(tables_), {});
    sent_all_ = tables_;
    is_looking_ = false;
  }
  flush();
  return true;
}

}  // namespace verbena::server
