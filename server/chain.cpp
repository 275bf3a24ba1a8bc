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

/// To reach the one before in the chain.
constexpr auto kBetweenAttempts = std::chrono::milliseconds(20);
/// To one that was lost: most likely it is gone for good, and whoever tries to reach it has no time for
/// others.
constexpr auto kBeforeAnotherAttempt = std::chrono::milliseconds(500);
/// For a configuration after a neighbour is gone, and for a neighbour that a configuration names.
constexpr auto kPatience = std::chrono::seconds(30);
/// For one that is to follow when all is over, to be told of it.
constexpr auto kPatienceWhenOver = std::chrono::seconds(2);
/// For one that joins.
constexpr auto kPatienceWithJoining = std::chrono::seconds(2);

/// Its worker counts it, and says it again if it must.
bool is_numbered(const WorkerMessage& record) {
  return !record.control && protocol::is_logged(record.message.header.kind);
}

}  // namespace

Chain::Chain(transport::Transport& transport, const ServerOptions& options, std::uint32_t lanes,
             const ImageGrain& grain, const std::vector<Peer*>& workers, Host& host)
    : transport_(transport),
      options_(options),
      lanes_(lanes),
      grain_(grain),
      source_(options.configuration.get()),
      workers_(workers),
      host_(host) {
  if (source_ == nullptr) return;
  number_ = 0;  // until the source says otherwise, this copy does nothing
  serves_ = false;
  waits_for_predecessor_ = {transport.now(), "the job's configuration"};
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
    keep_for_who_joins(record);
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
  if (has_image_ && !backlog_.empty() && transport_.now() >= next_piece_ &&
      go_by_backlog(grain_.log_bytes_a_turn)) {
    next_piece_ = transport_.now() + grain_.between_messages;
    worked = true;
  }
  if (waits_for_workers() && have_all_come()) {
    log_.release();
    host_.all_have_come();
  }
  while (std::optional<WorkerMessage> record = log_.take()) {
    worked = true;
    keep_for_who_joins(*record);
    Peer& worker = *record->worker;
    if (worker.refused) continue;
    if (const absl::Status status = go_by(*record); !status.ok()) {
      host_.fail(absl::Status(status.code(),
                              fmt::format("worker {}: {}", worker.worker, std::string(status.message()))));
      return true;
    }
  }
  acknowledge();
  catch_up();
  const transport::TimePoint now = transport_.now();
  watch_follower(now);
  check_patience(now);
  return worked;
}

/// To the one before: what counts here, or would if this copy served. Without followers that is all that has
/// come: what it does not count yet, as it joins, it keeps until it does.
void Chain::acknowledge() {
  if (predecessor_ == nullptr || log_.is_dropped()) return;
  const std::uint64_t not_yet = log_.is_needed() ? log_.records() - log_.counted() + backlog_.waiting() : 0;
  predecessor_->inbox->acknowledge_all_but(not_yet);
  predecessor_->inbox->return_acknowledgements();  // if not now, then in a later poll()
}

void Chain::check_patience(transport::TimePoint now) {
  if (!waits_for_predecessor_.is_under_way() && !waits_for_follower_.is_under_way()) return;
  suspect_who_does_not_follow(now);
  const std::chrono::milliseconds of_silence(std::uint64_t{6} * options_.silence_timeout_ms);
  const auto patience = std::max<transport::Duration>(kPatience, of_silence) + source_->longest_absence();
  for (const Wait* const wait : {&waits_for_predecessor_, &waits_for_follower_}) {
    // The job can do without one that joins.
    if (wait == &waits_for_follower_ && source_->newest().joining_of(options_.rank) == follower_address_)
      continue;
    if (!wait->is_under_way() || now - wait->since <= patience) continue;
    // The goodbye of the one before was lost with its connection: nobody who decides misses it, and workers
    // that were not answered would have made this copy serve by now.
    if (wait == &waits_for_predecessor_ && have_all_left()) {
      is_dismissed_ = true;
      return dismiss_follower();
    }
    host_.fail(absl::UnavailableError(
        fmt::format("a copy of server {} has waited {} s for {}", options_.rank,
                    std::chrono::duration_cast<std::chrono::seconds>(patience).count(), wait->what)));
  }
}

