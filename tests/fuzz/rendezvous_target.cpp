// Lines at the rendezvous: from a process to the launcher, and from someone who plays the launcher to a
// process; and what is taken for the place of rank 0 in etcd.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>

#include "job/embedded_rendezvous.hpp"
#include "job/meeting/leader_entry.hpp"
#include "job/secret_handover.hpp"
#include "tests/fuzz/target.hpp"

namespace verbena::fuzz {
namespace {

void to_launcher(std::string_view bytes) {
  job::RendezvousHost host(2, known_secret());
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

void to_process(std::string_view bytes, bool knows_how) {
  std::array<int, 2> ends{};
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0, "no sockets");
  if (knows_how) require(job::hand_over(*known_secret(), ends[0]).ok(), "not handed over");
  const auto say = [&](std::string_view text) {
    require(::write(ends[0], text.data(), text.size()) == static_cast<ssize_t>(text.size()), "not written");
  };
  // A launcher sends nothing more before the process is at the fence.
  const std::string_view first = bytes.substr(0, std::min(bytes.find('\n'), bytes.size() - 1) + 1);
  say(first);
  if (!first.ends_with('\n') || !knows_how) ::shutdown(ends[0], SHUT_WR);
  auto joined = job::EmbeddedRendezvous::join(ends[1]);
  if (joined.ok()) {
    if (knows_how) say(bytes.substr(first.size()));
    ::shutdown(ends[0], SHUT_WR);
    require((*joined)->rank() < (*joined)->size(), "a rank beyond the last");
    static_cast<void>((*joined)->put("key", "value"));
    const absl::Status met = (*joined)->fence(std::chrono::seconds(1), [] { return false; });
    require(met.ok() || absl::IsUnavailable(met) || absl::IsInvalidArgument(met), met.ToString());
    require(met.message().find('\n') == absl::string_view::npos, "more than a line");
    static_cast<void>((*joined)->get(0, "key"));
  } else {
    require(!joined.status().message().empty(), "no reason");
  }
  ::close(ends[0]);
}

}  // namespace

void leader_entry(std::string_view bytes) {
  const std::optional<job::LeaderEntry> entry = job::decode_leader_entry(bytes);
  if (!entry) return;
  require(!entry->place.host.empty() && entry->place.port != 0 && !entry->mark.empty(), "it leads nowhere");
  const std::optional<job::LeaderEntry> again = job::decode_leader_entry(job::encode(*entry));
  require(again && to_string(again->place) == to_string(entry->place) && again->mark == entry->mark,
          "it is another one when it is written again");
}

void rendezvous(std::string_view bytes) {
  constexpr std::size_t kMostBytes = 4096;  // fit into an empty socket
  Input input(bytes);
  const std::uint32_t to_whom = input.below(4);
  const std::string_view said = input.take_bytes(kMostBytes);
  to_whom % 2 == 0 ? to_launcher(said) : to_process(said, to_whom == 1);
}

}  // namespace verbena::fuzz
