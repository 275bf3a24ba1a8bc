#include "transport/tcp/channel.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "transport/tcp/socket.hpp"

namespace verbena::transport::tcp {

std::ptrdiff_t Channel::receive(std::span<std::byte> bytes) {
  if (tls_ != nullptr) return tls_->receive(bytes);
  if (!may_take_) return -EAGAIN;
  const std::ptrdiff_t count = tcp::receive(socket_.get(), bytes);
  may_take_ = count == static_cast<std::ptrdiff_t>(bytes.size());  // or there was no more
  return count;
}

std::ptrdiff_t Channel::send(std::span<const iovec> parts) {
  if (tls_ != nullptr) return tls_->send(parts);
  const msghdr message = {.msg_name = nullptr,
                          .msg_namelen = 0,
                          .msg_iov = const_cast<iovec*>(parts.data()),
                          .msg_iovlen = parts.size(),
                          .msg_control = nullptr,
                          .msg_controllen = 0,
                          .msg_flags = 0};
  while (true) {
    const ssize_t sent = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return sent;
    if (errno != EINTR) return -errno;
  }
}

void Channel::end_sending() {
  ::shutdown(socket_.get(), SHUT_WR);
}

absl::Status has_gone(int error) {
  if (error == 0 || error == ECONNRESET || error == EPIPE) return absl::UnavailableError("it closed or died");
  if (error == EBADMSG) {
    return absl::DataLossError(
        "it was not encrypted with this connection's key: something on the way has changed or replaced it");
  }
  const std::string what = fmt::format("the connection broke: {}", text_of(error));
  return error == ETIMEDOUT ? absl::DeadlineExceededError(what) : absl::UnavailableError(what);
}

}  // namespace verbena::transport::tcp
