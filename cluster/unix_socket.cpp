#include "cluster/unix_socket.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

namespace verbena::cluster {
namespace {

constexpr int kBacklog = 1024;

struct Place {
  sockaddr_un address{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

absl::StatusOr<Place> place_of(const std::string& name) {
  // Not among the names of transport/shm, which lists its own.
  const std::string whole = fmt::format("verbena-store/{}/{}", ::getuid(), name);
  Place place;
  if (name.empty() || whole.size() + 1 > sizeof place.address.sun_path) {
    return absl::InvalidArgumentError(
        fmt::format("the store's name \"{}\" has {} bytes, expected 1 to {}", name, name.size(),
                    sizeof place.address.sun_path - 1 - (whole.size() - name.size())));
  }
  place.address.sun_family = AF_UNIX;
  std::memcpy(place.address.sun_path + 1, whole.data(), whole.size());  // the first byte is zero: abstract
  place.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + whole.size());
  return place;
}

absl::StatusOr<base::FileDescriptor> stream_socket() {
  base::FileDescriptor descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!descriptor.valid()) return absl::ErrnoToStatus(errno, "no Unix socket can be created");
  return descriptor;
}

}  // namespace

absl::StatusOr<base::FileDescriptor> listen_at_name(const std::string& name) {
  const absl::StatusOr<Place> place = place_of(name);
  if (!place.ok()) return place.status();
  absl::StatusOr<base::FileDescriptor> listener = stream_socket();
  if (!listener.ok()) return listener;
  if (::bind(listener->get(), place->get(), place->length) == 0 && ::listen(listener->get(), kBacklog) == 0)
    return listener;
  const int error = errno;
  if (error == EADDRINUSE)
    return absl::AlreadyExistsError(fmt::format("another process has a store named {}", name));
  return absl::ErrnoToStatus(error, fmt::format("cannot listen as the store {}", name));
}

bool is_of_this_user(const base::FileDescriptor& accepted) {
  ucred peer{};
  socklen_t bytes = sizeof peer;
  return ::getsockopt(accepted.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == ::getuid();
}

absl::StatusOr<base::FileDescriptor> connect_to_name(const std::string& name) {
  const absl::StatusOr<Place> place = place_of(name);
  if (!place.ok()) return place.status();
  absl::StatusOr<base::FileDescriptor> socket = stream_socket();
  if (!socket.ok()) return socket;
  if (::connect(socket->get(), place->get(), place->length) == 0) return socket;
  const int error = errno;
  return absl::UnavailableError(fmt::format("no store named {} ({})", name, std::strerror(error)));
}

}  // namespace verbena::cluster
