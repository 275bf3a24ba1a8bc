// The Unix socket beside each connection: it introduces the two ends, passes memory files to just the peer
// that may have them, and its end tells that the peer is gone, however it died.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "transport/shm/channel.hpp"
#include "transport/shm/shared_memory.hpp"

namespace verbena::transport::shm {

enum class ControlKind : std::uint32_t {
  kHello = 1,    ///< connector → acceptor; files: channel, doorbell, region table
  kWelcome = 2,  ///< acceptor → connector; files: doorbell, region table
  kRefused = 3,  ///< acceptor → connector: its geometry differs from `geometry`
  kGrant = 4,    ///< either way; file: the region
};

/// The peer runs the same binary interface, or `magic` differs.
struct ControlMessage {
  static constexpr std::uint32_t kMagic = 0x56524231;  // "VRB1"; count up with every change here

  std::uint32_t magic = kMagic;
  ControlKind kind = ControlKind::kHello;
  ChannelGeometry geometry;
  std::uint32_t access = 0;   ///< kGrant, as is all below
  std::uint64_t key = 0;      ///< see RegionTable
  std::uint64_t address = 0;  ///< of the first byte, in the owner's terms
  std::uint64_t length_bytes = 0;
};

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
};

class ControlSocket {
 public:
  using Files = std::array<FileDescriptor, 3>;
  struct Received {
    ControlMessage message;
    Files files;
  };
  enum class End : std::uint8_t { kOpen, kHungUp, kNonsense };

  ControlSocket() = default;
  explicit ControlSocket(FileDescriptor fd) : fd_(std::move(fd)) {}

  /// nullopt when nobody listens there (yet) or too many wait to be accepted.
  static absl::StatusOr<std::optional<ControlSocket>> connect(const std::string& address);
  static absl::StatusOr<ControlSocket> listen(const std::string& address);
  /// Of a listening socket: the next to come in, nullopt if there is none.
  [[nodiscard]] std::optional<ControlSocket> accept() const;

  /// Who is at the other end, as the kernel says.
  [[nodiscard]] absl::StatusOr<Peer> peer() const;
  /// Passes on `files` (up to three, -1 for none). Never blocks: RESOURCE_EXHAUSTED when the peer does not
  /// read.
  [[nodiscard]] absl::Status send(const ControlMessage& message, std::array<int, 3> files) const;
  /// The next message; nullopt if there is none, and then `end` tells whether there may be more.
  std::optional<Received> receive(End& end) const;
  void shutdown() const;

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  FileDescriptor fd_;
};

}  // namespace verbena::transport::shm
