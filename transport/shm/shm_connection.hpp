// One end of a connection.
//
// One-sided reads and writes are copies through a mapping of the peer's memory, done at once in post(), so
// nothing is ever outstanding except completions that wait to be polled. The memory files that a peer holds
// decide what it may reach: a region is passed only to peers it is granted to, and sealed against writing
// unless it is remotely writable. The checks of each request only turn an error of our own into kAccessDenied
// instead of a crash; they do not protect the owner.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "transport/shm/channel.hpp"
#include "transport/shm/control_socket.hpp"
#include "transport/shm/doorbell.hpp"
#include "transport/shm/region.hpp"
#include "transport/shm/socket_watch.hpp"
#include "transport/transport.hpp"

namespace verbena::transport::shm {

class ShmConnection;

// The role of the side that proves to have the secret; so one side's proof cannot pass for the other's.
constexpr std::string_view kAcceptorRole = "verbena shm acceptor";
constexpr std::string_view kConnectorRole = "verbena shm connector";

/// What the connections of a transport share.
struct Hub {
  std::shared_ptr<const Secret> secret;
  SocketWatch sockets;
  Doorbell doorbell;
  std::unique_ptr<Regions> regions;
  ChannelGeometry geometry;
  std::size_t completion_capacity;
  std::vector<ShmConnection*> connections = {};  ///< those that raise events
  std::uint64_t meetings = 0;  ///< grows with each step of an introduction: more steps may come soon
};

class ShmConnection final : public Connection, private SocketUser {
 public:
  enum class Side : std::uint8_t { kConnector, kAcceptor };

  /// Makes the connector's end, which the acceptor does not know yet, and greets the acceptor. `channels`
  /// holds both directions, the connector's first.
  static absl::StatusOr<std::unique_ptr<ShmConnection>> greet(Hub& hub, ControlSocket socket,
                                                              const Peer& peer,
                                                              base::FileDescriptor channels_file,
                                                              Mapping channels);
  /// Makes the acceptor's end, for a connector that has proved itself.
  static absl::StatusOr<std::unique_ptr<ShmConnection>> admit(Hub& hub, ControlSocket socket,
                                                              const Peer& peer, Mapping channels,
                                                              Doorbell doorbell, RegionTable regions);
  ~ShmConnection() override;

  /// Where the channel of `sender` begins in the common memory of both channels, and how long that memory is.
  static std::size_t channel_offset(const ChannelGeometry& geometry, Side sender);
  static std::size_t channels_bytes(const ChannelGeometry& geometry);

  absl::StatusOr<RemoteDescriptor> grant(const MemoryRegion& region) override;
  absl::StatusOr<RemoteDescriptor> grant_in_place(const MemoryRegion& region) override;
  [[nodiscard]] std::size_t do_post(std::span<const WorkRequest> requests) override;
  const std::byte* mapped(const RemoteDescriptor& remote) override;
  std::byte* mapped_in_place(const RemoteDescriptor& remote) override;
  [[nodiscard]] const absl::Status& status() const override { return status_; }

  /// Connector only: waits until the acceptor has proved itself or has hung up, or until `deadline`.
  void wait_for_challenge(TimePoint deadline);
  /// Connector only: the acceptor hung up before it had proved itself. Another attempt may succeed.
  [[nodiscard]] bool was_turned_away() const { return greeting_ && !status_.ok() && turned_away_; }

  /// Raises events from now on. REQUIRES: called once.
  void start() { hub_.connections.push_back(this); }
  /// Fills `events`; messages are copied to the front of `space`, which shrinks by them.
  std::size_t poll(std::span<Event> events, std::span<std::byte>& space);
  /// Is there something to poll(), or room for a post() that was refused? (It reports the room only once.)
  bool pending();

 private:
  struct Grant {
    std::uint64_t key = 0;
    std::uint64_t address = 0;
    std::uint64_t length_bytes = 0;
    Access access = Access::kLocal;
    Mapping mapping;
    bool used_in_place = false;  ///< mapped() or mapped_in_place() gave its address away
  };
  /// What a connector keeps until the acceptor has proved itself.
  struct Greeting {
    Nonce nonce{};
    base::FileDescriptor channels;
    std::vector<std::pair<ControlMessage, base::FileDescriptor>> grants;  ///< to be sent when it has
  };
  struct Completion {
    std::uint64_t id;
    OperationResult result;
  };

  ShmConnection(Hub& hub, Side side, ControlSocket socket, const Peer& peer, Mapping channels,
                Doorbell doorbell, RegionTable regions);

  void on_readable() override { read_control(); }
  void read_control();
  absl::Status take_control(ControlSocket::Received& received);
  absl::Status take_challenge(const ControlMessage& challenge);
  absl::Status take_welcome(const ControlSocket::Files& files);
  absl::Status take_grant(const ControlMessage& message, const base::FileDescriptor& file);
  void drop_revoked();
  absl::StatusOr<RemoteDescriptor> send_grant(const MemoryRegion& region, bool in_place);

  /// nullopt: no room, try later. With any result other than kOk the connection has failed.
  std::optional<OperationResult> carry_out(const WorkRequest& request, bool& published);
  std::optional<OperationResult> send_message(const WorkRequest& request, bool& published);
  OperationResult copy(const WorkRequest& request);
  void prefetch_source(const WorkRequest& request);
  std::optional<OperationResult> check_room(bool for_message);
  std::byte* locate(const RemoteDescriptor& remote, std::size_t bytes, Access right);
  Grant* find(std::uint64_t key);

  std::size_t poll_completions(std::span<Event> events);
  std::size_t poll_channel(std::span<Event> events, std::span<std::byte>& space);
  [[nodiscard]] bool ended() const;

  OperationResult refuse(OperationResult result, const std::string& reason);
  void hang_up();
  void fail(absl::StatusCode code, const std::string& reason);
  void ring_peer();

  Hub& hub_;
  ControlSocket socket_;
  std::optional<Greeting> greeting_;
  Mapping channels_;
  ChannelSender sender_;
  ChannelReceiver receiver_;
  Doorbell peer_doorbell_;     ///< invalid until welcomed
  RegionTable peer_regions_;   ///< invalid until welcomed
  std::vector<Grant> grants_;  ///< granted by the peer, by slot
  std::vector<Mapping> kept_;  ///< mappings of revoked regions that are read in place
  absl::flat_hash_map<std::uint64_t, RemoteDescriptor> granted_;  ///< granted to the peer, by key
  std::deque<Completion> completions_;
  absl::Status status_;
  bool deaf_ = false;  ///< failed on this side: whatever else the peer sent is ignored
  bool disconnect_raised_ = false;
  bool turned_away_ = false;
};

}  // namespace verbena::transport::shm
