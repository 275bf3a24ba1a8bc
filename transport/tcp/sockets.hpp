// Which sockets of a transport can be read or written. Under the transport's lock, except fd().
#pragma once

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"

namespace verbena::transport::tcp {

class SocketUser {
 public:
  /// The socket can be read, or written if that was wanted, or has ended. May add and remove any user, also
  /// destroy itself.
  virtual void on_ready() = 0;

 protected:
  ~SocketUser() = default;
};

class Sockets {
 public:
  enum class Wants : std::uint8_t { kNothing, kReading, kWriting, kReadingAndWriting };

  static absl::StatusOr<Sockets> create();

  /// Returns the number by which it is known here, from 1.
  absl::StatusOr<std::uint64_t> add(int socket, SocketUser& user);
  /// A socket that is broken is ready in any case.
  void want(std::uint64_t number, int socket, Wants wants) const;
  /// Before the socket is closed.
  void remove(std::uint64_t number, int socket);

  /// Calls the users whose sockets are ready, a bounded number of them. False: none was.
  bool check();

  /// Can be read when a socket is ready.
  [[nodiscard]] int fd() const { return epoll_.get(); }

 private:
  explicit Sockets(base::FileDescriptor epoll) : epoll_(std::move(epoll)) {}

  base::FileDescriptor epoll_;
  /// An event names its user by a number, because a user before it may have destroyed it.
  absl::flat_hash_map<std::uint64_t, SocketUser*> users_;
  std::uint64_t last_number_ = 0;
};

}  // namespace verbena::transport::tcp
