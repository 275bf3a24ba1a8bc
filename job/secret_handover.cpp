#include "job/secret_handover.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

namespace verbena::job {
namespace {

/// A key in the job's own key-value space, which is nobody else's.
constexpr const char* kSecret = "verbena.secret";
/// The secret is there before the process is.
constexpr int kHandOverPatienceMs = 2000;

}  // namespace

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
      if (::poll(&readable, 1, kHandOverPatienceMs) == 0)
        return absl::UnavailableError("another program has taken this place in the job before");
    } else if (got == 0 || errno != EINTR) {
      return absl::UnavailableError("who has started this process is gone");
    }
  }
  auto secret = std::make_shared<const transport::Secret>(bytes);
  transport::wipe(bytes);
  return secret;
}

absl::Status put_secret(Rendezvous& rendezvous) {
  if (rendezvous.secret() != nullptr) return absl::OkStatus();
  const absl::StatusOr<std::shared_ptr<const transport::Secret>> secret = transport::Secret::random();
  if (!secret.ok()) return secret.status();
  std::string text = (*secret)->to_hex();
  absl::Status told = rendezvous.put(kSecret, text);
  transport::wipe(text);
  return told;
}

absl::StatusOr<std::shared_ptr<const transport::Secret>> get_secret(Rendezvous& rendezvous) {
  if (auto known = rendezvous.secret()) return known;
  absl::StatusOr<std::string> text = rendezvous.get(0, kSecret);
  if (!text.ok()) return text.status();
  absl::StatusOr<std::shared_ptr<const transport::Secret>> secret = transport::Secret::from_hex(*text);
  transport::wipe(*text);
  return secret;
}

}  // namespace verbena::job
