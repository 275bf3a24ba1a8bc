#include "transport/tcp/approach.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <thread>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/refusal.hpp"
#include "transport/tcp/hub.hpp"
#include "transport/tcp/socket.hpp"

namespace verbena::transport::tcp {

namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(2);
constexpr auto kLongestPause = std::chrono::milliseconds(100);

absl::Status unavailable(int error) {
  absl::Status status = absl::UnavailableError(text_of(error));
  if (error == ECONNREFUSED) mark_refusal(status);
  return status;
}

/// False: not until the deadline.
bool wait_for(const Approach& approach, TimePoint deadline) {
  while (true) {
    const Duration left = std::max<Duration>(deadline - clock_now(), Duration::zero());
    const timespec time = {.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000),
                           .tv_nsec = static_cast<long>(left.count() % 1'000'000'000)};
    const bool sends = approach.waits_to_send();
    pollfd file = {
        .fd = approach.socket(), .events = static_cast<short>(sends ? POLLOUT : POLLIN), .revents = 0};
    if (::ppoll(&file, 1, &time, nullptr) > 0) return true;
    if (clock_now() >= deadline) return false;
  }
}

absl::StatusOr<Met> attempt(Approach& approach, const sockaddr_storage& place, TimePoint deadline) {
  RETURN_IF_ERROR(approach.begin(place));
  while (true) {
    if (!wait_for(approach, deadline)) return approach.too_late();
    const absl::StatusOr<bool> has_met = approach.go_on();
    if (!has_met.ok()) return has_met.status();
    if (*has_met) return approach.take();
  }
}

}  // namespace

absl::Status Approach::begin(const sockaddr_storage& place) {
  met_.place = place;
  socket_ = begin_to_connect(place);
  return socket_.valid() ? absl::OkStatus() : unavailable(errno);
}

absl::Status Approach::too_late() const {
  return absl::UnavailableError(stage_ == Stage::kConnecting ? "its host does not answer"
                                                             : "it does not answer");
}

absl::StatusOr<bool> Approach::go_on() {
  if (stage_ == Stage::kConnecting) {
    if (const int error = end_of_connecting(socket_); error != 0) return unavailable(error);
    if (is_connected_to_itself(socket_)) return absl::UnavailableError("nobody listens there");
    RETURN_IF_ERROR(greet());
  }
  while (true) {
    const absl::StatusOr<bool> has_said = say();
    if (!has_said.ok() || !*has_said) return has_said;
    const absl::StatusOr<bool> has_heard = hear();
    if (!has_heard.ok() || !*has_heard) return has_heard;
    if (stage_ == Stage::kWelcome) break;
    RETURN_IF_ERROR(answer_challenge());
  }
  RETURN_IF_ERROR(finish());
  return true;
}

absl::Status Approach::greet() {
  const absl::StatusOr<Nonce> nonce = fresh_nonce();
  if (!nonce.ok()) return nonce.status();
  greeting_ = {.encrypts = static_cast<std::uint16_t>(tls_ == nullptr ? 0 : 1),
               .max_message_bytes = options_.max_message_bytes,
               .credits = options_.receive_depth,
               .nonce = *nonce,
               .joins = joins_};
  to_say_ = bytes_said(greeting_);
  to_hear_ = room_for(challenge_);
  stage_ = Stage::kChallenge;
  return absl::OkStatus();
}

absl::Status Approach::answer_challenge() {
  RETURN_IF_ERROR(check(challenge_, greeting_, options_.secret.get()));
  introduction_ = {.process = static_cast<std::uint32_t>(::getpid())};
  sign(introduction_, greeting_, challenge_, options_.secret.get());
  to_say_ = bytes_said(introduction_);
  to_hear_ = room_for(welcome_);
  stage_ = Stage::kWelcome;
  return absl::OkStatus();
}

absl::Status Approach::finish() {
  if (welcome_.magic != kMagic || welcome_.is_welcome != 1)
    return absl::FailedPreconditionError("it refused the connection; its log says why");
  absl::StatusOr<Channel> channel = make_channel(std::move(socket_), tls_, TlsEnd::kConnector, [&] {
    return key_of(greeting_, challenge_, introduction_, *options_.secret);
  });
  if (!channel.ok()) return channel.status();
  met_.channel = *std::move(channel);
  met_.listener = challenge_;
  return absl::OkStatus();
}

absl::StatusOr<bool> Approach::say() {
  while (!to_say_.empty()) {
    const std::ptrdiff_t count = send(socket_.get(), to_say_);
    if (count == -EAGAIN) return false;
    if (count < 0) return unavailable(static_cast<int>(-count));
    to_say_ = to_say_.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

absl::StatusOr<bool> Approach::hear() {
  while (!to_hear_.empty()) {
    const std::ptrdiff_t count = receive(socket_.get(), to_hear_);
    if (count == -EAGAIN) return false;
    if (count == 0) return absl::UnavailableError("who listens there hung up");
    if (count < 0) return unavailable(static_cast<int>(-count));
    to_hear_ = to_hear_.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

absl::StatusOr<Met> meet_listener(const std::string& address, const std::vector<sockaddr_storage>& places,
                                  TimePoint deadline, const TcpOptions& options, const TlsContext* tls) {
  std::size_t next = 0;
  bool is_refused = false;
  for (Duration pause = kFirstPause;; pause = std::min<Duration>(2 * pause, kLongestPause)) {
    const bool is_last = ++next % places.size() == 0;
    // One that does not answer leaves time for the others.
    const TimePoint until = is_last ? deadline : clock_now() + (deadline - clock_now()) / 2;
    Approach approach(options, tls, kNoConnection);
    absl::StatusOr<Met> met = attempt(approach, places[(next - 1) % places.size()], until);
    if (met.ok()) return met;
    is_refused = is_refused || is_refusal(met.status());  // the last attempt had no time for an answer
    const std::string obstacle(met.status().message());
    if (!absl::IsUnavailable(met.status()))
      return absl::Status(met.status().code(), fmt::format("{}: {}", address, obstacle));
    const TimePoint now = clock_now();
    if (now >= deadline) {
      auto error = absl::DeadlineExceededError(
          fmt::format("{}: nobody has accepted connections there in time: {}", address, obstacle));
      if (is_refused) mark_refusal(error);
      return error;
    }
    if (is_last) std::this_thread::sleep_for(std::min(pause, deadline - now));
  }
}

}  // namespace verbena::transport::tcp
