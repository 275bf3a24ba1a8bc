// Asks a server on this host by HTTP.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"
#include "tests/loopback.hpp"

namespace verbena::testing {

/// A connection to that port of the loopback interface; none if nobody listens there.
inline base::FileDescriptor connect_to(std::uint16_t port) {
  base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in place = loopback(port);
  const timeval patience{.tv_sec = 60, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) socket.reset();
  return socket;
}

/// All that comes until the other side closes the connection.
inline std::string read_all(int socket) {
  std::string all;
  std::array<char, 4096> bytes{};
  for (ssize_t got = 0; (got = ::recv(socket, bytes.data(), bytes.size(), 0)) > 0;)
    all.append(bytes.data(), static_cast<std::size_t>(got));
  return all;
}

/// The whole answer to this request, with its head; empty if there is none.
inline std::string ask(std::uint16_t port, std::string_view request) {
  const base::FileDescriptor socket = connect_to(port);
  if (!socket.valid() || ::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  return read_all(socket.get());
}

/// The body of the answer to a GET, if that is a good one; else empty.
inline std::string http_get(std::uint16_t port, std::string_view path) {
  const std::string answer = ask(port, "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const std::size_t head = answer.find("\r\n\r\n");
  return answer.starts_with("HTTP/1.1 200 ") && head != std::string::npos ? answer.substr(head + 4) : "";
}

}  // namespace verbena::testing
