#include "server/chain.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/return_if_error.hpp"

namespace verbena::server {
namespace {

/// An attempt to reach the one before in the chain: short, for a configuration may say that there is another
/// one.
constexpr auto kAttempt = std::chrono::milliseconds(50);
constexpr auto kBetweenAttempts = std::chrono::milliseconds(20);
/// To one that was lost: most likely it is gone for good, and whoever tries to reach it has no time for
/// others.
constexpr auto kBeforeAnotherAttempt = std::chrono::milliseconds(500);
/// For a configuration after a neighbour is gone, and for a neighbour that a configuration names.
constexpr auto kPatience = std::chrono::seconds(30);
/// For one that joins: the job stands still meanwhile.
constexpr auto kPatienceWithJoining = std::chrono::seconds(2);

/// Its worker counts it, and says it again if it must.
bool is_numbered(const WorkerMessage& record) {
  return !record.control && protocol::is_logged(record.message.header.kind);
}

}  // namespace

Chain::Chain(transport::Transport& transport, const ServerOptions& options, std::uint32_t lanes,
             const std::vector<Peer*>& workers, Host& host)
    : transport_(transport),
      options_(options),
      lanes_(lanes),
      source_(options.configuration.get()),
      workers_(workers),
      host_(host) {
  if (source_ == nullptr) return;
  number_ = 0;  // until the source says otherwise, this copy does nothing
  serves_ = false;
  waits_since_ = transport.now();
  waits_for_ = "the job's configuration";
  has_image_ = is_known_ = !options.joins;
}

absl::Status Chain::take(WorkerMessage record) {
  if (is_numbered(record)) ++record.worker->messages;
  if (log_.is_dropped() && !record.control) {
    // No copy gets it, so that it must not be seen here.
    record.inbox->users = 0;
    return absl::OkStatus();
  }
  if (!log_.is_needed()) {
    if (record.travels) log_.pass();
    return go_by(record);
  }
  log_.add(std::move(record));
  return absl::OkStatus();
}

absl::Status Chain::go_by(const WorkerMessage& record) {
  if (is_numbered(record)) ++record.worker->messages_counted;
  return host_.go_by(record);
}

bool Chain::poll() {
  if (source_ == nullptr) return false;
  follow_configuration();
  if (!predecessor_address_.empty() && predecessor_ == nullptr) connect();
  // Without what it was answered, which may wait to be sent, it cannot take records.
  follower_knows_ |= follower_ != nullptr && follower_->control.empty();
  bool worked = follower_knows_ && (follower_wants_image_ ? send_image() : log_.send());
  if (waits_for_workers() && have_all_come()) {
    log_.release();
    host_.all_have_come();
  }
  while (std::optional<WorkerMessage> record = log_.take()) {
    worked = true;
    Peer& worker = *record->worker;
    if (worker.refused) continue;
    if (const absl::Status status = go_by(*record); !status.ok()) {
      host_.fail(absl::Status(status.code(),
                              fmt::format("worker {}: {}", worker.worker, std::string(status.message()))));
      return true;
    }
  }
  const transport::TimePoint now = transport_.now();
  watch_follower(now);
  check_patience(now);
  return worked;
}

void Chain::check_patience(transport::TimePoint now) {
  if (waits_since_ == transport::TimePoint::max()) return;
  const auto waits = now - waits_since_;
  const cluster::Configuration& newest = source_->newest();
  const bool waits_for_follower = follower_ == nullptr && !follower_address_.empty();
  const bool waits_for_joining = waits_for_follower && newest.joining_of(options_.rank) == follower_address_;
  if (waits_for_joining && waits > kPatienceWithJoining) {
    // The job can do without it.
    return source_->suspect(follower_address_, "it joins, and does not come");
  }
  const std::chrono::milliseconds of_silence(std::uint64_t{6} * options_.silence_timeout_ms);
  const auto patience = std::max<transport::Duration>(kPatience, of_silence);
  if (waits <= patience) {
    // Nobody else watches it: the copy that it has followed is gone. It may be busy with one that joins. On
    // one host it is ended if it is stopped.
    const std::uint64_t times = newest.joining_of(options_.rank).empty() ? 2 : 4;
    const std::chrono::milliseconds most(times * options_.silence_timeout_ms);
    if (waits_for_follower && !source_->ends_who_is_left_out() && most.count() > 0 && waits > most)
      source_->suspect(follower_address_, "it has a place after another copy, and does not come");
    return;
  }
  host_.fail(absl::UnavailableError(
      fmt::format("a copy of server {} has waited {} s for {}", options_.rank,
                  std::chrono::duration_cast<std::chrono::seconds>(patience).count(), waits_for_)));
}

/// To one that joins.
bool Chain::send_image() {
  if (!image_sender_) {
    std::optional<Image> image = host_.take_image();
    if (!image) return false;
    image_sender_.emplace(*std::move(image), log_.counted());
  }
  const bool sent = image_sender_->send(*follower_->log);
  if (!image_sender_->is_sent()) return sent;
  image_sender_.reset();
  follower_wants_image_ = false;
  if (const absl::Status status = log_.follow(follower_->log.get(), log_.counted()); !status.ok())
    host_.fail(status);
  return true;
}

/// Nothing counts that it does not have, so it must not hold up all others.
void Chain::watch_follower(transport::TimePoint now) {
  if (follower_ == nullptr || options_.silence_timeout_ms == 0 || now < next_watch_) return;
  next_watch_ = now + transport::kBeatInterval;
  if (const absl::Status status = follower_->watch->look(*follower_->connection, now); !status.ok())
    source_->suspect(follower_address_, std::string(status.message()));
}

transport::TimePoint Chain::next_poll() const {
  if (source_ == nullptr) return transport::TimePoint::max();
  transport::TimePoint next = source_->next_poll();
  if (!predecessor_address_.empty() && predecessor_ == nullptr) next = std::min(next, next_attempt_);
  return next;
}

void Chain::follow_configuration() {
  source_->poll(transport_.now());
  const cluster::Configuration& newest = source_->newest();
  if (newest.number > number_) adopt(newest);
}

void Chain::adopt(const cluster::Configuration& newest) {
  if (newest.servers.size() != options_.servers) {
    return host_.fail(
        absl::FailedPreconditionError(fmt::format("configuration {} is of {} servers, not {}", newest.number,
                                                  newest.servers.size(), options_.servers)));
  }
  const cluster::Configuration::Chain chain = newest.all_of(options_.rank);
  const auto here = std::find(chain.begin(), chain.end(), transport_.listening_address());
  if (here == chain.end() && !is_known_) return;  // not yet
  if (here == chain.end()) {
    return host_.step_aside(absl::AbortedError(fmt::format(
        "a copy of server {} is not in configuration {} any more: another one has taken its place",
        options_.rank, newest.number)));
  }
  number_ = newest.number;
  is_known_ = true;
  waits_since_ = transport::TimePoint::max();
  const std::string before = here == chain.begin() ? "" : *(here - 1);
  const std::string after = here + 1 == chain.end() ? "" : *(here + 1);
  if (std::exchange(predecessor_address_, before) != before) {
    next_attempt_ = transport::TimePoint::min();  // it may be there, other than the one that is gone
    // What the one before has sent after this is heard by nobody: its workers say it again.
    if (predecessor_ != nullptr) host_.drop(*predecessor_);
    predecessor_ = nullptr;
  }
  if (std::exchange(follower_address_, after) != after && follower_ != nullptr) {
    Peer& gone = *follower_;
    lose_follower();
    host_.drop(gone);
  }
  log_.expect_follower(!after.empty());
  if (!after.empty() && follower_ == nullptr) {
    waits_since_ = transport_.now();
    waits_for_ = fmt::format("the copy at {}", after);
  }
  if (before.empty() && !std::exchange(serves_, true)) serve();
}

void Chain::serve() {
  if (!source_->ends_who_is_left_out() && host_.acknowledges_at_once()) log_.hold();
  host_.serve();
}

bool Chain::have_all_come() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Peer* worker) { return worker->left || worker->pid != 0; });
}

