#include "transport/tcp/tcp_connection.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/inside.hpp"
#include "transport/shm/transfer.hpp"
#include "transport/tcp/region.hpp"
#include "transport/tcp/socket.hpp"

namespace verbena::transport::tcp {

namespace {

/// Answers that an end may await: enough for a network of 100 Gbit/s and 160 µs.
constexpr std::uint64_t kMostAwaitedBytes = std::uint64_t{2} << 20;
/// post() takes nothing while so much waits to be sent, beside payloads that are sent from where they lie.
constexpr std::size_t kMostHeldBytes = std::size_t{1} << 20;
/// In one progress(), so that no connection starves another, and the lock is not held for long.
constexpr std::size_t kMostReceivedBytes = std::size_t{1} << 20;
/// For further streams to bring what was sent before the first one ended.
constexpr auto kGraceOfFirstStream = std::chrono::milliseconds(500);
constexpr int kClosingCheckMs = 5;
/// Between hosts, unless the options say otherwise: fewer do not make up for a flow that loses, more seldom
/// help.
constexpr std::uint32_t kStreamsBetweenHosts = 4;
/// After so much of long payloads it is worth it to open more streams.
constexpr std::uint64_t kLongBytesWorthStreams = std::uint64_t{4} << 20;

}  // namespace

// ---- life

TcpConnection::TcpConnection(Hub& hub, Channel channel, Terms terms)
    : hub_(hub),
      channel_(std::move(channel)),
      terms_(std::move(terms)),
      reader_(hub.options.max_message_bytes),
      streams_(hub, *this),
      requests_(hub.options.send_depth),
      credits_(terms_.credits),
      most_credits_(terms_.credits) {
  set_peer_name(terms_.peer);
  hub_.connections.push_back(this);
  const absl::StatusOr<std::uint64_t> number = hub_.sockets.add(channel_.socket(), *this);
  if (number.ok()) {
    number_ = *number;
  } else {
    fail({.reason = number.status()});
  }
}

TcpConnection::~TcpConnection() {
  std::unique_lock lock(hub_.mutex);
  const TimePoint end = clock_now() + hub_.options.linger;
  const auto has_to_send = [&] { return !writer_.empty() || streams_.sent() < streams_.queued(); };
  while (reason_.ok() && has_to_send() && clock_now() < end) {
    const bool sends = wants_ == Sockets::Wants::kReadingAndWriting || wants_ == Sockets::Wants::kWriting;
    const bool receives = !sends && !writer_.empty();  // before it can go on sending
    pollfd file = {.fd = channel_.socket(),
                   .events = static_cast<short>(sends      ? POLLOUT
                                                : receives ? POLLIN
                                                           : 0),
                   .revents = 0};
    lock.unlock();  // the socket may be closed meanwhile, which poll() survives
    ::poll(&file, 1, kClosingCheckMs);
    lock.lock();
    if (reason_.ok()) progress();
  }
  fail({.reason = absl::CancelledError("it was closed here"), .parts_well = true});
  std::erase(hub_.connections, this);
  std::erase_if(hub_.ready, [&](const Hub::Pending& pending) { return pending.event.connection == this; });
}

void TcpConnection::take() {
  is_taken_ = true;
  for (Hub::Pending& pending : held_) hub_.ready.push_back(std::move(pending));
  held_.clear();
}

void TcpConnection::raise(Event event, std::vector<std::byte> message) {
  event.connection = this;
  if (event.kind == Event::Kind::kCompletion) ++completions_;
  (is_taken_ ? hub_.ready : held_).push_back({event, std::move(message)});
}

void TcpConnection::on_polled(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kCompletion:
      --completions_;
      make_known_that_there_is_room();
      if (event.result != OperationResult::kOk) show();
      return;
    case Event::Kind::kNotification:
    case Event::Kind::kMessage:
      --unpolled_;
      ++owed_credits_;
      if (!reason_.ok() || owed_credits_ < (hub_.options.receive_depth + 1) / 2) return;
      writer_.add({.kind = FrameKind::kCredits, .value = std::exchange(owed_credits_, 0)});
      send();
      return;
    case Event::Kind::kDisconnected:
      show();
      return;
    case Event::Kind::kAccepted:
      return;
  }
}

