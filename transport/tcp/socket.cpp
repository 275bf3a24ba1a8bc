#include "transport/tcp/socket.hpp"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace verbena::transport::tcp {

namespace {

constexpr int kBacklog = 1024;
constexpr int kMostUnsentBytes = 1 << 18;

socklen_t length_of(const sockaddr_storage& place) {
  return place.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

void set(const base::FileDescriptor& socket, int level, int option) {
  const int on = 1;
  ::setsockopt(socket.get(), level, option, &on, sizeof on);
}

base::FileDescriptor make_socket(const sockaddr_storage& place) {
  base::FileDescriptor socket(::socket(place.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.valid()) set(socket, IPPROTO_TCP, TCP_NODELAY);
  return socket;
}

}  // namespace

std::string text_of(int error) {
  return std::system_category().message(error);
}

absl::StatusOr<base::FileDescriptor> listen_at(const sockaddr_storage& place, const std::string& address) {
  base::FileDescriptor socket = make_socket(place);
  if (!socket.valid())
    return absl::ErrnoToStatus(errno, fmt::format("{}: there is no socket for it", address));
  // "::" means IPv4, too.
  const int no = 0;
  if (place.ss_family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  // Or connections that an earlier listener has closed would hold the port for a minute.
  set(socket, SOL_SOCKET, SO_REUSEADDR);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), length_of(place)) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    const int error = errno;
    if (error == EADDRINUSE)
      return absl::AlreadyExistsError(
          fmt::format("{}: someone else listens there; expected a port that nobody listens at", address));
    if (error == EADDRNOTAVAIL)
      return absl::InvalidArgumentError(
          fmt::format("{}: nothing can listen there; expected an address of this host", address));
    return absl::ErrnoToStatus(error, fmt::format("{}: nothing can listen there", address));
  }
  return socket;
}

std::uint16_t port_of(const base::FileDescriptor& socket) {
  sockaddr_storage place{};
  socklen_t length = sizeof place;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&place), &length) != 0) return 0;
  return ::ntohs(place.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(place).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(place).sin_port);
}

base::FileDescriptor accept_from(const base::FileDescriptor& listening, sockaddr_storage& peer) {
  socklen_t length = sizeof peer;
  base::FileDescriptor socket(
      ::accept4(listening.get(), reinterpret_cast<sockaddr*>(&peer), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.valid()) set(socket, IPPROTO_TCP, TCP_NODELAY);
  return socket;
}

base::FileDescriptor begin_to_connect(const sockaddr_storage& place) {
  base::FileDescriptor socket = make_socket(place);
  if (socket.valid() &&
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), length_of(place)) != 0 &&
      errno != EINPROGRESS) {
    const int error = errno;
    socket.reset();
    errno = error;
  }
  return socket;
}

int end_of_connecting(const base::FileDescriptor& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

bool is_connected_to_itself(const base::FileDescriptor& socket) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_length = sizeof own;
  socklen_t peer_length = sizeof peer;
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &own_length) == 0 &&
         ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&peer), &peer_length) == 0 &&
         own_length == peer_length && std::memcmp(&own, &peer, own_length) == 0;
}

bool is_within_host(int socket) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_length = sizeof own;
  socklen_t peer_length = sizeof peer;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0 ||
      own.ss_family != peer.ss_family) {
    return false;
  }
  if (own.ss_family == AF_INET6) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(own).sin6_addr,
                       &reinterpret_cast<const sockaddr_in6&>(peer).sin6_addr, sizeof(in6_addr)) == 0;
  }
  return reinterpret_cast<const sockaddr_in&>(own).sin_addr.s_addr ==
         reinterpret_cast<const sockaddr_in&>(peer).sin_addr.s_addr;
}

bool leaves_descriptors(int socket) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return true;
  return static_cast<rlim_t>(socket) < files.rlim_cur / 2;
}

bool is_broken(int socket) {
  pollfd file = {.fd = socket, .events = 0, .revents = 0};
  return ::poll(&file, 1, 0) > 0 && (file.revents & (POLLHUP | POLLERR)) != 0;
}

void keep_little_unsent(int socket) {
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMostUnsentBytes, sizeof kMostUnsentBytes);
}

std::ptrdiff_t receive(int socket, std::span<std::byte> bytes) {
  while (true) {
    const ssize_t count = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count >= 0) return count;
    if (errno != EINTR) return -errno;
  }
}

std::ptrdiff_t send(int socket, std::span<const std::byte> bytes) {
  while (true) {
    const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count >= 0) return count;
    if (errno != EINTR) return -errno;
  }
}

Acknowledged acknowledged(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  int outstanding = 0;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
      ::ioctl(socket, SIOCOUTQ, &outstanding) != 0) {
    return {};
  }
  return {.silent = std::chrono::milliseconds(std::min(info.tcpi_last_ack_recv, info.tcpi_last_data_recv)),
          .has_unacknowledged = outstanding > 0,
          .is_shut = outstanding > 0 && info.tcpi_unacked == 0,
          .unanswered_probes = info.tcpi_probes};
}

}  // namespace verbena::transport::tcp