void Chain::connect() {
  const transport::TimePoint now = transport_.now();
  if (now < next_attempt_) return;
  next_attempt_ = now + kBetweenAttempts;
  // What this copy says to have counts for the one that it will follow, as the credit of a ring does: so all
  // copies after this one have it, and whoever reads here finds it.
  if (!host_.has_used_all()) return;
  auto connection = transport_.connect(predecessor_address_, now + kAttempt);
  if (!connection.ok()) {
    if (waits_since_ == transport::TimePoint::max()) {
      waits_since_ = now;
      waits_for_ = fmt::format("the copy at {}", predecessor_address_);
    }
    return;
  }
  Peer& peer = host_.add_peer(*std::move(connection));
  peer.connection->set_peer_name(fmt::format("the copy of server {} before this one", options_.rank));
  peer.is_predecessor = true;
  auto ring = transport::RingReceiver::create(transport_, *peer.connection, protocol::kLogRingBytes);
  if (!ring.ok()) return host_.fail(ring.status());
  peer.inbox = *std::move(ring);
  predecessor_ = &peer;
  follows_ = false;
  waits_since_ = transport::TimePoint::max();
  const auto heartbeat = host_.grant_heartbeat(*peer.connection);
  if (!heartbeat.ok()) return host_.fail(heartbeat.status());
  host_.reply(peer, protocol::Follow{.pid = static_cast<std::uint32_t>(::getpid()),
                                     .server = options_.rank,
                                     .servers = options_.servers,
                                     .workers = options_.workers,
                                     .lanes = lanes_,
                                     .configuration = number_,
                                     .records = log_.records(),
                                     .has_image = has_image_,
                                     .log_ring = protocol::Descriptor::of(peer.inbox->descriptor()),
                                     .heartbeat = protocol::Descriptor::of(*heartbeat)});
}