void TcpConnection::tick() {
  if (!reason_.ok()) return;
  if (long_bytes_ >= kLongBytesWorthStreams) open_streams();
  if (const absl::Status status = streams_.check(clock_now()); !status.ok()) return fail({.reason = status});
  const Acknowledged known = acknowledged(channel_.socket());
  const Silence::Verdict verdict = silence_.look(known, !writer_.empty(), hub_.options.peer_timeout);
  if (verdict == Silence::Verdict::kUnknown) writer_.add({.kind = FrameKind::kProbe});
  if (verdict == Silence::Verdict::kUnknown || streams_.count() > 0) send();
  if (verdict == Silence::Verdict::kGone) {
    fail({.reason = absl::DeadlineExceededError(fmt::format("{} for {} ms",
                                                            channel_.waits_for_handshake()
                                                                ? "it has not answered the handshake of TLS"
                                                                : "its host has not answered",
                                                            known.silent.count()))});
  }
}

// ---- further streams

void TcpConnection::open_streams() {
  if (streams_asked_for_ > 0 || !terms_.listener || !reason_.ok()) return;
  std::uint32_t wanted = hub_.options.streams;
  if (wanted == 0) wanted = is_within_host(channel_.socket()) ? 1 : kStreamsBetweenHosts;
  streams_asked_for_ = std::min(wanted, terms_.most_streams);
  if (streams_asked_for_ > 1) streams_.open(*terms_.listener, terms_.id, streams_asked_for_);
}

absl::Status TcpConnection::check_one_more_stream() const {
  if (!reason_.ok()) return absl::FailedPreconditionError("the connection has ended");
  if (terms_.listener) return absl::FailedPreconditionError("the connection was asked for here");
  if (streams_.count() >= most_streams(hub_.options))
    return absl::ResourceExhaustedError("the connection has as many streams as it may have");
  return absl::OkStatus();
}

void TcpConnection::add_stream(Channel channel) {
  if (const absl::Status added = streams_.add(std::move(channel)); !added.ok())
    spdlog::debug("{}: a further stream cannot be had: {}", terms_.peer, std::string(added.message()));
}

void TcpConnection::on_stream_failed(const absl::Status& why) {
  fail({.reason = why, .parts_well = true});
}

/// Not by the name that the owner has given, which belongs to the owner's thread.
void TcpConnection::on_streams_opened() {
  const std::size_t usable = streams_.usable();
  const bool are_fewer_than_asked_for = usable < streams_asked_for_ && hub_.options.streams > 1;
  spdlog::log(are_fewer_than_asked_for ? spdlog::level::warn : spdlog::level::info,
              "{}: {} of {} further streams have been opened, for what is long", terms_.peer, usable,
              streams_asked_for_);
}

void TcpConnection::tell_who_is_late() const {
  spdlog::warn("{}: {} of {} further streams are not there yet; it goes on without them until they are",
               terms_.peer, streams_asked_for_ - streams_.usable(), streams_asked_for_);
}

std::size_t TcpConnection::streams() const {
  const std::lock_guard lock(hub_.mutex);
  return std::max<std::size_t>(1, streams_.usable());
}

void TcpConnection::show() {
  if (shown_.ok() && !reason_.ok()) {
    shown_ = absl::Status(reason_.code(), fmt::format("{}: {}", peer_name(), std::string(reason_.message())));
  }
}

void TcpConnection::make_known_that_there_is_room() {
  if (std::exchange(was_refused_room_, false)) hub_.has_room_again = true;
}

