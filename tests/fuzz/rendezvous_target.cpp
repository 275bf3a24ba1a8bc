// Lines at the rendezvous: of a process to the launcher, and of whoever plays the launcher to a process.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "apps/rendezvous/embedded_rendezvous.hpp"
#include "tests/fuzz/target.hpp"

namespace verbena::fuzz {
namespace {

void to_launcher(std::string_view bytes) {
  apps::RendezvousHost host(2);
  const absl::StatusOr<int> one = host.add();
  const absl::StatusOr<int> other = host.add();
  require(one.ok() && other.ok(), "no sockets");
  require(::write(*one, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "not written");
  require(::write(*other, "{\"fence\":true}\n", 15) == 15, "not written");
  for (int round = 0; round < 3; ++round) {
    const absl::Status status = host.serve();
    if (!status.ok()) require_refusal(status, "process ");
  }
  ::close(*one);
  ::close(*other);
}

void to_process(std::string_view bytes) {
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "no sockets");
  require(::write(ends[0], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "not written");
  ::shutdown(ends[0], SHUT_WR);
  auto joined = apps::EmbeddedRendezvous::join(ends[1]);
  if (joined.ok()) {
    static_cast<void>((*joined)->put("key", "value"));
    static_cast<void>((*joined)->fence(std::chrono::seconds(1), [] { return false; }));
    static_cast<void>((*joined)->get(0, "key"));
  } else {
    require(!joined.status().message().empty(), "no reason");
  }
  ::close(ends[0]);
}

}  // namespace

void rendezvous(std::string_view bytes) {
  constexpr std::size_t kMostBytes = 4096;  // fit into an empty socket
  Input input(bytes);
  const bool launcher = input.below(2) == 0;
  const std::string_view said = input.take_bytes(kMostBytes);
  launcher ? to_launcher(said) : to_process(said);
}

}  // namespace verbena::fuzz