void Chain::suspect_who_does_not_follow(transport::TimePoint now) {
  if (!waits_for_follower_.is_under_way() || follower_ != nullptr || follower_address_.empty()) return;
  const auto waits = now - waits_for_follower_.since;
  const std::string joining = source_->newest().joining_of(options_.rank);
  if (joining == follower_address_) {
    if (waits > kPatienceWithJoining) source_->suspect(follower_address_, "it joins, and does not come");
    return;
  }
  // Nobody else watches it: the copy that it has followed is gone. It may be busy with one that joins. On one
  // host it is ended if it is stopped.
  const std::uint64_t times = joining.empty() ? 2 : 4;
  const std::chrono::milliseconds most(times * options_.silence_timeout_ms);
  if (!source_->ends_who_is_left_out() && most.count() > 0 && waits > most)
    source_->suspect(follower_address_, "it has a place after another copy, and does not come");
}

/// To one that joins.
bool Chain::send_image() {
  if (!has_begun_image_) {
    has_begun_image_ = host_.begin_image(transport_.now() > wants_image_since_ + grain_.waits_for_clock);
    image_records_ = log_.counted();
    return has_begun_image_;
  }
  if (!image_sender_) {
    std::optional<Image> image = host_.take_image();
    if (!image) return false;
    image_sender_.emplace(*std::move(image), image_records_);
  }
  if (image_sender_->has_failed()) {
    give_up_who_joins("there is no memory to copy what it needs");
    return true;
  }
  LogSender& to = *follower_->log;
  bool sent = image_sender_->has_begun() && late_.send(to);
  if (transport_.now() >= next_piece_ && image_sender_->send(to)) {
    next_piece_ = transport_.now() + grain_.between_messages;
    sent = true;
  }
  // What this copy has kept for later is acknowledged already, and the other one lacks it.
  if (!image_sender_->is_sent() || backlog_.waiting() > 0) return sent;
  if (!late_.empty() || !image_sender_->send_end(to)) return sent;
  forget_image();
  follower_has_all_ = true;
  expect_follower();
  if (const absl::Status status = log_.follow(follower_->log.get(), log_.counted()); !status.ok())
    host_.fail(status);
  return true;
}

/// It is sent, or of no use.
void Chain::forget_image() {
  if (std::exchange(has_begun_image_, false)) host_.forget_image();
  follower_wants_image_ = false;
  image_sender_.reset();
  late_.clear();
}

/// A record counts, which the image does not have.
void Chain::keep_for_who_joins(const WorkerMessage& record) {
  if (!has_begun_image_ || !record.travels) return;
  late_.add(record, log_.counted());
  const std::uint64_t most = grain_.spare_log_bytes + (image_sender_ ? image_sender_->bulk_bytes() : 0);
  if (late_.bytes() > most)
    give_up_who_joins(fmt::format("it joins, and more than {} bytes of the log wait for it", most));
}

void Chain::give_up_who_joins(std::string_view why) {
  forget_image();
  gives_up_because_ = why;
  source_->suspect(follower_address_, gives_up_because_);
}

/// One that joins holds up nobody before it was sent all that counts.
void Chain::expect_follower() {
  log_.expect_follower(!follower_address_.empty() && (!follower_joins_ || follower_has_all_));
}

/// Nothing counts that it does not have, so it must not hold up all others.
void Chain::watch_follower(transport::TimePoint now) {
  if (follower_ == nullptr || options_.silence_timeout_ms == 0 || now < next_watch_) return;
  next_watch_ = now + transport::kBeatInterval;
  if (!gives_up_because_.empty()) source_->suspect(follower_address_, gives_up_because_);
  if (const absl::Status status = follower_->watch->look(*follower_->connection, now); !status.ok())
    source_->suspect(follower_address_, std::string(status.message()));
}