void TcpConnection::fail(End how) {
  if (!reason_.ok()) return;
  reason_ = std::move(how.reason);
  complete();
  OperationResult result = how.first;
  requests_.end_all([&](const Request& request, bool was_completed) {
    if (how.refused_frame) {
      // Everything before what was refused was carried out; nothing after it was, even if it has left.
      const auto after = static_cast<std::int32_t>(request.last_frame - *how.refused_frame);
      if (after < 0 && was_completed) return;
    } else if (was_completed) {
      return;
    }
    raise({.kind = Event::Kind::kCompletion, .result = result, .id = request.id});
    result = OperationResult::kFlushed;
  });
  if (how.refused_request) raise(*how.refused_request);
  raise({.kind = Event::Kind::kDisconnected, .result = OperationResult::kPeerGone});
  if (number_ != 0) hub_.sockets.remove(number_, channel_.socket());
  if (how.parts_well && !writer_.needs_others_memory() && !streams_.needs_others_memory()) {
    const TimePoint deadline = clock_now() + hub_.options.linger;
    hub_.leaving.emplace_back(hub_.sockets, std::move(channel_), std::move(writer_), deadline);
    streams_.leave(deadline);
  }
  streams_.close();
  channel_.reset();
  writer_ = FrameWriter();
  make_known_that_there_is_room();
}

// ---- granting

absl::StatusOr<RemoteDescriptor> TcpConnection::grant(const MemoryRegion& region) {
  const std::lock_guard lock(hub_.mutex);
  show();
  if (!shown_.ok()) return shown_;
  return grants_.add(region);
}

absl::StatusOr<RemoteDescriptor> TcpConnection::grant_in_place(const MemoryRegion& region) {
  if (region.access() != Access::kRemoteReadHostWrite)
    return absl::PermissionDeniedError("a region that peers may not write in place cannot be granted so");
  return grant(region);
}

// ---- posting

std::size_t TcpConnection::do_post(std::span<const WorkRequest> requests) {
  const std::lock_guard lock(hub_.mutex);
  std::size_t taken = 0;
  for (; taken < requests.size() && reason_.ok(); ++taken) {
    const WorkRequest& request = requests[taken];
    if (!has_room_for(request)) {
      was_refused_room_ = true;
      break;
    }
    if (std::optional<End> fault = fault_of(request)) {
      fail(*std::move(fault));
    } else {
      add(request);
    }
  }
  if (reason_.ok() && taken > 0) send();
  show();
  return taken;
}

bool TcpConnection::has_room_for(const WorkRequest& request) {
  if (completions_ >= hub_.options.send_depth || writer_.held_bytes() >= kMostHeldBytes) return false;
  if (!requests_.empty() && requests_.last().is_read && !requests_.last().all_asked) return false;
  const bool needs_credit = request.opcode == Opcode::kSend || request.opcode == Opcode::kWriteNotify;
  if (needs_credit && credits_ == 0) return false;
  if (request.opcode == Opcode::kRead) {
    const std::uint64_t first = answer_bytes(std::min<std::uint64_t>(request.local.size(), kMostReadBytes));
    if (awaited_bytes_ > 0 && awaited_bytes_ + first > kMostAwaitedBytes) return false;
  } else if (!is_settled(request.local)) {
    return false;
  }
  return requests_.make_room();
}

/// Whether no read that was posted before still has to bring these bytes, which would be sent as they are.
bool TcpConnection::is_settled(std::span<const std::byte> local) {
  if (awaited_bytes_ == 0) return true;
  const auto first = reinterpret_cast<std::uintptr_t>(local.data());
  return first >= awaited_last_ || first + local.size() <= awaited_first_;
}

std::optional<TcpConnection::End> TcpConnection::fault_of(const WorkRequest& request) const {
  const auto refuse = [&](OperationResult result, const std::string& why) {
    return End{.reason = absl::InvalidArgumentError(why),
               .first = OperationResult::kFlushed,
               .refused_request = Event{.kind = Event::Kind::kCompletion, .result = result, .id = request.id},
               .parts_well = true};
  };
  if (request.opcode == Opcode::kSend) {
    if (request.local.size() <= hub_.options.max_message_bytes) return std::nullopt;
    return refuse(OperationResult::kDeviceError,
                  fmt::format("a message to it has {} bytes, more than the {} that messages may have",
                              request.local.size(), hub_.options.max_message_bytes));
  }
  if (request.region == nullptr || !is_inside(request.local, request.region->bytes()))
    return refuse(OperationResult::kAccessDenied, "the local bytes of a request are not in its region");
  return std::nullopt;
}

