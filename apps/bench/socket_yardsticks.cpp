#include "apps/bench/socket_yardsticks.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "apps/bench/stopwatch.hpp"
#include "base/file_descriptor.hpp"

namespace verbena::apps::bench {

namespace {

constexpr std::size_t kRequestBytes = 32;

/// Two connected sockets that never block.
absl::StatusOr<std::pair<base::FileDescriptor, base::FileDescriptor>> connected_sockets() {
  const auto failed = [] { return absl::ErrnoToStatus(errno, "the loopback interface cannot be used"); };
  base::FileDescriptor listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  base::FileDescriptor client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  if (::bind(listening.get(), address, length) != 0 || ::listen(listening.get(), 1) != 0 ||
      ::getsockname(listening.get(), address, &length) != 0 || ::connect(client.get(), address, length) != 0)
    return failed();
  base::FileDescriptor server(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!server.valid()) return failed();
  for (const base::FileDescriptor* each : {&client, &server}) {
    const int on = 1;
    if (::setsockopt(each->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) return failed();
  }
  return std::pair(std::move(client), std::move(server));
}

/// False: the other side has gone, or `stop`.
bool send_all(int socket, const std::byte* bytes, std::size_t count, const std::atomic<bool>& stop) {
  while (count > 0) {
    const ssize_t sent = ::send(socket, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return false;
    if (stop.load(std::memory_order_relaxed)) return false;
    if (sent <= 0) continue;
    bytes += sent;
    count -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, std::byte* bytes, std::size_t count, const std::atomic<bool>& stop) {
  while (count > 0) {
    const ssize_t got = ::recv(socket, bytes, count, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
    if (stop.load(std::memory_order_relaxed)) return false;
    if (got < 0) continue;
    bytes += got;
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace

absl::StatusOr<Samples> time_socket_round_trip(const TimingOptions& options, std::size_t answer_bytes) {
  auto sockets = connected_sockets();
  if (!sockets.ok()) return sockets.status();
  std::atomic<bool> stop = false;
  std::jthread other([&, server = sockets->second.get()] {
    std::vector<std::byte> request(kRequestBytes);
    const std::vector<std::byte> answer(answer_bytes);
    while (receive_all(server, request.data(), request.size(), stop) &&
           send_all(server, answer.data(), answer.size(), stop)) {
    }
  });
  const absl::Cleanup end_other = [&] { stop = true; };
  const std::vector<std::byte> request(kRequestBytes);
  std::vector<std::byte> answer(answer_bytes);
  const int client = sockets->first.get();
  TimingOptions single = options;
  single.batch_nanoseconds = 0;  // an operation is long enough to be timed by itself
  return time_while(single, [&] {
    return send_all(client, request.data(), request.size(), stop) &&
           receive_all(client, answer.data(), answer.size(), stop);
  });
}

absl::StatusOr<double> time_socket_stream(const TimingOptions& options, std::size_t piece_bytes) {
  auto sockets = connected_sockets();
  if (!sockets.ok()) return sockets.status();
  std::atomic<bool> stop = false;
  std::jthread other([&, server = sockets->second.get()] {
    std::vector<std::byte> piece(piece_bytes);
    while (receive_all(server, piece.data(), piece.size(), stop)) {
    }
  });
  const absl::Cleanup end_other = [&] { stop = true; };
  const std::vector<std::byte> piece(piece_bytes);
  const int client = sockets->first.get();
  const Stopwatch warm_up;
  while (warm_up.nanoseconds() < options.seconds * 1e8) {
    if (!send_all(client, piece.data(), piece.size(), stop)) return absl::UnavailableError("the other side");
  }
  double bytes = 0;
  const Stopwatch all;
  while (all.nanoseconds() < options.seconds * 1e9) {
    if (!send_all(client, piece.data(), piece.size(), stop)) return absl::UnavailableError("the other side");
    bytes += static_cast<double>(piece_bytes);
  }
  return bytes / (all.nanoseconds() / 1e9);
}

}  // namespace verbena::apps::bench
