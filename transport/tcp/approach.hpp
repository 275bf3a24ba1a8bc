// How a connector approaches a listener: for a connection, which it waits for (meet_listener()), and for a
// further stream of one, beside its other work.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"
#include "transport/tcp/channel.hpp"
#include "transport/tcp/introduction.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace verbena::transport::tcp {

struct Met {
  Channel channel;
  Challenge listener;  ///< what it has said
  sockaddr_storage place{};
};

/// One attempt, from connecting to the listener's welcome. Never blocks. Errors are final; UNAVAILABLE:
/// another attempt may do better.
class Approach {
 public:
  /// `tls`: nullptr if nothing is to be encrypted. `joins`: as in a Greeting. REQUIRES: options and tls
  /// outlive it.
  Approach(const TcpOptions& options, const TlsContext* tls, const ConnectionId& joins)
      : options_(options), tls_(tls), joins_(joins) {}
  Approach(const Approach&) = delete;
  Approach& operator=(const Approach&) = delete;

  absl::Status begin(const sockaddr_storage& place);
  /// Goes on until it has to wait for the socket. True: they have met.
  absl::StatusOr<bool> go_on();
  /// Once they have met.
  Met take() { return std::move(met_); }

  [[nodiscard]] int socket() const { return socket_.get(); }
  /// What it waits for: to be able to send, or to receive.
  [[nodiscard]] bool waits_to_send() const { return stage_ == Stage::kConnecting || !to_say_.empty(); }
  /// What else it means if nothing happens on the socket.
  [[nodiscard]] absl::Status too_late() const;

 private:
  enum class Stage : std::uint8_t { kConnecting, kChallenge, kWelcome };

  absl::Status greet();
  absl::Status answer_challenge();
  absl::Status finish();
  absl::StatusOr<bool> say();
  absl::StatusOr<bool> hear();

  const TcpOptions& options_;
  const TlsContext* const tls_;
  const ConnectionId joins_;
  base::FileDescriptor socket_;
  Stage stage_ = Stage::kConnecting;
  std::span<const std::byte> to_say_;  ///< of what follows, what the kernel has not got yet
  std::span<std::byte> to_hear_;       ///< and what has not come
  Greeting greeting_;
  Challenge challenge_;
  Introduction introduction_;
  Welcome welcome_;
  Met met_;
};

/// Connects to the listener at one of `places`, which it tries by turns, and introduces itself. Tries again
/// until `deadline` while nobody listens there; DEADLINE_EXCEEDED then names `address`. PERMISSION_DENIED and
/// FAILED_PRECONDITION: who listens there is not of this job. `tls`: nullptr if nothing is to be encrypted.
/// For the owner's thread; blocks it.
absl::StatusOr<Met> meet_listener(const std::string& address, const std::vector<sockaddr_storage>& places,
                                  TimePoint deadline, const TcpOptions& options, const TlsContext* tls);

}  // namespace verbena::transport::tcp