void TcpConnection::add(const WorkRequest& request) {
  if (request.opcode == Opcode::kRead) {
    if (awaited_bytes_ == 0)
      awaited_first_ = awaited_last_ = reinterpret_cast<std::uintptr_t>(request.local.data());
    requests_.add({.id = request.id,
                   .signaled = request.signaled,
                   .is_read = true,
                   .local = request.local,
                   .address = request.remote.address,
                   .key = request.remote.key});
    const auto first = reinterpret_cast<std::uintptr_t>(request.local.data());
    awaited_first_ = std::min(awaited_first_, first);
    awaited_last_ = std::max(awaited_last_, first + request.local.size());
    return ask(requests_.last());
  }
  Frame frame{.kind = FrameKind::kWrite,
              .address = request.remote.address,
              .key = request.remote.key,
              .length = request.local.size()};
  if (request.opcode == Opcode::kSend) frame = {.kind = FrameKind::kMessage, .length = request.local.size()};
  if (request.opcode == Opcode::kWriteNotify) {
    frame.kind = FrameKind::kWriteNotify;
    frame.value = request.notification;
  }
  if (frame.kind != FrameKind::kWrite) --credits_;
  const bool is_elsewhere = is_long(request.local.size()) && frame.kind != FrameKind::kMessage;
  if (is_elsewhere) note_long(request.local.size());
  if (is_elsewhere && streams_.can_send()) {
    frame.is_elsewhere = 1;
    writer_.add(frame);
    streams_.add_in_place(frame, request.local);
  } else if (request.local.size() <= FrameWriter::kMostCopiedBytes || frame.kind == FrameKind::kMessage) {
    const std::span<std::byte> room = writer_.add(frame);
    if (!room.empty()) std::memcpy(room.data(), request.local.data(), room.size());
  } else {
    writer_.add_in_place(frame, request.local);
  }
  requests_.add({.id = request.id,
                 .signaled = request.signaled,
                 .last_frame = next_frame_++,
                 .end = writer_.queued(),
                 .payloads = streams_.queued()});
}

/// Asks for as much of a read as may be awaited.
void TcpConnection::ask(Request& read) {
  while (!read.all_asked) {
    const std::size_t length = std::min<std::size_t>(read.local.size() - read.asked_bytes, kMostReadBytes);
    if (awaited_bytes_ > 0 && awaited_bytes_ + answer_bytes(length) > kMostAwaitedBytes) return;
    writer_.add({.kind = FrameKind::kRead,
                 .address = read.address + read.asked_bytes,
                 .key = read.key,
                 .length = length});
    read.last_frame = next_frame_++;
    read.asked_bytes += length;
    read.all_asked = read.asked_bytes == read.local.size();
    ++read.awaited_answers;
    awaited_bytes_ += answer_bytes(length);
  }
}

void TcpConnection::send() {
  if (!reason_.ok()) return;
  int error = writer_.empty() ? 0 : writer_.send(channel_);
  if (streams_.count() > 0 && (error == 0 || error == EAGAIN)) {
    if (const int other = streams_.send(); other != 0) error = other;
  }
  if (error != 0 && error != EAGAIN) {
    complete();
    // What the peer has said before it went tells more; behind it receive() finds the end.
    writer_ = FrameWriter();
    receive();
    return fail({.reason = has_gone(error)});
  }
  const Sockets::Wants wants = channel_.wants(!writer_.empty(), !reader_.is_paused());
  if (std::exchange(wants_, wants) != wants) hub_.sockets.want(number_, channel_.socket(), wants);
  if (streams_.count() > 0) streams_.watch();
  complete();
}

void TcpConnection::complete() {
  const Sent sent{.first_stream = writer_.sent(), .payloads = streams_.sent()};
  requests_.complete(sent, [&](const Request& request) {
    raise({.kind = Event::Kind::kCompletion, .result = OperationResult::kOk, .id = request.id});
  });
  if (writer_.held_bytes() < kMostHeldBytes / 2) make_known_that_there_is_room();
}

