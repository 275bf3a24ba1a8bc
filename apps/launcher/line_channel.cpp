#include "apps/launcher/line_channel.hpp"

#include <poll.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <memory>
#include <utility>

namespace verbena::apps {

namespace tcp = transport::tcp;

absl::Status LineChannel::encrypt(const tcp::TlsContext& context, const tcp::TlsKey& key, tcp::TlsEnd end) {
  absl::StatusOr<std::unique_ptr<tcp::Tls>> tls = tcp::Tls::begin(context, descriptor(), key, end);
  if (!tls.ok()) return tls.status();
  (*tls)->take_exactly();
  channel_ = tcp::Channel(channel_.release(), *std::move(tls));
  return absl::OkStatus();
}

absl::StatusOr<bool> LineChannel::shake_hands() {
  const std::ptrdiff_t result = channel_.shake_hands();
  if (result == -EAGAIN) return false;
  if (result < 0) return tcp::has_gone(static_cast<int>(-result));
  return true;
}

std::ptrdiff_t LineChannel::receive(std::span<std::byte> bytes) {
  channel_.begin_receiving();
  return channel_.receive(bytes);
}

absl::StatusOr<bool> LineChannel::read(const std::function<void(std::string_view line)>& handle) {
  std::array<std::byte, 1 << 14> block = {};
  while (true) {
    const std::ptrdiff_t got = receive(block);
    if (got == -EAGAIN) return true;
    if (got == -EBADMSG) return tcp::has_gone(EBADMSG);
    if (got <= 0) return false;
    lines_.add({reinterpret_cast<const char*>(block.data()), static_cast<std::size_t>(got)}, handle);
  }
}

absl::Status LineChannel::write(std::string_view text) {
  while (!text.empty()) {
    const std::array<iovec, 1> parts = {
        iovec{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()}};
    const std::ptrdiff_t written = channel_.send(parts);
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (written == -EAGAIN) {
      pollfd writable = {descriptor(), POLLOUT, 0};
      ::poll(&writable, 1, -1);
    } else {
      return tcp::has_gone(static_cast<int>(-written));
    }
  }
  return absl::OkStatus();
}

void LineChannel::flush() {
  if (!is_open()) return;
  if (!waiting_.empty()) write(std::exchange(waiting_, {})).IgnoreError();
  if (std::exchange(ends_sending_, false)) channel_.end_sending();
}

}  // namespace verbena::apps
