#include "transport/tcp/hub.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "transport/tcp/socket.hpp"

namespace verbena::transport::tcp {

Leaving::Leaving(Sockets& sockets, base::FileDescriptor socket, FrameWriter rest, TimePoint deadline)
    : sockets_(sockets), socket_(std::move(socket)), rest_(std::move(rest)), deadline_(deadline) {
  const absl::StatusOr<std::uint64_t> number = sockets.add(socket_.get(), *this);
  is_over_ = !number.ok();
  if (is_over_) return;
  number_ = *number;
  if (!rest_.empty()) sockets_.want(number_, socket_.get(), Sockets::Wants::kReadingAndWriting);
  on_ready();
}

Leaving::~Leaving() {
  if (number_ != 0) sockets_.remove(number_, socket_.get());
}

void Leaving::on_ready() {
  if (!has_said_all_) {
    const int error = rest_.send(socket_.get());
    is_over_ = error != 0 && error != EAGAIN;
    if (rest_.empty()) {
      has_said_all_ = true;
      sockets_.want(number_, socket_.get(), Sockets::Wants::kReading);
      ::shutdown(socket_.get(), SHUT_WR);
    }
  }
  std::array<std::byte, 16384> unread;
  std::ptrdiff_t count = 1;
  for (int i = 0; i < 64 && count > 0; ++i) count = receive(socket_.get(), unread);
  is_over_ = is_over_ || count == 0 || (count < 0 && count != -EAGAIN);
  if (is_over_ && number_ != 0) sockets_.remove(std::exchange(number_, 0), socket_.get());  // it stays ready
}

}  // namespace verbena::transport::tcp