absl::Status Chain::on_follow(Peer& peer, const protocol::Follow& follow) {
  if (peer.is_worker() || peer.is_observer || peer.log != nullptr)
    return absl::FailedPreconditionError("is known, and wants to follow");
  if (follow.server != options_.rank || follow.servers != options_.servers ||
      follow.workers != options_.workers || follow.lanes != lanes_) {
    return absl::InvalidArgumentError(
        fmt::format("a copy of server {} of {}, with {} lanes and {} workers, wants to follow server {} of "
                    "{}, with {} and {}",
                    follow.server, follow.servers, follow.lanes, follow.workers, options_.rank,
                    options_.servers, lanes_, options_.workers));
  }
  // It has another connection, and the end of the one before is not known here yet.
  const bool is_back =
      follower_ != nullptr && transport_.connections_may_break() && follow.configuration == number_;
  // One that goes by an older configuration may have no place in this one.
  const bool may_be_left_out =
      is_replicated() && !source_->ends_who_is_left_out() && follow.configuration < number_;
  if (!is_replicated() || follower_address_.empty() || (follower_ != nullptr && !is_back) ||
      follow.configuration > number_ || may_be_left_out) {
    // It comes again when both go by the same one.
    return absl::UnavailableError(
        fmt::format("server {} has no place for a copy in configuration {}", options_.rank, number_));
  }
  auto sender =
      LogSender::create(transport_, *peer.connection, follow.log_ring.as<transport::RemoteDescriptor>());
  if (!sender.ok()) return sender.status();
  const transport::HeartbeatWatch::Bounds bounds{.silence =
                                                     std::chrono::milliseconds(options_.silence_timeout_ms)};
  peer.watch = std::make_unique<transport::HeartbeatWatch>(transport_, bounds);
  RETURN_IF_ERROR(peer.watch->watch(*peer.connection, follow.heartbeat.as<transport::RemoteDescriptor>()));
  if (is_back) {
    Peer& before = *follower_;
    lose_follower();
    host_.drop(before);
    waits_since_ = transport_.now();
    waits_for_ = fmt::format("the copy at {}", follower_address_);
  }
  if (follow.has_image) RETURN_IF_ERROR(log_.follow(sender->get(), follow.records));
  follower_wants_image_ = !follow.has_image;
  peer.log = *std::move(sender);
  peer.connection->set_peer_name(fmt::format("the copy (pid {}) of server {}", follow.pid, options_.rank));
  follower_ = &peer;
  follower_knows_ = false;
  waits_since_ = transport::TimePoint::max();
  host_.reply(
      peer, protocol::Followed{.pid = static_cast<std::uint32_t>(::getpid()),
                               .log_credit = protocol::Descriptor::of(peer.log->ring().credit_descriptor())});
  if (is_over_) dismiss_follower();
  return absl::OkStatus();
}

