#include "transport/tcp/doorman.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/socket_address.hpp"
#include "transport/tcp/hub.hpp"
#include "transport/tcp/socket.hpp"

namespace verbena::transport::tcp {

namespace {

constexpr auto kStrangersPatience = std::chrono::seconds(10);
constexpr std::size_t kMostStrangersAtDoor = 1024;
constexpr std::size_t kAcceptedAtOneLook = 256;

/// A quarter of the descriptors that the process may have, at most.
std::size_t most_strangers_at_door() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return kMostStrangersAtDoor;
  return std::clamp<std::size_t>(files.rlim_cur / 4, 1, kMostStrangersAtDoor);
}

/// What is said at a meeting is so short that a new connection takes all of it.
absl::Status say(const base::FileDescriptor& socket, std::span<const std::byte> words) {
  if (send(socket.get(), words) == static_cast<std::ptrdiff_t>(words.size())) return absl::OkStatus();
  return absl::UnavailableError("it went before it had proved itself");
}

}  // namespace

Doorman::Doorman(const TcpOptions& options, const TlsContext* tls, Sockets& sockets, House& house)
    : options_(options),
      tls_(tls),
      sockets_(sockets),
      house_(house),
      most_strangers_(most_strangers_at_door()) {}

Doorman::~Doorman() {
  close();
}

void Doorman::close() {
  for (Listener& listener : listeners_) sockets_.remove(listener.number, listener.socket.get());
  for (Stranger& stranger : strangers_) sockets_.remove(stranger.number, stranger.socket.get());
  listeners_.clear();
  strangers_.clear();
}

absl::Status Doorman::add_listener(base::FileDescriptor listening) {
  Listener& listener = listeners_.emplace_back(*this, std::move(listening));
  const absl::StatusOr<std::uint64_t> number = sockets_.add(listener.socket.get(), listener);
  if (number.ok()) {
    listener.number = *number;
  } else {
    listeners_.pop_back();
  }
  return number.status();
}

void Doorman::tick(TimePoint now) {
  while (!strangers_.empty() && strangers_.front().deadline <= now)
    refuse(strangers_.front(), "it has not proved itself in time");
  for (Listener& listener : listeners_) {
    if (std::exchange(listener.is_deaf, false))
      sockets_.want(listener.number, listener.socket.get(), Sockets::Wants::kReading);
  }
}

void Doorman::accept(Listener& listener) {
  for (std::size_t i = 0; i < kAcceptedAtOneLook; ++i) {
    sockaddr_storage peer{};
    base::FileDescriptor socket = accept_from(listener.socket, peer);
    if (socket.valid()) {
      take_in(std::move(socket), peer);
      continue;
    }
    const int error = errno;
    if (error == ECONNABORTED || error == EINTR) continue;
    if (error == EAGAIN) return;
    if (!strangers_.empty()) {
      refuse(strangers_.front(), "there are too many open files");
      continue;
    }
    // Or the one who waits would be looked at over and over.
    refusals_.note(clock_now(), text_of(error));
    listener.is_deaf = true;
    sockets_.want(listener.number, listener.socket.get(), Sockets::Wants::kNothing);
    return;
  }
}

void Doorman::take_in(base::FileDescriptor socket, const sockaddr_storage& peer) {
  if (strangers_.size() >= most_strangers_) refuse(strangers_.front(), "there are too many at a time");
  Stranger& stranger =
      strangers_.emplace_back(*this, std::move(socket), host_of(reinterpret_cast<const sockaddr&>(peer)),
                              clock_now() + kStrangersPatience);
  stranger.place = std::prev(strangers_.end());
  const absl::StatusOr<std::uint64_t> number = sockets_.add(stranger.socket.get(), stranger);
  if (!number.ok()) return refuse(stranger, std::string(number.status().message()));
  stranger.number = *number;
}

void Doorman::hear(Stranger& stranger) {
  while (true) {
    const std::ptrdiff_t count = receive(stranger.socket.get(), stranger.awaited());
    if (count == -EAGAIN) return;
    if (count <= 0) return refuse(stranger, "it went before it had proved itself");
    stranger.received += static_cast<std::size_t>(count);
    if (stranger.stage == Stranger::Stage::kGreeting &&
        !can_be_greeting(stranger.greeting, stranger.received))
      return refuse(stranger, "it is not of this program's version");
    if (!stranger.awaited().empty()) continue;
    stranger.received = 0;
    const bool is_last = stranger.stage == Stranger::Stage::kIntroduction;
    const absl::Status status = is_last ? take_introduction(stranger) : take_greeting(stranger);
    if (!status.ok()) return refuse(stranger, std::string(status.message()));
    if (is_last) return;
  }
}

absl::Status Doorman::take_greeting(Stranger& stranger) {
  RETURN_IF_ERROR(check(stranger.greeting));
  const absl::StatusOr<Nonce> nonce = fresh_nonce();
  if (!nonce.ok()) return nonce.status();
  stranger.challenge = {.has_secret = static_cast<std::uint16_t>(options_.secret == nullptr ? 0 : 1),
                        .max_message_bytes = options_.max_message_bytes,
                        .credits = options_.receive_depth,
                        .process = static_cast<std::uint32_t>(::getpid()),
                        .encrypts = tls_ == nullptr ? 0U : 1U,
                        .most_streams = most_streams(options_),
                        .nonce = *nonce};
  sign(stranger.challenge, stranger.greeting, options_.secret.get());
  stranger.stage = Stranger::Stage::kIntroduction;
  return say(stranger.socket, bytes_said(stranger.challenge));
}

/// Lets the stranger in, which is then none any more.
absl::Status Doorman::take_introduction(Stranger& stranger) {
  RETURN_IF_ERROR(check(stranger.introduction, stranger.greeting, stranger.challenge, options_.secret.get()));
  const ConnectionId joins = stranger.greeting.joins;
  if (joins != kNoConnection) {
    RETURN_IF_ERROR(house_.check_join(joins));
    if (!leaves_descriptors(stranger.socket.get()))
      return absl::ResourceExhaustedError("it asks for a further stream, and there are many open files");
  }
  RETURN_IF_ERROR(say(stranger.socket, bytes_said(Welcome{.is_welcome = 1})));
  sockets_.remove(stranger.number, stranger.socket.get());
  absl::StatusOr<Channel> channel = make_channel(std::move(stranger.socket), tls_, TlsEnd::kListener, [&] {
    return key_of(stranger.greeting, stranger.challenge, stranger.introduction, *options_.secret);
  });
  Terms terms{.credits = stranger.greeting.credits,
              .id = stranger.challenge.nonce,
              .peer = fmt::format("process {} at {}", stranger.introduction.process, stranger.host)};
  strangers_.erase(stranger.place);
  if (!channel.ok()) {
    refusals_.note(clock_now(), std::string(channel.status().message()));
  } else if (joins != kNoConnection) {
    house_.join(joins, *std::move(channel));
  } else {
    house_.admit(*std::move(channel), std::move(terms));
  }
  return absl::OkStatus();
}

void Doorman::refuse(Stranger& stranger, std::string_view why) {
  refusals_.note(clock_now(), fmt::format("a process at {}: {}", stranger.host, why));
  sockets_.remove(stranger.number, stranger.socket.get());
  strangers_.erase(stranger.place);
}

}  // namespace verbena::transport::tcp
