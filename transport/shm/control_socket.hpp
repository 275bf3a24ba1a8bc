// The Unix socket beside each connection: it introduces the two ends and passes memory files to just the peer
// that may have them. When it is closed the peer is gone, however it died.
//
// The two ends meet like this. No file is passed, taken or looked at before the other end has proved itself:
//
//   connector → acceptor   kGreeting   its nonce
//   acceptor → connector   kChallenge  its nonce, and its proof over both
//   connector → acceptor   kProof      its proof over both; then, without waiting, kHello with its files
//   acceptor → connector   kWelcome with its files, or kRefused
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/secret.hpp"
#include "transport/shm/channel.hpp"
#include "transport/shm/shared_memory.hpp"

namespace verbena::transport::shm {

enum class ControlKind : std::uint32_t {
  kGreeting = 1,
  kChallenge = 2,
  kProof = 3,
  kHello = 4,    ///< files: channel, doorbell, region table
  kWelcome = 5,  ///< files: doorbell, region table
  kRefused = 6,  ///< the connector's geometry differs from `geometry`
  kGrant = 7,    ///< either way; file: the region
};

/// A peer with another layout of this message has another `magic`.
struct ControlMessage {
  static constexpr std::uint32_t kMagic = 0x56524232;  // "VRB2"; count up with every change here

  std::uint32_t magic = kMagic;
  ControlKind kind = ControlKind::kGreeting;
  ChannelGeometry geometry;
  std::uint32_t access = 0;   ///< kGrant, as are the next three
  std::uint64_t key = 0;      ///< see RegionTable
  std::uint64_t address = 0;  ///< of the first byte, in the owner's terms
  std::uint64_t length_bytes = 0;
  std::uint64_t has_secret = 0;  ///< kChallenge
  Nonce nonce{};                 ///< kGreeting, kChallenge
  Proof proof{};                 ///< kChallenge, kProof
};

/// Addresses at which processes of this user listen, in this network namespace.
std::vector<std::string> listening_addresses();

struct Peer {
  pid_t pid = 0;
  uid_t uid = 0;
};

class ControlSocket {
 public:
  using Files = std::array<base::FileDescriptor, 3>;
  struct Received {
    ControlMessage message;
    Files files;
  };
  enum class End : std::uint8_t { kOpen, kHungUp, kNonsense };
  enum class TakesFiles : std::uint8_t { kNo, kYes };

  ControlSocket() = default;
  explicit ControlSocket(base::FileDescriptor fd) : fd_(std::move(fd)) {}

  /// nullopt if nobody listens there (yet), or if too many wait to be accepted, for longer than `patience`
  /// (above 0).
  static absl::StatusOr<std::optional<ControlSocket>> connect(const std::string& address,
                                                              std::chrono::microseconds patience);
  static absl::StatusOr<ControlSocket> listen(const std::string& address);
  /// For a listening socket: the next incoming connection. UNAVAILABLE: there is none; RESOURCE_EXHAUSTED:
  /// this process has no descriptor left for it.
  [[nodiscard]] absl::StatusOr<ControlSocket> accept() const;

  /// The process at the other end, as the kernel reports it.
  [[nodiscard]] absl::StatusOr<Peer> peer() const;
  /// Passes on `files` (up to three, -1 for none). Never blocks: ABORTED when the peer does not
  /// read.
  [[nodiscard]] absl::Status send(const ControlMessage& message, std::array<int, 3> files) const;
  /// The next message; nullopt if there is none, and then `end` tells whether there may be more. With
  /// TakesFiles::kNo, files that come stay with the kernel, which closes them, and the message counts as
  /// nonsense.
  std::optional<Received> receive(End& end, TakesFiles takes_files = TakesFiles::kYes) const;
  void shutdown() const;

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  base::FileDescriptor fd_;
};

}  // namespace verbena::transport::shm
