#include "transport/tcp/further_streams.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <iterator>
#include <string>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/tcp/socket.hpp"

namespace verbena::transport::tcp {

namespace {

/// From asking for a stream until it is usable: as long as a listener hears strangers.
constexpr auto kOpeningPatience = std::chrono::seconds(10);
/// For the others to bring what was sent before one broke, or was closed.
constexpr auto kGrace = std::chrono::milliseconds(500);
constexpr int kQuietLooks = 2;

absl::Status of_one(const absl::Status& status) {
  return absl::Status(status.code(), fmt::format("one of its streams: {}", std::string(status.message())));
}

}  // namespace

FurtherStreams::FurtherStreams(Hub& hub, StreamsUser& user)
    : hub_(hub),
      user_(user),
      piece_bytes_(std::size_t{4} * hub.options.long_bytes / kWordBytes * kWordBytes) {}

FurtherStreams::~FurtherStreams() {
  assert(streams_.empty() && openings_.empty());  // the lock is not held any more
}

// ---- opening

void FurtherStreams::open(const sockaddr_storage& place, const ConnectionId& id, std::size_t count) {
  tells_when_opened_ = true;
  for (std::size_t i = 0; i < count; ++i) {
    Opening& opening = openings_.emplace_back(*this, id);
    opening.place = std::prev(openings_.end());
    opening.usable_by = clock_now() + kOpeningPatience;
    absl::Status begun = opening.approach.begin(place);
    if (begun.ok() && !leaves_descriptors(opening.approach.socket()))
      begun = absl::ResourceExhaustedError("there are many open files");
    if (begun.ok()) {
      const absl::StatusOr<std::uint64_t> number = hub_.sockets.add(opening.approach.socket(), opening);
      if (number.ok()) {
        opening.number = *number;
        hub_.sockets.want(*number, opening.approach.socket(), Sockets::Wants::kWriting);
        continue;
      }
      begun = number.status();
    }
    spdlog::debug("a further stream cannot be had: {}", std::string(begun.message()));
    openings_.pop_back();
  }
  tell_if_opened();
}

bool FurtherStreams::is_opening() const {
  return !openings_.empty() || std::ranges::any_of(streams_, [](const Stream& each) {
    return each.usable_by && !each.is_usable && !each.is_done_without;
  });
}

void FurtherStreams::tell_if_opened() {
  if (!tells_when_opened_ || is_opening()) return;
  tells_when_opened_ = false;
  user_.on_streams_opened();
}

std::size_t FurtherStreams::count() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(streams_, [](const Stream& each) { return !each.is_done_without; }));
}

void FurtherStreams::on_ready(Opening& opening) {
  const absl::StatusOr<bool> has_met = opening.approach.go_on();
  if (has_met.ok() && !*has_met) {
    hub_.sockets.want(opening.number, opening.approach.socket(),
                      opening.approach.waits_to_send() ? Sockets::Wants::kWriting : Sockets::Wants::kReading);
    return;
  }
  absl::Status status = has_met.status();
  if (status.ok()) {
    Channel channel = opening.approach.take().channel;
    hub_.sockets.remove(std::exchange(opening.number, 0), channel.socket());
    status = add(std::move(channel), opening.usable_by);
  }
  if (!status.ok()) spdlog::debug("a further stream cannot be had: {}", std::string(status.message()));
  end(opening);
}

void FurtherStreams::end(Opening& opening) {
  if (opening.number != 0) hub_.sockets.remove(opening.number, opening.approach.socket());
  openings_.erase(opening.place);
  tell_if_opened();
}

absl::Status FurtherStreams::add(Channel channel, std::optional<TimePoint> usable_by) {
  std::erase_if(streams_, [](const Stream& each) { return each.is_done_without; });
  Stream& stream = streams_.emplace_back(*this, std::move(channel), hub_.options.max_message_bytes);
  stream.usable_by = usable_by;
  const absl::StatusOr<std::uint64_t> number = hub_.sockets.add(stream.channel.socket(), stream);
  if (!number.ok()) {
    streams_.pop_back();
    return number.status();
  }
  stream.number = *number;
  keep_little_unsent(stream.channel.socket());
  // An error shows again, when it is used.
  shake_hands(stream).IgnoreError();
  watch();
  return absl::OkStatus();
}