// ---- receiving

void TcpConnection::progress() {
  receive();
  send();
  if (has_refused_ && reason_.ok()) {
    fail({.reason = absl::PermissionDeniedError("it tried to reach memory that it was not granted"),
          .first = OperationResult::kFlushed,
          .parts_well = true});
  }
}

void TcpConnection::receive() {
  channel_.begin_receiving();
  // Of all streams together. What has left the sockets is taken in any case, for nothing else tells of it.
  for (std::size_t left = kMostReceivedBytes; reason_.ok() && !has_refused_;) {
    if (reader_.is_paused()) {
      if (receive_elsewhere(left)) continue;
      return watch_first_stream();
    }
    const std::span<std::byte> room = reader_.room(hub_.buffer);
    const std::ptrdiff_t count = channel_.receive(room);
    if (count == -EAGAIN) return;
    if (count <= 0) return fail({.reason = has_gone(static_cast<int>(-count))});
    hub_.has_worked = true;
    const absl::Status status = reader_.received(static_cast<std::size_t>(count), *this);
    if (!status.ok() && !has_refused_ && reason_.ok()) return fail({.reason = status, .parts_well = true});
    if (streams_.count() > 0) streams_.note_received();
    left -= std::min(left, static_cast<std::size_t>(count));
    if (left == 0) channel_.take_no_more();
  }
}

/// It is not received from now, so that nothing else would tell that it has ended, but its socket would stay
/// ready. What the other streams bring is awaited for a while: the peer may have left in good order.
void TcpConnection::watch_first_stream() {
  if (!reason_.ok() || hub_.has_worked || !is_broken(channel_.socket())) {
    first_stream_broken_at_.reset();
    return;
  }
  const TimePoint now = clock_now();
  if (!first_stream_broken_at_) first_stream_broken_at_ = now;
  if (now - *first_stream_broken_at_ >= kGraceOfFirstStream)
    fail({.reason = has_gone(0), .parts_well = true});
}

/// False: not all of the payload is there, or the connection has ended.
bool TcpConnection::receive_elsewhere(std::size_t& left) {
  const absl::StatusOr<bool> has_all = streams_.receive(left);
  if (has_all.ok() && !*has_all) return false;
  absl::Status status = has_all.status();
  if (status.ok()) status = finish(elsewhere_);
  if (status.ok()) status = reader_.resume(*this);
  if (!status.ok() && !has_refused_ && reason_.ok()) fail({.reason = status, .parts_well = true});
  return status.ok();
}

absl::Status TcpConnection::begin(const Frame& frame) {
  if (is_request(frame.kind)) ++next_received_;
  switch (frame.kind) {
    case FrameKind::kRead:
      return answer(frame);
    case FrameKind::kWrite:
    case FrameKind::kWriteNotify:
      if (grants_.find(frame.key, frame.address, frame.length, Access::kRemoteWrite) == nullptr)
        return refuse();
      return absl::OkStatus();
    case FrameKind::kMessage:
      message_.clear();
      message_.reserve(frame.length);
      return absl::OkStatus();
    case FrameKind::kAnswer:
      return expect(frame);
    case FrameKind::kCredits:
      return take_credits(frame);
    case FrameKind::kRefusal:
      fail({.reason = absl::PermissionDeniedError("it has not granted what a request wanted to reach"),
            .first = OperationResult::kAccessDenied,
            .refused_frame = frame.value});
      return absl::PermissionDeniedError("refused");
    case FrameKind::kProbe:
      return absl::OkStatus();
    case FrameKind::kPiece:
      return nonsense("a piece on the first stream");
  }
  return nonsense("a frame of a kind that there is not");
}

absl::Status TcpConnection::take(const Frame& frame, std::uint64_t offset, std::span<const std::byte> bytes) {
  return place(frame, offset, bytes);
}