transport::TimePoint Chain::next_poll() const {
  if (source_ == nullptr) return transport::TimePoint::max();
  transport::TimePoint next = source_->next_poll();
  if (!predecessor_address_.empty() && predecessor_ == nullptr) next = std::min(next, next_attempt_);
  if (next_piece_ > transport_.now()) next = std::min(next, next_piece_);
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
  waits_for_predecessor_ = waits_for_follower_ = {};
  const std::string before = here == chain.begin() ? "" : *(here - 1);
  const std::string after = here + 1 == chain.end() ? "" : *(here + 1);
  if (std::exchange(predecessor_address_, before) != before) {
    next_attempt_ = transport::TimePoint::min();  // it may be there, other than the one that is gone
    attempt_ = {};
    // What was kept of the one before counts here, as what lies in its ring.
    if (has_image_) go_by_backlog(SIZE_MAX);
    // What the one before has sent after this is heard by nobody: its workers say it again.
    if (predecessor_ != nullptr) host_.drop(*predecessor_);
    predecessor_ = nullptr;
  }
  if (std::exchange(follower_address_, after) != after) {
    if (follower_ != nullptr) {
      Peer& gone = *follower_;
      lose_follower();
      host_.drop(gone);
    }
    follower_has_all_ = false;
    gives_up_because_.clear();
  }
  follower_joins_ = newest.joining_of(options_.rank) == after;
  expect_follower();
  if (!after.empty() && follower_ == nullptr)
    waits_for_follower_ = {transport_.now(), fmt::format("the copy at {}", after)};
  if (before.empty() && !std::exchange(serves_, true)) serve();
}

void Chain::serve() {
  if (!source_->ends_who_is_left_out() && host_.acknowledges_at_once()) log_.hold();
  inherited_ = log_.records();
  host_.serve();
}

/// What it has acknowledged counts, and lanes have it. They use it before workers are welcome.
void Chain::catch_up() {
  if (!inherited_ || log_.counted() < *inherited_) return;
  inherited_.reset();
  host_.begin_catching_up();
}

bool Chain::have_all_left() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Peer* worker) { return worker != nullptr && worker->left; });
}

bool Chain::have_all_come() const {
  return std::all_of(workers_.begin(), workers_.end(),
                     [](const Peer* worker) { return worker->left || worker->pid != 0; });
}

void Chain::connect() {
  const transport::TimePoint now = transport_.now();
  if (now < next_attempt_) return;
  next_attempt_ = now + kBetweenAttempts;
  // What this copy says to have counts for the one that it will follow, as if it were acknowledged: so all
  // copies after this one have it.
  if (log_.counted() < log_.records() || backlog_.waiting() > 0) return;
  auto connection = transport_.connect(predecessor_address_, now + attempt_.next());
  if (!connection.ok()) {
    // Others that wait for this copy must not take it for silent.
    attempt_.failed(connection.status(), transport::longest_attempt_beside(
                                             std::chrono::milliseconds(options_.silence_timeout_ms)));
    if (!waits_for_predecessor_.is_under_way())
      waits_for_predecessor_ = {now, fmt::format("the copy at {}", predecessor_address_)};
    return;
  }
  Peer& peer = host_.add_peer(*std::move(connection));
  peer.connection->set_peer_name(fmt::format("the copy of server {} before this one", options_.rank));
  peer.is_predecessor = true;
  // The one before may end just now: it is tried again, or the job has ended.
  const auto fail = [&](const absl::Status& status) {
    if (peer.connection->status().ok()) return host_.fail(status);
    predecessor_ = nullptr;
    waits_for_predecessor_ = {now, fmt::format("the copy at {}", predecessor_address_)};
    host_.drop(peer);
  };
  auto ring = transport::RingReceiver::create(transport_, *peer.connection, protocol::kLogRingBytes);
  if (!ring.ok()) return fail(ring.status());
  peer.inbox = *std::move(ring);
  predecessor_ = &peer;
  attempt_ = {};
  follows_ = false;
  waits_for_predecessor_ = {};
  const auto heartbeat = host_.grant_heartbeat(*peer.connection);
  if (!heartbeat.ok()) return fail(heartbeat.status());
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
    waits_for_follower_ = {transport_.now(), fmt::format("the copy at {}", follower_address_)};
  }
  if (follow.has_image) RETURN_IF_ERROR(log_.follow(sender->get(), follow.records));
  follower_wants_image_ = !follow.has_image;
  wants_image_since_ = transport_.now();
  follower_has_all_ = follow.has_image;
  expect_follower();
  peer.log = *std::move(sender);
  peer.connection->set_peer_name(fmt::format("the copy (pid {}) of server {}", follow.pid, options_.rank));
  follower_ = &peer;
  follower_knows_ = false;
  waits_for_follower_ = {};
  host_.reply(
      peer, protocol::Followed{.pid = static_cast<std::uint32_t>(::getpid()),
                               .log_credit = protocol::Descriptor::of(peer.log->ring().credit_descriptor())});
  if (is_over()) dismiss_follower();
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
  if (!has_image_ && is_dismissed_) {
    predecessor.in_inbox.emplace_back();  // as on_piece()
    return absl::OkStatus();
  }
  if (!has_image_ && !image_.has_begun())
    return absl::InvalidArgumentError("a record of the log before an image");
  const std::uint64_t last = (has_image_ ? log_.records() : image_.records()) + backlog_.waiting();
  if (heard->header.number != last + 1) {
    return absl::InvalidArgumentError(
        fmt::format("record {} of the log after record {}", heard->header.number, last));
  }
  InboxMessage& inbox = predecessor.in_inbox.emplace_back();
  if (has_image_ && backlog_.empty()) return take(*heard, inbox);
  // What is kept leaves the ring, which acknowledges it. A copy after this one must have it before.
  backlog_.add(bytes, inbox, log_.is_needed() ? 0 : most_backlog_bytes_);
  return absl::OkStatus();
}

