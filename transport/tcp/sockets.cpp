#include "transport/tcp/sockets.hpp"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstddef>

namespace verbena::transport::tcp {

absl::StatusOr<Sockets> Sockets::create() {
  base::FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return absl::ErrnoToStatus(errno, "no epoll can be created");
  return Sockets(std::move(epoll));
}

absl::StatusOr<std::uint64_t> Sockets::add(int socket, SocketUser& user) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = ++last_number_;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket, &event) != 0)
    return absl::ErrnoToStatus(errno, "a socket cannot be watched");
  users_.emplace(last_number_, &user);
  return last_number_;
}

void Sockets::want(std::uint64_t number, int socket, Wants wants) const {
  epoll_event event{};
  const bool reads = wants == Wants::kReading || wants == Wants::kReadingAndWriting;
  const bool writes = wants == Wants::kWriting || wants == Wants::kReadingAndWriting;
  event.events = (reads ? unsigned{EPOLLIN} : 0U) | (writes ? unsigned{EPOLLOUT} : 0U);
  event.data.u64 = number;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket, &event);
}

void Sockets::remove(std::uint64_t number, int socket) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket, nullptr);
  users_.erase(number);
}

bool Sockets::check() {
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t number = events[static_cast<std::size_t>(i)].data.u64;  // events are packed
    const auto user = users_.find(number);
    if (user != users_.end()) user->second->on_ready();
  }
  return count > 0;
}

}  // namespace verbena::transport::tcp
