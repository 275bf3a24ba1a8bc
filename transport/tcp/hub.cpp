#include "transport/tcp/hub.hpp"

#include <array>
#include <cerrno>
#include <utility>

namespace verbena::transport::tcp {

Leaving::Leaving(Sockets& sockets, Channel channel, FrameWriter rest, TimePoint deadline,
                 std::shared_ptr<const void> memory)
    : sockets_(sockets),
      channel_(std::move(channel)),
      rest_(std::move(rest)),
      memory_(std::move(memory)),
      deadline_(deadline) {
  const absl::StatusOr<std::uint64_t> number = sockets.add(channel_.socket(), *this);
  is_over_ = !number.ok();
  if (is_over_) return;
  number_ = *number;
  on_ready();
}

Leaving::~Leaving() {
  if (number_ != 0) sockets_.remove(number_, channel_.socket());
}

void Leaving::on_ready() {
  std::array<std::byte, 16384> unread;
  std::ptrdiff_t count = 1;
  channel_.begin_receiving();
  for (int i = 0; i < 64 && count > 0; ++i) count = channel_.receive(unread);
  is_over_ = is_over_ || count == 0 || (count < 0 && count != -EAGAIN);
  // After receiving: TLS may have waited for that.
  if (!has_said_all_) {
    const int error = rest_.send(channel_);
    is_over_ = is_over_ || (error != 0 && error != EAGAIN);
    has_said_all_ = rest_.empty();
    if (has_said_all_) channel_.end_sending();
  }
  if (number_ == 0) return;
  if (is_over_) return sockets_.remove(std::exchange(number_, 0), channel_.socket());  // it stays ready
  const Sockets::Wants wants = channel_.wants(!has_said_all_);
  if (std::exchange(wants_, wants) != wants) sockets_.want(number_, channel_.socket(), wants);
}

}  // namespace verbena::transport::tcp