absl::Status FurtherStreams::shake_hands(Stream& stream) {
  if (stream.is_ready || stream.is_done_without) return absl::OkStatus();
  const std::ptrdiff_t result = stream.channel.shake_hands();
  if (result == -EAGAIN) return absl::OkStatus();
  if (result == -EBADMSG) return of_one(has_gone(EBADMSG));
  if (result < 0) {
    do_without(stream, has_gone(static_cast<int>(-result)));
    return absl::OkStatus();
  }
  stream.is_ready = true;
  if (!stream.usable_by) stream.writer.add({.kind = FrameKind::kProbe});  // the listener speaks first
  return absl::OkStatus();
}

/// The peer has said something on it.
void FurtherStreams::make_usable(Stream& stream) {
  if (std::exchange(stream.is_usable, true)) return;
  ++usable_;
  if (stream.usable_by) stream.writer.add({.kind = FrameKind::kProbe});
  tell_if_opened();
}

/// REQUIRES: it is not usable.
void FurtherStreams::do_without(Stream& stream, const absl::Status& why) {
  spdlog::debug("a further stream cannot be had: {}", std::string(why.message()));
  stream.is_done_without = true;
  if (stream.number != 0) hub_.sockets.remove(std::exchange(stream.number, 0), stream.channel.socket());
  stream.channel.reset();
  tell_if_opened();
}

void FurtherStreams::on_ready(Stream& stream) {
  if (!is_awaiting_) {
    std::size_t most = 1;  // a header, or what only makes the kernel acknowledge something
    if (const absl::Status received = receive(stream, most); !received.ok())
      return user_.on_stream_failed(received);
    watch();
  }
  // What it has received belongs to a later payload. Nothing more is received, so nothing else would tell.
  if (stream.reader.is_paused() && !stream.broken_at && is_broken(stream.channel.socket()))
    note_broken(stream, of_one(has_gone(0)));
  user_.on_stream_ready();  // which may destroy it
}

void FurtherStreams::note_broken(Stream& stream, const absl::Status& how) {
  if (stream.number == 0) return;  // it is known
  if (!stream.is_usable) return do_without(stream, how);
  stream.broken_at = clock_now();
  stream.how_it_broke = how;
  hub_.sockets.remove(std::exchange(stream.number, 0), stream.channel.socket());  // it stays ready
}

// ---- sending

void FurtherStreams::add_in_place(const Frame& header, std::span<const std::byte> payload) {
  outgoing_.push_back({.header = header, .bytes = payload, .own = nullptr, .unsent = payload.size()});
}

std::span<std::byte> FurtherStreams::add(const Frame& header) {
  const std::size_t lead = header.address % kWordBytes;
  const auto length = static_cast<std::size_t>(header.length);
  auto own = std::make_unique_for_overwrite<std::byte[]>(lead + length);
  const std::span<std::byte> room(own.get() + lead, length);
  held_bytes_ += length;
  outgoing_.push_back({.header = header, .bytes = room, .own = std::move(own), .unsent = length});
  return room;
}

bool FurtherStreams::needs_others_memory() const {
  return std::ranges::any_of(outgoing_, [](const Outgoing& each) { return each.own == nullptr; });
}

FurtherStreams::Stream& FurtherStreams::next_to_send() {
  streams_.splice(streams_.end(), streams_, streams_.begin());
  return streams_.back();
}

/// Gives the stream the next piece. False: there is none.
bool FurtherStreams::assign_piece(Stream& stream) {
  if (!has_unassigned()) return false;
  Outgoing& payload = outgoing_[static_cast<std::size_t>(unassigned_ - sent_)];
  // Each piece but the last ends at a word.
  const std::uint64_t first = payload.header.address + payload.assigned;
  const std::size_t bytes =
      std::min(payload.bytes.size() - payload.assigned, piece_bytes_ - first % kWordBytes);
  stream.writer.add_in_place({.kind = FrameKind::kPiece,
                              .value = static_cast<std::uint32_t>(unassigned_),
                              .address = first,
                              .length = bytes},
                             payload.bytes.subspan(payload.assigned, bytes));
  stream.assigned.push_back({.payload = unassigned_, .bytes = bytes, .end = stream.writer.queued()});
  payload.assigned += bytes;
  if (payload.assigned == payload.bytes.size()) ++unassigned_;
  return true;
}

/// Takes note of what the stream has sent.
void FurtherStreams::settle(Stream& stream) {
  while (!stream.assigned.empty() && stream.assigned.front().end <= stream.writer.sent()) {
    const Assigned& piece = stream.assigned.front();
    outgoing_[static_cast<std::size_t>(piece.payload - sent_)].unsent -= piece.bytes;
    stream.assigned.pop_front();
  }
  for (; !outgoing_.empty() && outgoing_.front().unsent == 0; ++sent_) {
    if (outgoing_.front().own != nullptr) held_bytes_ -= outgoing_.front().bytes.size();
    outgoing_.pop_front();
  }
}

