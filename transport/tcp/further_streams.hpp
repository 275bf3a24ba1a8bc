// The further streams of a connection, over which its long payloads travel: a network often limits each flow
// of TCP, or loses of it, and not of several together.
//
// Order. The header of such a payload travels on the first stream, in its place among the other frames. Who
// comes upon it there takes nothing more from the first stream until the whole payload has come, in pieces,
// from the further ones. So frames are carried out in the order in which they would be on one stream, and
// what follows from that order (notifications, reads of what was written, refusals) needs nothing else.
// Pieces of a payload whose header has not come wait in the kernel, where later payloads use the time.
//
// It cannot come to a standstill: on each stream the pieces of a payload leave behind those of all payloads
// before it, and nothing has to be received for them to leave.
//
// A piece goes to the stream whose kernel has room next: so a slow stream gets fewer of them.
//
// Opening. The listener speaks first on a stream, then the connector, and each sends over it what is long
// when it has heard the other: so both surely have it, whatever comes first on another one. Until then
// nothing is lost with it, and it is done without if it breaks, or is not usable in time. What happens to one
// that is usable, happens to the connection.
//
// From a peer. Of a payload that is not awaited no more is received than one header for each stream: what
// else a peer sends stays in the kernel, which bounds it (net.ipv4.tcp_rmem for each, net.ipv4.tcp_mem for
// all). There is no smaller bound of ours: it would hold for a socket's whole life, and each stream would
// carry no more than that in a round trip, for which there are streams. A piece must lie within its payload,
// whose own frame was checked as if they were one.
//
// Thread safety: of a connection, with the transport's lock held.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/tcp/approach.hpp"
#include "transport/tcp/channel.hpp"
#include "transport/tcp/frame_reader.hpp"
#include "transport/tcp/frame_writer.hpp"
#include "transport/tcp/hub.hpp"
#include "transport/tcp/silence.hpp"
#include "transport/tcp/sockets.hpp"

namespace verbena::transport::tcp {

/// The connection.
class StreamsUser {
 public:
  /// As FrameUser::take(), of the payload that is awaited; pieces come in any order.
  virtual absl::Status take_bulk(const Frame& header, std::uint64_t offset,
                                 std::span<const std::byte> bytes) = 0;
  /// There is something to receive or to send. It may destroy the streams.
  virtual void on_stream_ready() = 0;
  /// The peer has sent what it may not. It may destroy the streams.
  virtual void on_stream_failed(const absl::Status& why) = 0;
  /// Each that was asked for is usable, or will not be.
  virtual void on_streams_opened() = 0;

 protected:
  ~StreamsUser() = default;
};

class FurtherStreams {
 public:
  FurtherStreams(Hub& hub, StreamsUser& user);
  ~FurtherStreams();  ///< REQUIRES: they are closed
  FurtherStreams(const FurtherStreams&) = delete;
  FurtherStreams& operator=(const FurtherStreams&) = delete;

  /// Asks the listener at `place` for so many streams of the connection `id`; they are added as they come.
  /// One that cannot be had is done without.
  void open(const sockaddr_storage& place, const ConnectionId& id, std::size_t count);
  [[nodiscard]] bool is_opening() const;
  /// One whose two ends have met, and which the peer has opened. An error: it is done without.
  absl::Status add(Channel channel) { return add(std::move(channel), std::nullopt); }
  /// Those that are not done without, usable or not.
  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] std::size_t usable() const { return usable_; }

