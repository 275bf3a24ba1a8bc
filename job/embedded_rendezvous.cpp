#include "job/embedded_rendezvous.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "job/json_line.hpp"
#include "job/secret_handover.hpp"

namespace verbena::job {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr auto kPollSlice = std::chrono::milliseconds(50);  // how often a wait checks whether it must end

absl::Status launcher_gone() {
  return absl::UnavailableError("the launcher is gone");
}

/// Waits for something to read.
void wait_readable(int descriptor) {
  pollfd readable = {descriptor, POLLIN, 0};
  ::poll(&readable, 1, static_cast<int>(kPollSlice.count()));
}

}  // namespace

// --- a process's end

absl::StatusOr<std::unique_ptr<EmbeddedRendezvous>> EmbeddedRendezvous::join(int descriptor) {
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  absl::StatusOr<std::shared_ptr<const transport::Secret>> secret = take_over_secret(descriptor);
  if (!secret.ok()) {
    ::close(descriptor);
    return secret.status();
  }
  LineStream lines;
  std::optional<json> welcome;
  while (!welcome) {
    wait_readable(descriptor);
    const bool open =
        lines.read(descriptor, [&](std::string_view line) { welcome = json::parse(line, nullptr, false); });
    if (!open && !welcome) {
      ::close(descriptor);
      return launcher_gone();
    }
  }
  const std::optional<std::uint32_t> rank = number_in(*welcome, "rank");
  const std::optional<std::uint32_t> size = number_in(*welcome, "size");
  if (!rank || !size || *rank >= *size) {
    ::close(descriptor);
    return absl::InvalidArgumentError("not a launcher's words");
  }
  return std::unique_ptr<EmbeddedRendezvous>(
      new EmbeddedRendezvous(descriptor, *rank, *size, *std::move(secret)));
}

EmbeddedRendezvous::EmbeddedRendezvous(int descriptor, std::uint32_t rank, std::uint32_t size,
                                       std::shared_ptr<const transport::Secret> secret)
    : Rendezvous(rank, size), descriptor_(descriptor), secret_(std::move(secret)), notes_(size) {}

EmbeddedRendezvous::~EmbeddedRendezvous() {
  ::close(descriptor_);
}

absl::Status EmbeddedRendezvous::put(const std::string& key, const std::string& value) {
  return write_all(descriptor_, FenceNotes::put_line(key, value)).ok() ? absl::OkStatus() : launcher_gone();
}

absl::Status EmbeddedRendezvous::fence(std::chrono::milliseconds patience, const Stopped& stopped) {
  if (!write_all(descriptor_, FenceNotes::fence_line()).ok()) return launcher_gone();
  const auto deadline = Clock::now() + patience;
  bool done = false;
  while (!done) {
    if (stopped()) return absl::CancelledError("stopped");
    if (Clock::now() >= deadline) {
      return absl::DeadlineExceededError(fmt::format("not all {} processes have come together within {} s",
                                                     size(), patience.count() / 1000));
    }
    wait_readable(descriptor_);
    absl::Status said;
    const bool open = lines_.read(descriptor_, [&](std::string_view line) {
      const absl::StatusOr<bool> ends = notes_.take(line);
      said.Update(ends.status());
      done = done || (ends.ok() && *ends);
    });
    if (!said.ok()) return said;
    if (!open && !done) return launcher_gone();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> EmbeddedRendezvous::get(std::uint32_t rank, const std::string& key) {
  return notes_.get(rank, key);
}

// --- the launcher's end

RendezvousHost::~RendezvousHost() {
  for (const Seat& seat : seats_) {
    if (seat.descriptor >= 0) ::close(seat.descriptor);
  }
}

absl::StatusOr<int> RendezvousHost::add() {
  std::array<int, 2> ends = {};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return absl::ResourceExhaustedError(fmt::format("cannot make a socket: {}", std::strerror(errno)));
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  if (absl::Status status = hand_over(*secret_, ends[0]); !status.ok()) {
    ::close(ends[0]);
    ::close(ends[1]);
    return status;
  }
  const std::size_t rank = seats_.size();
  const json welcome = {{"rank", rank}, {"size", std::max<std::size_t>(told_size_, rank + 1)}};
  Seat& seat = seats_.emplace_back();
  seat.descriptor = ends[0];
  seat.unsent = line_of(welcome);
  send(seat);
  return ends[1];
}

absl::Status RendezvousHost::serve() {
  for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) {
    Seat& seat = seats_[rank];
    if (seat.descriptor < 0) continue;
    absl::Status status;
    const bool open = seat.lines.read(seat.descriptor,
                                      [&](std::string_view line) { status.Update(board_.take(rank, line)); });
    send(seat);
    if (!open) ::close(std::exchange(seat.descriptor, -1));
    if (!status.ok()) return status;
  }
  const std::optional<std::string> heard_by_all = board_.let_go();
  for (std::uint32_t rank = 0; rank < seats_.size(); ++rank) {
    const std::optional<std::string> heard = rank < board_.size() ? heard_by_all : board_.let_go_late(rank);
    seats_[rank].unsent += heard.value_or("");
    send(seats_[rank]);
  }
  return absl::OkStatus();
}

void RendezvousHost::send(Seat& seat) {
  while (seat.descriptor >= 0 && !seat.unsent.empty()) {
    const ssize_t written = ::write(seat.descriptor, seat.unsent.data(), seat.unsent.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) return;
    if (written < 0) {
      seat.unsent.clear();  // the process has gone; that is noticed elsewhere
      return;
    }
    seat.unsent.erase(0, static_cast<std::size_t>(written));
  }
}

}  // namespace verbena::job
