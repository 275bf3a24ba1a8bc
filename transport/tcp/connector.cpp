#include "transport/tcp/connector.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <span>
#include <thread>
#include <utility>

#include "transport/tcp/hub.hpp"
#include "transport/tcp/socket.hpp"

namespace verbena::transport::tcp {

namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(2);
constexpr auto kLongestPause = std::chrono::milliseconds(100);

/// One attempt. UNAVAILABLE: there may be another one.
class Attempt {
 public:
  Attempt(const TcpOptions& options, const TlsContext* tls, TimePoint deadline)
      : options_(options), tls_(tls), deadline_(deadline) {}

  absl::StatusOr<Met> make(const sockaddr_storage& place) {
    socket_ = begin_to_connect(place);
    if (!socket_.valid()) return unavailable(errno);
    if (!wait_for(POLLOUT)) return absl::UnavailableError("its host does not answer");
    if (const int error = end_of_connecting(socket_); error != 0) return unavailable(error);
    if (is_connected_to_itself(socket_)) return absl::UnavailableError("nobody listens there");
    absl::StatusOr<Met> met = introduce();
    if (met.ok()) met->place = place;
    return met;
  }

 private:
  static absl::Status unavailable(int error) { return absl::UnavailableError(text_of(error)); }

  absl::StatusOr<Met> introduce() {
    const absl::StatusOr<Nonce> nonce = fresh_nonce();
    if (!nonce.ok()) return nonce.status();
    const Greeting greeting = {.encrypts = static_cast<std::uint16_t>(tls_ == nullptr ? 0 : 1),
                               .max_message_bytes = options_.max_message_bytes,
                               .credits = options_.receive_depth,
                               .nonce = *nonce};
    if (absl::Status said = say(bytes_said(greeting)); !said.ok()) return said;
    Challenge challenge;
    if (absl::Status heard = hear(room_for(challenge)); !heard.ok()) return heard;
    if (absl::Status good = check(challenge, greeting, options_.secret.get()); !good.ok()) return good;
    Introduction introduction = {.process = static_cast<std::uint32_t>(::getpid())};
    sign(introduction, greeting, challenge, options_.secret.get());
    if (absl::Status said = say(bytes_said(introduction)); !said.ok()) return said;
    Welcome welcome;
    if (absl::Status heard = hear(room_for(welcome)); !heard.ok()) return heard;
    if (welcome.magic != kMagic || welcome.is_welcome != 1)
      return absl::FailedPreconditionError("it refused the connection; its log says why");
    absl::StatusOr<Channel> channel = make_channel(std::move(socket_), tls_, TlsEnd::kConnector, [&] {
      return key_of(greeting, challenge, introduction, *options_.secret);
    });
    if (!channel.ok()) return channel.status();
    return Met{.channel = *std::move(channel), .listener = challenge};
  }

  /// False: not until the deadline.
  bool wait_for(short what) {
    while (true) {
      const Duration left = std::max<Duration>(deadline_ - clock_now(), Duration::zero());
      const timespec time = {.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000),
                             .tv_nsec = static_cast<long>(left.count() % 1'000'000'000)};
      pollfd file = {.fd = socket_.get(), .events = what, .revents = 0};
      const int count = ::ppoll(&file, 1, &time, nullptr);
      if (count > 0) return true;
      if (clock_now() >= deadline_) return false;
    }
  }
  absl::Status say(std::span<const std::byte> words) {
    while (!words.empty()) {
      const std::ptrdiff_t count = send(socket_.get(), words);
      if (count >= 0) words = words.subspan(static_cast<std::size_t>(count));
      if (count < 0 && count != -EAGAIN) return unavailable(static_cast<int>(-count));
      if (!words.empty() && !wait_for(POLLOUT)) return absl::UnavailableError("it does not answer");
    }
    return absl::OkStatus();
  }
  absl::Status hear(std::span<std::byte> words) {
    while (!words.empty()) {
      const std::ptrdiff_t count = receive(socket_.get(), words);
      if (count > 0) words = words.subspan(static_cast<std::size_t>(count));
      if (count == 0) return absl::UnavailableError("who listens there hung up");
      if (count < 0 && count != -EAGAIN) return unavailable(static_cast<int>(-count));
      if (!words.empty() && !wait_for(POLLIN)) return absl::UnavailableError("it does not answer");
    }
    return absl::OkStatus();
  }

  const TcpOptions& options_;
  const TlsContext* const tls_;
  const TimePoint deadline_;
  base::FileDescriptor socket_;
};

}  // namespace

absl::StatusOr<Met> meet_listener(const std::string& address, const std::vector<sockaddr_storage>& places,
                                  TimePoint deadline, const TcpOptions& options, const TlsContext* tls) {
  std::size_t next = 0;
  for (Duration pause = kFirstPause;; pause = std::min<Duration>(2 * pause, kLongestPause)) {
    const bool is_last = ++next % places.size() == 0;
    // One that does not answer leaves time for the others.
    const TimePoint until = is_last ? deadline : clock_now() + (deadline - clock_now()) / 2;
    absl::StatusOr<Met> met = Attempt(options, tls, until).make(places[(next - 1) % places.size()]);
    if (met.ok()) return met;
    const std::string obstacle(met.status().message());
    if (!absl::IsUnavailable(met.status()))
      return absl::Status(met.status().code(), fmt::format("{}: {}", address, obstacle));
    const TimePoint now = clock_now();
    if (now >= deadline) {
      return absl::DeadlineExceededError(
          fmt::format("{}: nobody has accepted connections there in time: {}", address, obstacle));
    }
    if (is_last) std::this_thread::sleep_for(std::min(pause, deadline - now));
  }
}

}  // namespace verbena::transport::tcp