  // Sending. A header is that of a frame which is elsewhere.
  [[nodiscard]] bool can_send() const { return usable_ > 0; }
  /// The payload stays where it is; it must not change until sent() has reached what queued() is after the
  /// call.
  void add_in_place(const Frame& header, std::span<const std::byte> payload);
  /// Returns room for the payload, at the same offset in a word as its address, until it is next sent.
  std::span<std::byte> add(const Frame& header);
  /// How many payloads were added, and how many of these the kernel has, with all before them.
  [[nodiscard]] std::uint64_t queued() const { return sent_ + outgoing_.size(); }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  /// Bytes in memory of their own.
  [[nodiscard]] std::size_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] bool needs_others_memory() const;
  /// As FrameWriter::send().
  int send();

  // Receiving.
  /// The header has come. REQUIRES: no other payload is awaited.
  void await(const Frame& header);
  /// Receives what is there of it, but from the sockets no more than `left` bytes, which become fewer. True:
  /// all has come, and nothing is awaited any more. Errors end the connection.
  absl::StatusOr<bool> receive(std::size_t& left);
  /// Something has come over the first stream: the peer is not at its end yet.
  void note_received() { has_received_ = true; }

  /// Watches the sockets for what there is to do. Call it after receiving and sending.
  void watch();
  /// An error if a usable stream has broken, or gives no sign of life. Call it at intervals, and send().
  absl::Status check(TimePoint now);

  /// Closes them; what was added still leaves, if that needs nobody else's memory.
  void leave(TimePoint deadline);
  void close();

 private:
  struct Outgoing {
    Frame header;
    std::span<const std::byte> bytes;
    std::unique_ptr<std::byte[]> own;  ///< nullptr: `bytes` are others'
    std::size_t assigned = 0;          ///< to streams, from the front
    std::size_t unsent = 0;
  };
  /// A piece that a stream's writer has, up to where.
  struct Assigned {
    std::uint64_t payload = 0;
    std::size_t bytes = 0;
    std::uint64_t end = 0;
  };
  struct Stream final : SocketUser, FrameUser {
    Stream(FurtherStreams& whose, Channel to_peer, std::size_t max_message_bytes)
        : streams(whose), channel(std::move(to_peer)), reader(max_message_bytes) {}
    void on_ready() override { streams.on_ready(*this); }
    absl::Status begin(const Frame& frame) override;
    absl::Status take(const Frame& frame, std::uint64_t offset, std::span<const std::byte> bytes) override;
    absl::Status end(const Frame& frame) override;

    FurtherStreams& streams;
    Channel channel;
    FrameReader reader;  ///< paused: `piece` is of a payload that is not awaited yet
    FrameWriter writer;
    Frame piece;
    std::deque<Assigned> assigned;
    Silence silence;
    std::uint64_t number = 0;  ///< of the socket in hub_.sockets; 0: it is not there
    Sockets::Wants wants = Sockets::Wants::kReading;
    std::optional<TimePoint> usable_by;  ///< nullopt: the peer has opened it
    bool is_ready = false;               ///< the handshake of TLS is over
    bool is_usable = false;              ///< the peer has said something on it
    bool is_done_without = false;        ///< it goes with the next add()
    /// It has broken, or the peer has closed it. The others may still bring what was sent before that. Put
    /// off while they do.
    std::optional<TimePoint> broken_at;
    int quiet_looks = 0;  ///< of check() since then, between which nothing had come
    absl::Status how_it_broke;
    bool is_full = false;  ///< the kernel took no more in this send()
  };
  struct Opening final : SocketUser {
    Opening(FurtherStreams& whose, const ConnectionId& id)
        : streams(whose), approach(whose.hub_.options, whose.hub_.tls, id) {}
    void on_ready() override { streams.on_ready(*this); }
    FurtherStreams& streams;
    Approach approach;
    TimePoint usable_by;  ///< the stream that it is to become
    std::uint64_t number = 0;
    std::list<Opening>::iterator place;
  };

  void on_ready(Stream& stream);
  void on_ready(Opening& opening);
  void end(Opening& opening);
  absl::Status add(Channel channel, std::optional<TimePoint> usable_by);
  absl::Status shake_hands(Stream& stream);
  void make_usable(Stream& stream);
  void do_without(Stream& stream, const absl::Status& why);
  void tell_if_opened();
  void note_broken(Stream& stream, const absl::Status& how);

  [[nodiscard]] bool has_unassigned() const { return unassigned_ < queued(); }
  Stream& next_to_send();
  bool assign_piece(Stream& stream);
  void settle(Stream& stream);

  [[nodiscard]] absl::StatusOr<bool> is_due(const Frame& piece) const;
  absl::Status receive(Stream& stream, std::size_t& left_to_receive);

  Hub& hub_;
  StreamsUser& user_;
  const std::size_t piece_bytes_;
  std::list<Stream> streams_;  ///< the next to send first
  std::list<Opening> openings_;
  bool tells_when_opened_ = false;
  std::size_t usable_ = 0;  ///< of streams_

  std::deque<Outgoing> outgoing_;  ///< added and not sent; the first is payload number sent_
  std::uint64_t sent_ = 0;
  std::uint64_t unassigned_ = 0;  ///< the payload from which the next piece is
  std::size_t held_bytes_ = 0;

  bool has_received_ = false;  ///< part of a payload, since the last check(): probes never end
  bool is_awaiting_ = false;
  Frame awaited_;                 ///< its header
  std::uint64_t received_ = 0;    ///< payloads; so the number of the one that is awaited, or will be
  std::uint64_t unclaimed_ = 0;   ///< bytes of it of which no piece has begun
  std::uint64_t incomplete_ = 0;  ///< bytes of pieces that have not ended
};

}  // namespace verbena::transport::tcp
