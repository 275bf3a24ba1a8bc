#include "tests/transport/fault_proxy.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <random>
#include <thread>
#include <vector>

#include "base/file_descriptor.hpp"

namespace verbena::transport {

namespace {

constexpr std::size_t kMostLostBytes = 64;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_port = ::htons(port);
  place.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  return place;
}

void send_at_once(const base::FileDescriptor& socket) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// Closing it then tells the peer that the connection was reset.
void reset_at_close(const base::FileDescriptor& socket) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace

class FaultProxy::Forwarding {
 public:
  Forwarding(std::uint16_t to_port, const Plan& plan)
      : to_port_(to_port), plan_(plan), random_(plan.seed), listening_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in place = loopback(0);
    socklen_t length = sizeof place;
    (void)::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&place), length);
    ::listen(listening_.get(), 64);
    ::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&place), &length);
    port_ = ::ntohs(place.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Forwarding() {
    stop_ = true;
    thread_.join();
  }
  Forwarding(const Forwarding&) = delete;
  Forwarding& operator=(const Forwarding&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::size_t connections() const { return accepted_; }
  [[nodiscard]] std::uint64_t carried(std::size_t number) const { return carried_.at(number); }
  void spoil(std::size_t number, Fault fault) {
    wanted_fault_ = fault;
    wanted_ = number;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// What goes from one socket to the other.
  struct Direction {
    int from = -1;
    int to = -1;
    std::vector<std::byte> rest;  ///< received, and the other side does not take it
    Clock::time_point due;        ///< for the rest to be forwarded
    bool has_ended = false;
  };
  struct Pair {
    std::size_t number = 0;
    base::FileDescriptor client;
    base::FileDescriptor server;
    std::array<Direction, 2> directions;
  };

  void run() {
    while (!stop_) {
      std::vector<pollfd> files{{.fd = listening_.get(), .events = POLLIN, .revents = 0}};
      for (const Pair& pair : pairs_) {
        for (const Direction& direction : pair.directions) {
          const bool waits = !direction.rest.empty();
          if (direction.has_ended || (waits && Clock::now() < direction.due)) continue;
          files.push_back({.fd = waits ? direction.to : direction.from,
                           .events = static_cast<short>(waits ? POLLOUT : POLLIN),
                           .revents = 0});
        }
      }
      ::poll(files.data(), files.size(), 1);
      if ((files[0].revents & POLLIN) != 0) accept();
      for (auto pair = pairs_.begin(); pair != pairs_.end();) {
        const bool is_wanted = wanted_ == pair->number && !pair->directions[0].has_ended;
        const bool is_spared = !is_wanted || spoil(*pair, pair->directions[0], wanted_fault_);
        if (is_wanted) wanted_ = SIZE_MAX;
        const bool goes_on = is_spared && forward(*pair, 0) && forward(*pair, 1);
        const bool over = pair->directions[0].has_ended && pair->directions[1].has_ended;
        pair = goes_on && !over ? std::next(pair) : pairs_.erase(pair);
      }
    }
  }

  void accept() {
    Pair pair{.number = accepted_++,
              .client = base::FileDescriptor(::accept(listening_.get(), nullptr, nullptr)),
              .server = base::FileDescriptor(::socket(AF_INET, SOCK_STREAM, 0))};
    const sockaddr_in place = loopback(to_port_);
    if (::connect(pair.server.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) return;
    send_at_once(pair.client);
    send_at_once(pair.server);
    pair.directions[0] = {.from = pair.client.get(), .to = pair.server.get()};
    pair.directions[1] = {.from = pair.server.get(), .to = pair.client.get()};
    pairs_.push_back(std::move(pair));
  }

  /// False: the connection is over.
  bool forward(Pair& pair, std::size_t which) {
    Direction& direction = pair.directions[which];
    if (direction.has_ended) return true;
    if (direction.rest.empty()) {
      std::array<std::byte, 65536> bytes;
      const ssize_t count =
          ::recv(direction.from, bytes.data(), std::min(bytes.size(), plan_.most_at_once), MSG_DONTWAIT);
      if (count < 0) return errno == EAGAIN || errno == EINTR;
      if (count == 0) {
        direction.has_ended = true;
        ::shutdown(direction.to, SHUT_WR);
        return true;
      }
      if (pair.number == plan_.swallowed && carried_.at(pair.number) >= plan_.swallowed_after) return true;
      direction.rest.assign(bytes.begin(), bytes.begin() + count);
      if (plan_.watch) plan_.watch(direction.rest);
      if (plan_.delay_us > 0) {
        std::this_thread::sleep_for(
            std::chrono::microseconds(std::uniform_int_distribution<unsigned>(0, plan_.delay_us)(random_)));
      }
      const std::uint64_t before = forwarded_;
      forwarded_ += static_cast<std::uint64_t>(count);
      if (pair.number < kCounted) carried_[pair.number] += static_cast<std::uint64_t>(count);
      const bool now = before <= plan_.after_bytes && plan_.after_bytes < forwarded_;
      if (now && !spoil(pair, direction, plan_.fault)) return false;
      if (direction.has_ended || direction.rest.empty()) return true;
      if (pair.number == plan_.late) direction.due = Clock::now() + plan_.late_by;
      if (plan_.bytes_per_second > 0) {
        const std::chrono::duration<double> time(static_cast<double>(count) / plan_.bytes_per_second);
        direction.due =
            std::max(direction.due, Clock::now()) + std::chrono::duration_cast<Clock::duration>(time);
      }
    }
    if (Clock::now() < direction.due) return true;
    const ssize_t sent =
        ::send(direction.to, direction.rest.data(), direction.rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    direction.rest.erase(direction.rest.begin(), direction.rest.begin() + sent);
    return true;
  }

  /// False: the connection is over.
  bool spoil(const Pair& pair, Direction& direction, Fault fault) {
    switch (fault) {
      case Fault::kNone:
        return true;
      case Fault::kCut:
        reset_at_close(pair.client);
        reset_at_close(pair.server);
        return false;
      case Fault::kHalfClose:
        direction.has_ended = true;
        ::shutdown(direction.to, SHUT_WR);
        return true;
      case Fault::kDrop:
        if (direction.rest.empty()) return true;
        direction.rest.resize(direction.rest.size() -
                              std::uniform_int_distribution<std::size_t>(
                                  1, std::min(kMostLostBytes, direction.rest.size()))(random_));
        return true;
      case Fault::kFlip:
        if (!direction.rest.empty()) direction.rest.back() ^= std::byte{1};
        return true;
    }
    return true;
  }

  const std::uint16_t to_port_;
  const Plan plan_;
  std::mt19937_64 random_;
  std::array<std::atomic<std::uint64_t>, kCounted> carried_{};
  base::FileDescriptor listening_;
  std::uint16_t port_ = 0;
  std::list<Pair> pairs_;
  std::uint64_t forwarded_ = 0;
  std::atomic<std::size_t> accepted_ = 0;
  std::atomic<std::size_t> wanted_ = SIZE_MAX;
  std::atomic<Fault> wanted_fault_ = Fault::kNone;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

FaultProxy::FaultProxy(std::uint16_t to_port, const Plan& plan)
    : forwarding_(std::make_unique<Forwarding>(to_port, plan)) {}
FaultProxy::~FaultProxy() = default;

std::uint16_t FaultProxy::port() const {
  return forwarding_->port();
}

std::uint64_t FaultProxy::carried(std::size_t number) const {
  return forwarding_->carried(number);
}

std::size_t FaultProxy::connections() const {
  return forwarding_->connections();
}

void FaultProxy::spoil(std::size_t number, Fault fault) {
  forwarding_->spoil(number, fault);
}

}  // namespace verbena::transport