absl::Status Chain::on_followed(Peer& peer, const protocol::Followed& followed) {
  if (&peer != predecessor_) return absl::FailedPreconditionError("is not followed, and says it is");
  peer.inbox->set_credit(followed.log_credit.as<transport::RemoteDescriptor>());
  follows_ = true;
  return absl::OkStatus();
}

absl::Status Chain::on_record(Peer& predecessor, std::span<const std::byte> bytes) {
  const absl::StatusOr<protocol::LogRecord> heard = protocol::decode_log_record(bytes, options_.workers);
  if (!heard.ok()) return heard.status();
  if (heard->header.kind == protocol::LogHeader::Kind::kImage) {
    predecessor.in_inbox.emplace_back();  // it is used at once
    return on_piece(*heard);
  }
  if (!has_image_) return absl::InvalidArgumentError("a record of the log before an image");
  if (heard->header.number != log_.records() + 1) {
    return absl::InvalidArgumentError(
        fmt::format("record {} of the log after record {}", heard->header.number, log_.records()));
  }
  WorkerMessage record{.worker = workers_[heard->header.worker],
                       .inbox = &predecessor.in_inbox.emplace_back(),
                       .is_forwarded = true};
  if (heard->header.kind == protocol::LogHeader::Kind::kControl) {
    absl::StatusOr<protocol::ControlMessage> control = protocol::decode_control(heard->message);
    if (!control.ok()) return control.status();
    record.control = *std::move(control);
  } else {
    absl::StatusOr<protocol::BulkMessage> message = protocol::decode_bulk(heard->message);
    if (!message.ok()) return message.status();
    record.message = *message;
  }
  return take(std::move(record));
}

absl::Status Chain::on_piece(const protocol::LogRecord& piece) {
  if (has_image_) return absl::InvalidArgumentError("an image for a copy that has one");
  RETURN_IF_ERROR(image_.take(piece, [&](std::string_view head) { return host_.load(head); }));
  if (!image_.is_whole()) return absl::OkStatus();
  has_image_ = true;
  log_.begin_after(image_.records());
  image_ = ImageReceiver();
  host_.go_on_from_image();
  source_->has_joined(transport_.listening_address());
  return absl::OkStatus();
}

/// An image that it was sent is of no use to another one.
void Chain::lose_follower() {
  log_.lose_follower();
  follower_ = nullptr;
  if (std::exchange(follower_wants_image_, false)) host_.forget_image();
  image_sender_.reset();
}

void Chain::dismiss_follower() {
  is_over_ = true;
  if (follower_ != nullptr) host_.reply(*follower_, protocol::Goodbye{});
}

void Chain::on_goodbye(const Peer& peer) {
  if (&peer != predecessor_) return;
  is_dismissed_ = true;
  dismiss_follower();
}

bool Chain::ends_with(const Peer& predecessor) {
  if (!source_->ends_who_is_left_out())
    follow_configuration();  // it may have no place any more, and fail for that
  if (predecessor.closed) return false;
  if (&predecessor != predecessor_ || follows_) return true;
  host_.drop(*predecessor_);
  predecessor_ = nullptr;
  return false;
}

void Chain::on_gone(const Peer& peer) {
  if (&peer != predecessor_ && &peer != follower_) return;
  const bool is_follower = &peer == follower_;
  if (is_follower) {
    lose_follower();
  } else {
    predecessor_ = nullptr;
  }
  if (is_dismissed_) return;
  const std::string& address = is_follower ? follower_address_ : predecessor_address_;
  source_->expect_change();
  waits_since_ = transport_.now();
  next_attempt_ = waits_since_ + kBeforeAnotherAttempt;
  waits_for_ = fmt::format("a configuration without the copy at {}, which is gone", address);
}

}  // namespace verbena::server
