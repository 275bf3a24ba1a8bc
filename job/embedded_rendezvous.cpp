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

#include "base/printable.hpp"
#include "job/secret_handover.hpp"

namespace verbena::job {
namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr auto kPollSlice = std::chrono::milliseconds(50);  // how often a wait checks whether it must end
constexpr std::size_t kShownBytes = 200;                    // of a line in an error

std::string line_of(const json& object) {
  return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

// What the other end has written is checked before it is used: the library throws if a value is of another
// type.
// ------------------------------------------------------------------------------------------------------------

std::optional<std::uint32_t> number_in(const json& object, const char* name) {
  if (!object.is_object() || !object.contains(name) || !object[name].is_number_unsigned())
    return std::nullopt;
  const auto number = object[name].get<std::uint64_t>();
  return std::in_range<std::uint32_t>(number) ? std::optional(static_cast<std::uint32_t>(number))
                                              : std::nullopt;
}

std::optional<std::string> text_in(const json& object, const char* name) {
  if (!object.is_object() || !object.contains(name) || !object[name].is_string()) return std::nullopt;
  return object[name].get<std::string>();
}

absl::Status broke_the_rules(std::string_view who, std::string_view line) {
  return absl::InvalidArgumentError(fmt::format("{} said what it should not: {}{}", who,
                                                base::printable(line.substr(0, kShownBytes)),
                                                line.size() > kShownBytes ? "…" : ""));
}

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
    : Rendezvous(rank, size, rank), descriptor_(descriptor), secret_(std::move(secret)) {}

EmbeddedRendezvous::~EmbeddedRendezvous() {
  ::close(descriptor_);
}

absl::Status EmbeddedRendezvous::put(const std::string& key, const std::string& value) {
  return write_all(descriptor_, line_of({{"put", key}, {"value", value}})).ok() ? absl::OkStatus()
                                                                                : launcher_gone();
}

/// True at the end of a fence.
absl::StatusOr<bool> EmbeddedRendezvous::take(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (object.is_object() && object.contains("go")) return true;
  const std::optional<std::uint32_t> rank = number_in(object, "rank");
  std::optional<std::string> key = text_in(object, "key");
  std::optional<std::string> value = text_in(object, "value");
  if (!rank || *rank >= size() || !key || !value) return broke_the_rules("the launcher", line);
  values_[{*rank, *std::move(key)}] = *std::move(value);
  return false;
}

absl::Status EmbeddedRendezvous::fence(std::chrono::milliseconds patience, const Stopped& stopped) {
  if (!write_all(descriptor_, line_of({{"fence", true}})).ok()) return launcher_gone();
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
      const absl::StatusOr<bool> ends = take(line);
      said.Update(ends.status());
      done = done || (ends.ok() && *ends);
    });
    if (!said.ok()) return said;
    if (!open && !done) return launcher_gone();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> EmbeddedRendezvous::get(std::uint32_t rank, const std::string& key) {
  const auto found = values_.find({rank, key});
  if (found == values_.end()) {
    return absl::NotFoundError(fmt::format("process {} has not told its {}", rank, key));
  }
  return found->second;
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
    const bool open =
        seat.lines.read(seat.descriptor, [&](std::string_view line) { status.Update(take(rank, line)); });
    send(seat);
    if (!open) ::close(std::exchange(seat.descriptor, -1));
    if (!status.ok()) return status;
  }
  if (seats_.size() == size_ &&
      std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.at_fence; })) {
    let_go();
  }
  for (std::size_t late = size_; have_met_ && late < seats_.size(); ++late) {
    if (seats_[late].at_fence) let_go_late(seats_[late]);
  }
  return absl::OkStatus();
}

absl::Status RendezvousHost::take(std::uint32_t rank, std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (object.is_object() && object.contains("fence") && !seats_[rank].at_fence) {
    seats_[rank].at_fence = true;
    return absl::OkStatus();
  }
  const std::optional<std::string> key = text_in(object, "put");
  const std::optional<std::string> value = text_in(object, "value");
  if (!key || !value) return broke_the_rules(fmt::format("process {}", rank), line);
  tell(rank, *key, *value);
  return absl::OkStatus();
}

void RendezvousHost::tell(std::uint32_t rank, const std::string& key, const std::string& value) {
  news_ += line_of({{"rank", rank}, {"key", key}, {"value", value}});
}

void RendezvousHost::let_go() {
  have_met_ = true;
  said_ += news_;
  const std::string words = std::exchange(news_, {}) + line_of({{"go", true}});
  for (Seat& seat : seats_) {
    seat.at_fence = false;
    seat.unsent += words;
    send(seat);
  }
}

void RendezvousHost::let_go_late(Seat& seat) const {
  seat.at_fence = false;
  seat.unsent += said_ + line_of({{"go", true}});
  send(seat);
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
