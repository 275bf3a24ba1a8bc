#include "transport/shm/socket_watch.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace verbena::transport::shm {

absl::StatusOr<SocketWatch> SocketWatch::create() {
  base::FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return absl::ErrnoToStatus(errno, "no epoll can be created");
  return SocketWatch(std::move(epoll));
}

absl::Status SocketWatch::add(int fd, SocketUser& user) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &user;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, "a socket cannot be watched");
}

void SocketWatch::remove(int fd) const {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void SocketWatch::check() const {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    static_cast<SocketUser*>(events[static_cast<std::size_t>(i)].data.ptr)->on_readable();
  }
}

}  // namespace verbena::transport::shm
