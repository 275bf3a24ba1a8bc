#include "transport/shm/shm_transport.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <ctime>
#include <deque>
#include <list>
#include <thread>
#include <utility>

#include "transport/shm/shm_connection.hpp"

namespace verbena::transport {

namespace shm {

namespace {

constexpr auto kConnectPause = std::chrono::milliseconds(1);
constexpr auto kLongestConnectPause = std::chrono::milliseconds(10);
constexpr std::size_t kMessageSpaceBytes = 65536;  // messages copied out by one poll(), at least one

void pause_processor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

bool single_processor() {
  cpu_set_t processors;
  return ::sched_getaffinity(0, sizeof(processors), &processors) == 0 && CPU_COUNT(&processors) == 1;
}

// To within some milliseconds, for a fraction of the cost of a precise clock.
TimePoint coarse_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return TimePoint(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

absl::Status check_uid(const Peer& peer) {
  if (peer.uid == ::getuid()) return absl::OkStatus();
  return absl::PermissionDeniedError(fmt::format("process {} belongs to user {}, not to user {} as this one",
                                                 peer.pid, peer.uid, ::getuid()));
}

/// Where wait() stops spinning and blocks: long while that pays, short while it does not.
class SpinBudget {
 public:
  explicit SpinBudget(Duration most) : most_(most), now_(most) {}

  [[nodiscard]] Duration now() const { return now_; }
  /// Work came after `waited`.
  void learn(Duration waited) {
    if (waited <= 2 * most_) {
      now_ = std::min(most_, now_ * 2);
    } else {
      now_ = std::max(most_ / 16, now_ / 2);
    }
  }

 private:
  Duration most_;
  Duration now_;
};

class ShmTransport final : public Transport {
 public:
  ShmTransport(const ShmOptions& options, Hub hub)
      : options_(options),
        hub_(std::move(hub)),
        spin_(single_processor() ? Duration::zero() : Duration(options.spin)),
        message_space_(std::max<std::size_t>(kMessageSpaceBytes, options.max_message_bytes)) {}

  absl::StatusOr<std::unique_ptr<MemoryRegion>> allocate_region(std::size_t bytes, Access access) override {
    return hub_.regions->allocate(bytes, access);
  }
  absl::Status listen(const std::string& address) override;
  absl::StatusOr<std::unique_ptr<Connection>> connect(const std::string& address,
                                                      TimePoint deadline) override;
  std::unique_ptr<Connection> take_accepted() override;
  [[nodiscard]] std::size_t poll(std::span<Event> events) override;
  void wait(TimePoint deadline) override;
  void interrupt() override;

  [[nodiscard]] TimePoint now() const override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return options_.max_message_bytes; }
  [[nodiscard]] std::string_view name() const override { return "shm"; }

 private:
  struct Listener final : SocketUser {
    Listener(ShmTransport& owner, ControlSocket listening) : transport(owner), socket(std::move(listening)) {}
    void on_readable() override { transport.accept(socket); }
    ShmTransport& transport;
    ControlSocket socket;
  };
  /// Came in and has not said hello yet.
  struct Stranger final : SocketUser {
    Stranger(ShmTransport& owner, ControlSocket incoming, const Peer& who)
        : transport(owner), socket(std::move(incoming)), peer(who) {}
    void on_readable() override { transport.greet(*this); }
    ShmTransport& transport;
    ControlSocket socket;
    Peer peer;
  };

  absl::StatusOr<std::unique_ptr<Connection>> introduce(ControlSocket socket);
  void accept(const ControlSocket& listening);
  void greet(Stranger& stranger);
  absl::StatusOr<std::unique_ptr<ShmConnection>> admit(Stranger& stranger, ControlSocket::Received& hello);

  void check_sockets();
  bool ready();
  bool spin_until_ready(TimePoint end);
  void wait_for_work(TimePoint deadline);

  const ShmOptions options_;
  Hub hub_;
  SpinBudget spin_;
  std::list<Listener> listeners_;
  std::list<Stranger> strangers_;
  std::deque<std::unique_ptr<ShmConnection>> accepted_;  ///< not taken yet
  std::size_t announced_ = 0;                            ///< of accepted_
  std::size_t first_polled_ = 0;                         ///< rotates, so that no connection starves another
  TimePoint next_socket_check_;
  std::vector<std::byte> message_space_;
  std::atomic<bool> interrupted_ = false;
  static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler sets it
};

// ---- meeting

absl::Status ShmTransport::listen(const std::string& address) {
  auto socket = ControlSocket::listen(address);
  if (!socket.ok()) return socket.status();
  Listener& listener = listeners_.emplace_back(*this, std::move(*socket));
  absl::Status status = hub_.sockets.add(listener.socket.fd(), listener);
  if (!status.ok()) listeners_.pop_back();
  return status;
}

absl::StatusOr<std::unique_ptr<Connection>> ShmTransport::connect(const std::string& address,
                                                                  TimePoint deadline) {
  Duration pause = kConnectPause;
  while (true) {
    auto socket = ControlSocket::connect(address);
    if (!socket.ok()) return socket.status();
    if (socket->has_value()) {
      auto connection = introduce(std::move(**socket));
      if (connection.ok()) return connection;
      return absl::Status(connection.status().code(),
                          fmt::format("{}: {}", address, std::string(connection.status().message())));
    }
    const TimePoint time = now();
    if (time >= deadline) {
      return absl::DeadlineExceededError(
          fmt::format("nobody has accepted connections at {} in time", address));
    }
    std::this_thread::sleep_for(std::min(pause, deadline - time));
    pause = std::min<Duration>(2 * pause, kLongestConnectPause);
  }
}

// The kernel has connected the sockets; the listener need not have noticed. The connection is usable at once:
// what is posted before the listener looks waits in the channel.
absl::StatusOr<std::unique_ptr<Connection>> ShmTransport::introduce(ControlSocket socket) {
  auto peer = socket.peer();
  if (!peer.ok()) return peer.status();
  if (absl::Status status = check_uid(*peer); !status.ok()) return status;
  const std::size_t bytes = ShmConnection::channels_bytes(hub_.geometry);
  auto file = create_memory("verbena-channel", bytes);
  if (!file.ok()) return file.status();
  auto channels = map_memory(*file, bytes, Protection::kReadWrite);
  if (!channels.ok()) return channels.status();
  const ControlMessage hello = {.kind = ControlKind::kHello, .geometry = hub_.geometry};
  const std::array<int, 3> files = {file->get(), hub_.doorbell.file().get(),
                                    hub_.regions->table().file().get()};
  if (absl::Status status = socket.send(hello, files); !status.ok()) return status;
  auto connection = ShmConnection::create(hub_, ShmConnection::Side::kConnector, std::move(socket), *peer,
                                          std::move(*channels), Doorbell(), RegionTable());
  if (!connection.ok()) return connection.status();
  (*connection)->start();
  return std::move(*connection);
}

void ShmTransport::accept(const ControlSocket& listening) {
  std::optional<ControlSocket> socket = listening.accept();
  if (!socket) return;
  auto peer = socket->peer();
  if (!peer.ok() || !check_uid(*peer).ok()) return;  // closes it, which is all that a stranger needs to know
  Stranger& stranger = strangers_.emplace_back(*this, std::move(*socket), *peer);
  if (!hub_.sockets.add(stranger.socket.fd(), stranger).ok()) {
    strangers_.pop_back();
  } else {
    greet(stranger);  // it has spoken already, mostly
  }
}

void ShmTransport::greet(Stranger& stranger) {
  ControlSocket::End end = ControlSocket::End::kOpen;
  std::optional<ControlSocket::Received> hello = stranger.socket.receive(end);
  if (!hello && end == ControlSocket::End::kOpen) return;
  hub_.sockets.remove(stranger.socket.fd());
  if (hello && hello->message.kind == ControlKind::kHello) {
    if (auto connection = admit(stranger, *hello); connection.ok())
      accepted_.push_back(std::move(*connection));
  }
  strangers_.remove_if([&](const Stranger& each) { return &each == &stranger; });
}

absl::StatusOr<std::unique_ptr<ShmConnection>> ShmTransport::admit(Stranger& stranger,
                                                                   ControlSocket::Received& hello) {
  if (hello.message.geometry != hub_.geometry) {
    const ControlMessage refusal = {.kind = ControlKind::kRefused, .geometry = hub_.geometry};
    absl::Status status = stranger.socket.send(refusal, {-1, -1, -1});
    return status.ok() ? absl::FailedPreconditionError("options differ") : status;
  }
  const std::size_t bytes = ShmConnection::channels_bytes(hub_.geometry);
  if (absl::Status status = check_received(hello.files[0], bytes); !status.ok()) return status;
  auto channels = map_memory(hello.files[0], bytes, Protection::kReadWrite);
  if (!channels.ok()) return channels.status();
  auto doorbell = Doorbell::open(hello.files[1]);
  if (!doorbell.ok()) return doorbell.status();
  auto regions = RegionTable::open(hello.files[2]);
  if (!regions.ok()) return regions.status();
  const ControlMessage welcome = {.kind = ControlKind::kWelcome, .geometry = hub_.geometry};
  const std::array<int, 3> files = {hub_.doorbell.file().get(), hub_.regions->table().file().get(), -1};
  if (absl::Status status = stranger.socket.send(welcome, files); !status.ok()) return status;
  return ShmConnection::create(hub_, ShmConnection::Side::kAcceptor, std::move(stranger.socket),
                               stranger.peer, std::move(*channels), std::move(*doorbell),
                               std::move(*regions));
}

std::unique_ptr<Connection> ShmTransport::take_accepted() {
  if (announced_ == 0) return nullptr;
  std::unique_ptr<ShmConnection> connection = std::move(accepted_.front());
  accepted_.pop_front();
  --announced_;
  connection->start();
  return connection;
}

// ---- events

void ShmTransport::check_sockets() {
  hub_.sockets.check();
  next_socket_check_ = coarse_now() + options_.socket_check_interval;
}

std::size_t ShmTransport::poll(std::span<Event> events) {
  if (coarse_now() >= next_socket_check_) check_sockets();
  std::size_t count = 0;
  for (; count < events.size() && announced_ < accepted_.size(); ++count) {
    events[count] = {.kind = Event::Kind::kAccepted, .connection = accepted_[announced_++].get()};
  }
  const std::size_t connections = hub_.connections.size();
  std::span<std::byte> space = message_space_;
  for (std::size_t i = 0; i < connections && count < events.size(); ++i) {
    ShmConnection& connection = *hub_.connections[(first_polled_ + i) % connections];
    count += connection.poll(events.subspan(count), space);
  }
  first_polled_ = connections == 0 ? 0 : (first_polled_ + 1) % connections;
  return count;
}

bool ShmTransport::ready() {
  // seq_cst, as it is looked at between announcing sleep and sleeping (doorbell.hpp).
  if (interrupted_.load(std::memory_order_seq_cst) || announced_ < accepted_.size()) return true;
  return std::any_of(hub_.connections.begin(), hub_.connections.end(),
                     [](ShmConnection* connection) { return connection->pending(); });
}

bool ShmTransport::spin_until_ready(TimePoint end) {
  while (!ready()) {
    if (now() >= end) return false;
    pause_processor();
  }
  return true;
}

void ShmTransport::wait_for_work(TimePoint deadline) {
  if (spin_until_ready(std::min(deadline, now() + spin_.now()))) return;
  if (now() >= deadline) return;
  // Where more processes than processors are at work, the others come first: what they send meanwhile comes together and
  // rings no bell. Where none wants the processor this is a look more; and where a stranger to the job computes on it
  // all the time, an answer may be late by his slice.
  ::sched_yield();
  if (ready()) return;
  for (TimePoint time = now(); time < deadline; time = now()) {  // compared first: a difference may overflow
    hub_.doorbell.announce_sleep();
    if (ready()) {
      hub_.doorbell.cancel_sleep();
      return;
    }
    const bool rung =
        hub_.doorbell.sleep(std::min<Duration>(deadline - time, options_.socket_check_interval));
    if (ready()) return;
    check_sockets();  // a peer also rings when it closes
    if (rung || ready()) return;
  }
}

void ShmTransport::wait(TimePoint deadline) {
  const TimePoint start = now();
  wait_for_work(deadline);
  spin_.learn(now() - start);
  interrupted_.store(false, std::memory_order_seq_cst);
}

void ShmTransport::interrupt() {
  interrupted_.store(true, std::memory_order_seq_cst);
  hub_.doorbell.ring();
}

// ---- options

absl::Status check(const ShmOptions& options) {
  if (options.spin.count() < 0 || options.socket_check_interval.count() <= 0) {
    return absl::InvalidArgumentError(
        "shm: spin must not be negative, socket_check_interval must be positive");
  }
  if (!std::has_single_bit(options.event_capacity) || options.event_capacity > 1U << 20U) {
    return absl::InvalidArgumentError(fmt::format(
        "shm: event_capacity is {}, but must be a power of two and at most 2^20", options.event_capacity));
  }
  if (options.message_capacity == 0 || options.message_capacity > options.event_capacity) {
    return absl::InvalidArgumentError(fmt::format(
        "shm: message_capacity is {}, but must be from 1 to event_capacity", options.message_capacity));
  }
  if (options.max_message_bytes == 0 || options.max_message_bytes > 1U << 20U) {
    return absl::InvalidArgumentError(fmt::format(
        "shm: max_message_bytes is {}, but must be from 1 to 1048576", options.max_message_bytes));
  }
  if (options.completion_capacity == 0) {
    return absl::InvalidArgumentError("shm: completion_capacity must be positive");
  }
  return absl::OkStatus();
}

}  // namespace

}  // namespace shm

absl::StatusOr<std::unique_ptr<Transport>> make_shm_transport(const ShmOptions& options) {
  if (absl::Status status = shm::check(options); !status.ok()) return status;
  auto sockets = shm::SocketWatch::create();
  if (!sockets.ok()) return sockets.status();
  auto doorbell = shm::Doorbell::create();
  if (!doorbell.ok()) return doorbell.status();
  auto regions = shm::Regions::create(options.check_free_memory);
  if (!regions.ok()) return regions.status();
  return std::make_unique<shm::ShmTransport>(
      options,
      shm::Hub{.sockets = std::move(*sockets),
               .doorbell = std::move(*doorbell),
               .regions = std::move(*regions),
               .geometry = {options.event_capacity, options.message_capacity, options.max_message_bytes},
               .completion_capacity = options.completion_capacity});
}

}  // namespace verbena::transport
