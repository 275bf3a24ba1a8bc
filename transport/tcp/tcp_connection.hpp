// One end of a connection whose two ends have met. Its parts, each with a header of its own:
//
//   FrameReader     takes the bytes that come apart into frames
//   FrameWriter     the bytes that are to be sent
//   FurtherStreams  over which long payloads travel, if there are any
//   Requests        what was posted and has not been reported as completed
//   Grants          memory that the peer may reach
//
// What is left here is what a frame means, what bounds both sides keep, and the end.
//
// Bounds, so that no end ever has to stop receiving: notifications and messages need credits, which their
// receiver gives back when its owner has polled them; the answers that an end may await have a bounded size;
// writes are placed at once.
//
// Thread safety: the functions of Connection are called by the owner and take the transport's lock; the
// others are called with the lock held, by the owner's thread or the transport's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/tcp/channel.hpp"
#include "transport/tcp/frame_reader.hpp"
#include "transport/tcp/frame_writer.hpp"
#include "transport/tcp/further_streams.hpp"
#include "transport/tcp/grants.hpp"
#include "transport/tcp/hub.hpp"
#include "transport/tcp/requests.hpp"
#include "transport/tcp/silence.hpp"
#include "transport/tcp/sockets.hpp"
#include "transport/tcp/terms.hpp"
#include "transport/transport.hpp"

namespace verbena::transport::tcp {

class TcpConnection final : public Connection, public SocketUser, private FrameUser, private StreamsUser {
 public:
  /// With the lock held.
  TcpConnection(Hub& hub, Channel channel, Terms terms);
  ~TcpConnection() override;

  absl::StatusOr<RemoteDescriptor> grant(const MemoryRegion& region) override;
  absl::StatusOr<RemoteDescriptor> grant_in_place(const MemoryRegion& region) override;
  const std::byte* mapped(const RemoteDescriptor& /*remote*/) override { return nullptr; }
  [[nodiscard]] const absl::Status& status() const override { return shown_; }

  /// Over how many streams long payloads travel from here.
  [[nodiscard]] std::size_t streams() const;

  /// Its events go to the owner from now on.
  void take();
  /// Receives, and sends what is to be sent. Does a bounded piece of work.
  void progress();
  void on_ready() override { progress(); }
  /// The owner gets this event now.
  void on_polled(const Event& event);
  /// Looks whether the peer's host is there. Call it at intervals.
  void tick();
  void revoke(const MemoryRegion& region) { grants_.remove(region); }

  [[nodiscard]] const ConnectionId& id() const { return terms_.id; }
  /// Whether the peer may open one more stream.
  [[nodiscard]] absl::Status check_one_more_stream() const;
  void add_stream(Channel channel);
  /// Asks for the streams that the options want, now. is_opening(): they have not all come.
  void open_streams();
  [[nodiscard]] bool is_opening() const { return streams_.is_opening(); }
  /// Tells people that some have not come, and that nobody waits for them.
  void tell_who_is_late() const;

 private:
  /// How a connection ends.
  struct End {
    absl::Status reason;                                 ///< without the peer's name
    OperationResult first = OperationResult::kPeerGone;  ///< of the first outstanding request
    /// What was not granted; everything before it was carried out.
    std::optional<std::uint32_t> refused_frame = std::nullopt;
    std::optional<Event> refused_request = std::nullopt;  ///< by this side; completes last
    /// The peer is to get all that was sent so far.
    bool parts_well = false;
  };

  [[nodiscard]] std::size_t do_post(std::span<const WorkRequest> requests) override;

  // Posting.
  [[nodiscard]] bool has_room_for(const WorkRequest& request);
  [[nodiscard]] bool is_settled(std::span<const std::byte> local);
  [[nodiscard]] std::optional<End> fault_of(const WorkRequest& request) const;
  void add(const WorkRequest& request);
  void ask(Request& read);
  /// A long payload travels, in either direction.
  void note_long(std::uint64_t bytes) { long_bytes_ += bytes; }
  [[nodiscard]] bool is_long(std::uint64_t bytes) const { return bytes >= hub_.options.long_bytes; }
  void send();
  void complete();

  // Receiving.
  void receive();
  absl::Status begin(const Frame& frame) override;
  absl::Status take(const Frame& frame, std::uint64_t offset, std::span<const std::byte> bytes) override;
  absl::Status end(const Frame& frame) override;
  absl::Status place(const Frame& frame, std::uint64_t offset, std::span<const std::byte> bytes);
  absl::Status finish(const Frame& frame);
  absl::Status take_bulk(const Frame& header, std::uint64_t offset,
                         std::span<const std::byte> bytes) override {
    return place(header, offset, bytes);
  }
  void on_stream_ready() override { progress(); }
  void on_stream_failed(const absl::Status& why) override;
  void on_streams_opened() override;
  bool receive_elsewhere(std::size_t& left);
  void watch_first_stream();
  absl::Status answer(const Frame& question);
  absl::Status expect(const Frame& answer);
  absl::Status take_credits(const Frame& frame);
  absl::Status refuse();
  void end_answer(const Frame& frame);

  void raise(Event event, std::vector<std::byte> message = {});
  void fail(End how);
  void show();
  void make_known_that_there_is_room();

  Hub& hub_;
  Channel channel_;
  std::uint64_t number_ = 0;  ///< of the socket in hub_.sockets
  Sockets::Wants wants_ = Sockets::Wants::kReading;
  bool is_taken_ = false;
  std::deque<Hub::Pending> held_;  ///< events before it was taken

  const Terms terms_;
  FrameReader reader_;  ///< paused: the payload of its last frame is awaited elsewhere
  FrameWriter writer_;
  FurtherStreams streams_;
  Frame elsewhere_;                                  ///< the frame whose payload is awaited
  std::optional<TimePoint> first_stream_broken_at_;  ///< while it is not received from
  std::uint64_t long_bytes_ = 0;                     ///< of long payloads, in both directions
  std::uint32_t streams_asked_for_ = 0;
  Requests requests_;
  Grants grants_;
  std::uint32_t next_frame_ = 0;      ///< the number of the next request frame to the peer
  std::uint32_t next_received_ = 0;   ///< the number of the next request frame of the peer
  std::uint32_t credits_;             ///< so many notifications and messages the peer takes now
  const std::uint32_t most_credits_;  ///< it never gives more
  std::uint64_t awaited_bytes_ = 0;   ///< of answers
  std::uintptr_t awaited_first_ = 0;  ///< they come to memory from here …
  std::uintptr_t awaited_last_ = 0;   ///< … to here
  std::uint32_t completions_ = 0;     ///< raised and not polled
  std::uint32_t unpolled_ = 0;        ///< notifications and messages of the peer
  std::uint32_t owed_credits_ = 0;    ///< polled, and the peer does not know
  Silence silence_;                   ///< of the peer's host
  bool was_refused_room_ = false;     ///< post() took fewer requests than it was given
  bool has_refused_ = false;          ///< the peer is told so by its last frame
  std::vector<std::byte> message_;    ///< that is being received

  absl::Status reason_;  ///< why it has failed; OK: it has not
  absl::Status shown_;   ///< the same, with the peer's name, for the owner's thread
};

}  // namespace verbena::transport::tcp