int FurtherStreams::send() {
  // Piece by piece, each to the next stream that takes one.
  for (Stream& stream : streams_)
    stream.is_full = !stream.is_ready || stream.is_done_without || stream.broken_at.has_value();
  std::size_t refusals = 0;  // one after the other
  for (std::size_t total = 0; refusals < streams_.size() && total < FrameWriter::kMostSentBytes;) {
    Stream& stream = next_to_send();
    if (stream.is_full || (stream.writer.empty() && !(stream.is_usable && assign_piece(stream)))) {
      ++refusals;
      continue;
    }
    const std::uint64_t before = stream.writer.sent();
    const int error = stream.writer.send(stream.channel);
    if (error != 0 && error != EAGAIN) {
      if (stream.is_usable) return error;
      do_without(stream, has_gone(error));
      stream.is_full = true;
      continue;
    }
    total += static_cast<std::size_t>(stream.writer.sent() - before);
    settle(stream);
    stream.is_full = error == EAGAIN;
    refusals = 0;
  }
  return 0;
}

// ---- receiving

void FurtherStreams::await(const Frame& header) {
  is_awaiting_ = true;
  awaited_ = header;
  unclaimed_ = incomplete_ = header.length;
}

/// Whether the piece is of the payload that is awaited. False: of a later one.
absl::StatusOr<bool> FurtherStreams::is_due(const Frame& piece) const {
  if (piece.kind != FrameKind::kPiece || piece.length == 0) return nonsense("no piece on a further stream");
  const auto ahead = static_cast<std::int32_t>(piece.value - static_cast<std::uint32_t>(received_));
  if (ahead < 0) return nonsense("a piece of what has come already");
  if (ahead > 0 || !is_awaiting_) return false;
  const std::uint64_t offset = piece.address - awaited_.address;
  const bool is_inside = offset <= awaited_.length && piece.length <= awaited_.length - offset;
  if (!is_inside || piece.length > unclaimed_) return nonsense("a piece that is not of its payload");
  return true;
}

absl::Status FurtherStreams::Stream::begin(const Frame& frame) {
  streams.make_usable(*this);
  if (frame.kind == FrameKind::kProbe) return absl::OkStatus();
  piece = frame;
  const absl::StatusOr<bool> is_due = streams.is_due(frame);
  if (!is_due.ok()) return is_due.status();
  if (*is_due) {
    streams.unclaimed_ -= frame.length;
  } else {
    reader.pause();
  }
  return absl::OkStatus();
}

absl::Status FurtherStreams::Stream::take(const Frame& frame, std::uint64_t offset,
                                          std::span<const std::byte> bytes) {
  streams.has_received_ = true;
  return streams.user_.take_bulk(streams.awaited_, frame.address - streams.awaited_.address + offset, bytes);
}

