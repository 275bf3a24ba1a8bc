// Finds the sockets of a transport that are readable or hung up.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/shm/shared_memory.hpp"

namespace verbena::transport::shm {

class SocketUser {
 public:
  virtual void on_readable() = 0;

 protected:
  ~SocketUser() = default;
};

class SocketWatch {
 public:
  static absl::StatusOr<SocketWatch> create();

  absl::Status add(int fd, SocketUser& user) const;
  void remove(int fd) const;
  /// Calls each user whose socket is readable or hung up, at most 64 of them. A user may destroy itself in
  /// the call, but no other user. Never blocks.
  void check() const;

 private:
  explicit SocketWatch(base::FileDescriptor epoll) : epoll_(std::move(epoll)) {}
  base::FileDescriptor epoll_;
};

}  // namespace verbena::transport::shm
