// A TCP port of this host at which nobody listens.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "base/file_descriptor.hpp"
#include "tests/loopback.hpp"

namespace verbena::testing {

/// Below the ports that the system gives to those who ask for any, so that no connection of another test
/// takes it; tests that run at the same time begin to look at different places.
inline std::uint16_t free_port() {
  constexpr unsigned kFirst = 12000;
  constexpr unsigned kCount = 20000;
  static std::atomic<unsigned> next = static_cast<unsigned>(::getpid()) * 61;
  while (true) {
    const auto port = static_cast<std::uint16_t>(kFirst + next++ % kCount);
    const base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in place = loopback(port);
    if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) == 0) return port;
  }
}

}  // namespace verbena::testing