absl::Status FurtherStreams::Stream::end(const Frame& frame) {
  if (frame.kind == FrameKind::kProbe) return absl::OkStatus();
  streams.incomplete_ -= frame.length;
  if (streams.incomplete_ == 0) {
    streams.is_awaiting_ = false;
    ++streams.received_;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> FurtherStreams::receive(std::size_t& left) {
  for (Stream& stream : streams_) {
    if (is_awaiting_ && !stream.broken_at) RETURN_IF_ERROR(receive(stream, left));
  }
  const auto is_lost = [](const Stream& stream) {
    return stream.broken_at.has_value() || stream.is_done_without;
  };
  if (is_awaiting_ && std::ranges::all_of(streams_, is_lost)) {
    const auto broken =
        std::ranges::find_if(streams_, [](const Stream& each) { return each.broken_at.has_value(); });
    return broken == streams_.end() ? nonsense("a payload on streams that there are not")
                                    : broken->how_it_broke;
  }
  return !is_awaiting_;
}

absl::Status FurtherStreams::receive(Stream& stream, std::size_t& left_to_receive) {
  RETURN_IF_ERROR(shake_hands(stream));
  if (!stream.is_ready || stream.is_done_without) return absl::OkStatus();
  if (stream.reader.is_paused()) {
    const absl::StatusOr<bool> is_due = this->is_due(stream.piece);
    if (!is_due.ok()) return is_due.status();
    if (!*is_due) return absl::OkStatus();
    unclaimed_ -= stream.piece.length;
    RETURN_IF_ERROR(stream.reader.resume(stream));
  }
  stream.channel.begin_receiving();
  if (left_to_receive == 0) stream.channel.take_no_more();  // only what has left the socket
  while (!stream.reader.is_paused()) {
    const std::span<std::byte> room = stream.reader.room_for_one(hub_.buffer);
    const std::ptrdiff_t count = stream.channel.receive(room);
    if (count == -EAGAIN) break;
    if (count == -EBADMSG) return of_one(has_gone(EBADMSG));
    if (count <= 0) {
      note_broken(stream, of_one(has_gone(static_cast<int>(-count))));
      break;
    }
    hub_.has_worked = true;
    RETURN_IF_ERROR(stream.reader.received(static_cast<std::size_t>(count), stream));
    left_to_receive -= std::min(left_to_receive, static_cast<std::size_t>(count));
    if (left_to_receive == 0) stream.channel.take_no_more();
  }
  return absl::OkStatus();
}

// ---- their sockets

void FurtherStreams::watch() {
  for (Stream& stream : streams_) {
    if (stream.number == 0) continue;
    const bool sends = stream.is_ready && (!stream.writer.empty() || (stream.is_usable && has_unassigned()));
    const Sockets::Wants wants = stream.channel.wants(sends, !stream.reader.is_paused());
    if (std::exchange(stream.wants, wants) != wants)
      hub_.sockets.want(stream.number, stream.channel.socket(), wants);
  }
}

absl::Status FurtherStreams::check(TimePoint now) {
  for (auto next = openings_.begin(); next != openings_.end();) {
    Opening& opening = *next++;
    if (now < opening.usable_by) continue;
    spdlog::debug("a further stream cannot be had: {}", std::string(opening.approach.too_late().message()));
    end(opening);
  }
  const bool goes_on = std::exchange(has_received_, false);
  for (Stream& stream : streams_) {
    if (stream.usable_by && !stream.is_usable) {
      if (now >= *stream.usable_by && !stream.is_done_without)
        do_without(stream, absl::DeadlineExceededError("its listener has said nothing on it"));
      continue;  // nor is anything said here until then
    }
    // Its own pieces would never leave, however much the others bring.
    if (stream.broken_at && goes_on && stream.assigned.empty()) {
      stream.broken_at = now;
      stream.quiet_looks = 0;
    }
    // This process may have been stopped meanwhile: then what has come is still to be received.
    if (stream.broken_at && ++stream.quiet_looks > kQuietLooks && now - *stream.broken_at >= kGrace)
      return stream.how_it_broke;
    if (!stream.is_ready || stream.is_done_without || stream.broken_at) continue;
    const Acknowledged known = acknowledged(stream.channel.socket());
    switch (stream.silence.look(known, !stream.writer.empty(), hub_.options.peer_timeout)) {
      case Silence::Verdict::kAlive:
        break;
      case Silence::Verdict::kUnknown:
        stream.writer.add({.kind = FrameKind::kProbe});
        break;
      case Silence::Verdict::kGone: {
        const absl::Status gone = absl::DeadlineExceededError(
            fmt::format("its host has not answered for {} ms", known.silent.count()));
        if (stream.is_usable) return of_one(gone);
        do_without(stream, gone);
        break;
      }
    }
  }
  return absl::OkStatus();
}

void FurtherStreams::leave(TimePoint deadline) {
  while (usable_ > 0 && has_unassigned()) {
    Stream& stream = next_to_send();
    if (stream.is_usable) assign_piece(stream);
  }
  const auto memory = std::make_shared<std::deque<Outgoing>>(std::move(outgoing_));
  for (Stream& stream : streams_) {
    if (stream.number != 0) hub_.sockets.remove(std::exchange(stream.number, 0), stream.channel.socket());
    if (!stream.is_ready || stream.is_done_without || stream.broken_at) continue;
    hub_.leaving.emplace_back(hub_.sockets, std::move(stream.channel), std::move(stream.writer), deadline,
                              memory);
  }
  close();
}

void FurtherStreams::close() {
  for (Stream& stream : streams_) {
    if (stream.number != 0) hub_.sockets.remove(stream.number, stream.channel.socket());
  }
  for (Opening& opening : openings_) hub_.sockets.remove(opening.number, opening.approach.socket());
  streams_.clear();
  openings_.clear();
  outgoing_.clear();
  usable_ = 0;
  sent_ = unassigned_ = held_bytes_ = 0;
  is_awaiting_ = false;
}

}  // namespace verbena::transport::tcp
