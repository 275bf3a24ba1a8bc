#include "apps/rendezvous/secret_handover.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>

namespace verbena::apps {

absl::Status hand_over(const transport::Secret& secret, int descriptor) {
  const auto bytes = secret.bytes();
  const ssize_t sent = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("a process cannot be told the secret: {}", std::strerror(errno)));
}

absl::StatusOr<std::shared_ptr<const transport::Secret>> take_over_secret(int descriptor) {
  std::array<std::byte, transport::Secret::kBytes> bytes{};
  std::span<std::byte> rest = bytes;
  while (!rest.empty()) {
    const ssize_t got = ::read(descriptor, rest.data(), rest.size());
    if (got > 0) {
      rest = rest.subspan(static_cast<std::size_t>(got));
    } else if (got < 0 && errno == EAGAIN) {
      pollfd readable = {.fd = descriptor, .events = POLLIN, .revents = 0};
      ::poll(&readable, 1, -1);
    } else if (got == 0 || errno != EINTR) {
      return absl::UnavailableError("who has started this process is gone");
    }
  }
  auto secret = std::make_shared<const transport::Secret>(bytes);
  transport::wipe(bytes);
  return secret;
}

}  // namespace verbena::apps