absl::Status TcpConnection::place(const Frame& frame, std::uint64_t offset,
                                  std::span<const std::byte> bytes) {
  if (frame.kind == FrameKind::kMessage) {
    message_.insert(message_.end(), bytes.begin(), bytes.end());
  } else if (frame.kind == FrameKind::kAnswer) {
    const Request& read = *requests_.awaited_read();
    std::memcpy(read.local.data() + read.answered_bytes + offset, bytes.data(), bytes.size());
  } else {
    // Asked anew for each piece: the owner may have destroyed the region after the first.
    std::byte* const place =
        grants_.find(frame.key, frame.address + offset, bytes.size(), Access::kRemoteWrite);
    if (place == nullptr) return refuse();
    shm::transfer(place, bytes.data(), bytes.size());
  }
  return absl::OkStatus();
}

absl::Status TcpConnection::end(const Frame& frame) {
  if (is_long(frame.length) && can_be_elsewhere(frame.kind)) note_long(frame.length);
  if (frame.is_elsewhere == 0) return finish(frame);
  if (streams_.count() == 0) return nonsense("a payload on streams that there are not");
  elsewhere_ = frame;
  streams_.await(frame);
  reader_.pause();
  return absl::OkStatus();
}

absl::Status TcpConnection::finish(const Frame& frame) {
  if (frame.kind == FrameKind::kAnswer) end_answer(frame);
  if (frame.kind != FrameKind::kMessage && frame.kind != FrameKind::kWriteNotify) return absl::OkStatus();
  if (unpolled_ + owed_credits_ >= hub_.options.receive_depth)
    return nonsense("more notifications and messages than it had credits for");
  ++unpolled_;
  if (frame.kind == FrameKind::kMessage) {
    raise({.kind = Event::Kind::kMessage}, std::exchange(message_, {}));
  } else {
    raise({.kind = Event::Kind::kNotification, .notification = frame.value});
  }
  return absl::OkStatus();
}

/// Copies the memory that was asked for, word by word, and sends the copy: the kernel would tear words that
/// are changed meanwhile.
absl::Status TcpConnection::answer(const Frame& question) {
  // What this side itself may have to send, and what a peer that counts may await.
  const std::size_t bound = 2 * kMostHeldBytes + hub_.options.max_message_bytes + kMostAwaitedBytes;
  if (writer_.held_bytes() + streams_.held_bytes() + question.length > bound)
    return nonsense("more reads than it may have under way");
  const std::byte* const from =
      grants_.find(question.key, question.address, question.length, Access::kRemoteRead);
  if (from == nullptr) return refuse();
  Frame frame{.kind = FrameKind::kAnswer, .address = question.address, .length = question.length};
  if (is_long(frame.length)) note_long(frame.length);
  frame.is_elsewhere = is_long(frame.length) && streams_.can_send() ? 1 : 0;
  std::span<std::byte> room = writer_.add(frame);
  if (frame.is_elsewhere != 0) room = streams_.add(frame);
  if (!room.empty()) shm::transfer(room.data(), from, room.size());
  return absl::OkStatus();
}

absl::Status TcpConnection::refuse() {
  writer_.add({.kind = FrameKind::kRefusal, .value = next_received_ - 1});
  has_refused_ = true;
  return absl::PermissionDeniedError("refused");
}

absl::Status TcpConnection::expect(const Frame& answer) {
  const Request* const read = requests_.awaited_read();
  const std::size_t expected =
      read == nullptr ? 0 : std::min<std::size_t>(read->local.size() - read->answered_bytes, kMostReadBytes);
  if (read == nullptr || answer.length != expected || answer.address != read->address + read->answered_bytes)
    return nonsense("an answer to what was not asked");
  return absl::OkStatus();
}

void TcpConnection::end_answer(const Frame& frame) {
  Request& read = *requests_.awaited_read();
  read.answered_bytes += frame.length;
  --read.awaited_answers;
  awaited_bytes_ -= answer_bytes(frame.length);
  if (!read.all_asked) ask(read);
  make_known_that_there_is_room();
}

absl::Status TcpConnection::take_credits(const Frame& frame) {
  if (frame.value > most_credits_ - credits_) return nonsense("more credits than there are");
  credits_ += frame.value;
  make_known_that_there_is_room();
  return absl::OkStatus();
}

}  // namespace verbena::transport::tcp
