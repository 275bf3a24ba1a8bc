// TCP sockets, none of which ever blocks.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"

namespace verbena::transport::tcp {

/// "Connection refused", for errno.
std::string text_of(int error);

/// ALREADY_EXISTS if someone else listens there; `address` is for errors.
absl::StatusOr<base::FileDescriptor> listen_at(const sockaddr_storage& place, const std::string& address);
std::uint16_t port_of(const base::FileDescriptor& socket);

/// The next connection; invalid if none waits, with errno.
base::FileDescriptor accept_from(const base::FileDescriptor& listening, sockaddr_storage& peer);

/// A socket that has begun to connect; with errno if it is invalid.
base::FileDescriptor begin_to_connect(const sockaddr_storage& place);
/// How the connecting ended: an errno, or 0.
int end_of_connecting(const base::FileDescriptor& socket);
/// The kernel connects a socket with itself, if nobody listens at a port and the kernel happens to choose
/// that port for the socket.
bool is_connected_to_itself(const base::FileDescriptor& socket);

/// Whether its peer is on this host, too: both have the same address.
bool is_within_host(int socket);
/// Whether half of the descriptors that the process may have are above this one, for what it cannot do
/// without.
bool leaves_descriptors(int socket);
/// It has been reset, or closed in both directions.
bool is_broken(int socket);
/// Little waits in the kernel that has not been sent yet: the rest can still go another way.
void keep_little_unsent(int socket);

/// Receives at most so much. > 0: bytes; 0: the peer has closed; < 0: the negative of an errno, −EAGAIN if
/// there is nothing.
std::ptrdiff_t receive(int socket, std::span<std::byte> bytes);
/// As receive(), but sends.
std::ptrdiff_t send(int socket, std::span<const std::byte> bytes);

/// What the peer's kernel has told.
struct Acknowledged {
  std::chrono::milliseconds silent{0};  ///< since it acknowledged or sent anything
  bool has_unacknowledged = false;      ///< something is on its way or waits to be sent
  /// Its receive window is shut: the process does not receive. How many times the kernel has asked since
  /// then without an answer.
  bool is_shut = false;
  std::uint32_t unanswered_probes = 0;
};
Acknowledged acknowledged(int socket);

}  // namespace verbena::transport::tcp