absl::Status Chain::take(const protocol::LogRecord& record, InboxMessage& inbox) {
  WorkerMessage said{.worker = workers_[record.header.worker], .inbox = &inbox, .is_forwarded = true};
  if (record.header.kind == protocol::LogHeader::Kind::kControl) {
    absl::StatusOr<protocol::ControlMessage> control = protocol::decode_control(record.message);
    if (!control.ok()) return control.status();
    said.control = *std::move(control);
  } else {
    absl::StatusOr<protocol::BulkMessage> message = protocol::decode_bulk(record.message);
    if (!message.ok()) return message.status();
    said.message = *message;
  }
  return take(std::move(said));
}

/// False: there was none that it could go by.
bool Chain::go_by_backlog(std::size_t most_bytes) {
  backlog_.release();
  std::size_t bytes = 0;
  while (bytes < most_bytes) {
    const std::optional<Backlog::Record> next = backlog_.take();
    if (!next) break;
    bytes += next->bytes.size();
    // It was looked at when it came.
    const absl::StatusOr<protocol::LogRecord> record =
        protocol::decode_log_record(next->bytes, options_.workers);
    const absl::Status status = record.ok() ? take(*record, *next->inbox) : record.status();
    if (!status.ok()) host_.fail(status);
  }
  return bytes > 0;
}

absl::Status Chain::on_piece(const protocol::LogRecord& piece) {
  if (has_image_) return absl::InvalidArgumentError("an image for a copy that has one");
  if (is_dismissed_) return absl::OkStatus();  // all was over before it could join
  RETURN_IF_ERROR(image_.take(piece, [&](std::string_view head) { return host_.load(head); }));
  most_backlog_bytes_ = grain_.spare_log_bytes + image_.bulk_bytes();
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
  forget_image();
}

bool Chain::may_follower_come() const {
  return waits_for_follower_.is_under_way() && is_over() &&
         transport_.now() - over_since_ <= kPatienceWhenOver;
}

void Chain::dismiss_follower() {
  if (!is_over()) over_since_ = transport_.now();
  if (follower_ != nullptr) host_.reply(*follower_, protocol::Goodbye{});
}

void Chain::on_goodbye(const Peer& peer) {
  if (&peer != predecessor_) return;
  if (has_image_) go_by_backlog(SIZE_MAX);
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
  if (is_dismissed_ || (is_over() && is_follower)) return;
  // It was sent part of an image, and has rows of it already. The one before waits for it, and may know later
  // that the connection is gone.
  if (!is_follower && image_.has_begun()) {
    return host_.fail(absl::AbortedError(
        fmt::format("a copy of server {} has lost the copy at {}, by which it joins, before it had all",
                    options_.rank, predecessor_address_)));
  }
  const std::string& address = is_follower ? follower_address_ : predecessor_address_;
  const transport::TimePoint now = transport_.now();
  source_->expect_change();
  if (!is_follower) next_attempt_ = now + kBeforeAnotherAttempt;
  (is_follower ? waits_for_follower_ : waits_for_predecessor_) = {
      now, fmt::format("a configuration without the copy at {}, which is gone", address)};
}

}  // namespace verbena::server
