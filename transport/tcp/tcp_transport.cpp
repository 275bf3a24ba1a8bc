#include "transport/tcp/tcp_transport.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <deque>
#include <new>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/backends.hpp"
#include "transport/host_port.hpp"
#include "transport/socket_address.hpp"
#include "transport/spin_budget.hpp"
#include "transport/tcp/approach.hpp"
#include "transport/tcp/doorman.hpp"
#include "transport/tcp/frame_reader.hpp"
#include "transport/tcp/hub.hpp"
#include "transport/tcp/io_thread.hpp"
#include "transport/tcp/region.hpp"
#include "transport/tcp/socket.hpp"
#include "transport/tcp/tcp_connection.hpp"

namespace verbena::transport {

namespace tcp {

namespace {

constexpr std::string_view kPrefix = "tcp:";
constexpr const char* kThisHostOnly = "127.0.0.1";
/// Fits into a processor's own cache: what was received is copied to its place from there.
constexpr std::size_t kBufferBytes = std::size_t{256} << 10;
/// So few connections are tried one by one, without asking first which of them have something.
constexpr std::size_t kFewConnections = 4;
/// Then the others, such as listeners, are looked at every so many turns.
constexpr unsigned kTurnsBetweenLooks = 16;
/// connect() waits so long for further streams. They can come later.
constexpr auto kWaitForStreams = std::chrono::seconds(1);
constexpr int kOpeningCheckMs = 2;

// Exact to some milliseconds, for a fraction of the cost of a precise clock.
TimePoint coarse_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return TimePoint(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

absl::StatusOr<HostPort> parse_address(const std::string& text) {
  if (text.starts_with(kPrefix)) {
    absl::StatusOr<HostPort> place = parse_host_port(std::string_view(text).substr(kPrefix.size()));
    if (place.ok()) {
      if (place->host.empty()) place->host = kThisHostOnly;
      return place;
    }
  }
  return absl::InvalidArgumentError(
      fmt::format("\"{}\" is no address of this transport; expected tcp:HOST:PORT", text));
}

/// Memory that begins at a cache line.
class Buffer {
 public:
  Buffer()
      : bytes_(static_cast<std::byte*>(
            ::operator new (kBufferBytes, std::align_val_t{FrameReader::kBufferAlignment}))) {}
  ~Buffer() { ::operator delete (bytes_, std::align_val_t{FrameReader::kBufferAlignment}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const { return {bytes_, kBufferBytes}; }

 private:
  std::byte* bytes_;
};

class TcpTransport final : public Transport, private Doorman::House {
 public:
  TcpTransport(const TcpOptions& options, std::unique_ptr<const TlsContext> tls, Sockets sockets,
               base::FileDescriptor wake_up)
      : options_(options),
        tls_(std::move(tls)),
        spin_(options.spin),
        wake_up_(std::move(wake_up)),
        hub_{
            .options = options_, .tls = tls_.get(), .sockets = std::move(sockets), .buffer = buffer_.bytes()},
        doorman_(options_, tls_.get(), hub_.sockets, *this) {}
  ~TcpTransport() override;

  absl::StatusOr<std::unique_ptr<MemoryRegion>> allocate_region(std::size_t bytes, Access access) override {
    return TcpRegion::allocate(hub_, bytes, access);
  }
  absl::Status listen(const std::string& address) override;
  [[nodiscard]] std::string listening_address() const override { return listening_address_; }
  absl::StatusOr<std::unique_ptr<Connection>> connect(const std::string& address,
                                                      TimePoint deadline) override;
  std::unique_ptr<Connection> take_accepted() override;
  [[nodiscard]] std::size_t poll(std::span<Event> events) override;
  void wait(TimePoint deadline) override;
  void interrupt() override;

  [[nodiscard]] TimePoint now() const override { return clock_now(); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return options_.max_message_bytes; }
  [[nodiscard]] std::string_view name() const override { return "tcp"; }
  [[nodiscard]] bool connections_may_break() const override { return true; }

 private:
  enum class Look : std::uint8_t { kQuick, kThorough };
  /// kWork: something was done for a peer, and nothing is for the owner.
  enum class Found : std::uint8_t { kNothing, kWork, kNews };

  absl::Status start_io_thread();
  [[nodiscard]] Duration tick_interval() const;
  // With the lock held.
  void admit(Channel channel, Terms terms) override {
    accepted_.push_back(std::make_unique<TcpConnection>(hub_, std::move(channel), std::move(terms)));
  }
  [[nodiscard]] TcpConnection* find(const ConnectionId& id);
  absl::Status check_join(const ConnectionId& id) override;
  void join(const ConnectionId& id, Channel channel) override { find(id)->add_stream(std::move(channel)); }
  void look(Look how);
  void tick(TimePoint now);
  [[nodiscard]] bool has_news() const;
  // Without it.
  void work_in_the_owners_place();
  Found look_for_news(Look how);
  void sleep(TimePoint deadline);
  void open_streams(TcpConnection& connection, TimePoint deadline);

  const TcpOptions options_;
  const std::unique_ptr<const TlsContext> tls_;  ///< nullptr: nothing is encrypted
  SpinBudget spin_;
  const base::FileDescriptor wake_up_;
  const Buffer buffer_;
  Hub hub_;
  std::string listening_address_;
  unsigned turns_since_look_ = 0;
  TimePoint next_tick_;
  std::deque<std::unique_ptr<TcpConnection>> accepted_;  ///< not taken yet
  std::size_t announced_ = 0;                            ///< of accepted_
  Doorman doorman_;
  std::vector<std::vector<std::byte>> messages_;  ///< that the events of the last poll() point to
  std::atomic<bool> interrupted_ = false;
  static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler sets it
  std::unique_ptr<IoThread> io_thread_;                   ///< from the first listen() or connect() on
};

TcpTransport::~TcpTransport() {
  std::unique_ptr<IoThread> thread;
  {
    const std::lock_guard lock(hub_.mutex);  // it looks at its own place
    thread = std::move(io_thread_);
    doorman_.close();
  }
  thread.reset();
  accepted_.clear();
  // What was sent on the connections that are closed is on its way.
  while (true) {
    {
      const std::lock_guard lock(hub_.mutex);
      hub_.sockets.check();
      const TimePoint time = now();
      std::erase_if(hub_.leaving, [&](const Leaving& each) { return each.is_over(time); });
      if (hub_.leaving.empty()) return;
    }
    pollfd file = {.fd = hub_.sockets.fd(), .events = POLLIN, .revents = 0};
    ::poll(&file, 1, 5);
  }
}

Duration TcpTransport::tick_interval() const {
  return std::clamp<Duration>(options_.peer_timeout / 20, std::chrono::milliseconds(5),
                              std::chrono::milliseconds(200));
}

absl::Status TcpTransport::start_io_thread() {
  if (io_thread_ != nullptr) return absl::OkStatus();
  auto thread = IoThread::start(hub_.sockets.fd(), tick_interval(), [this] { work_in_the_owners_place(); });
  if (!thread.ok()) return thread.status();
  const std::lock_guard lock(hub_.mutex);  // the thread may run already, and look here
  io_thread_ = *std::move(thread);
  return absl::OkStatus();
}

// ---- meeting

absl::Status TcpTransport::listen(const std::string& address) {
  auto parsed = parse_address(address);
  if (!parsed.ok()) return parsed.status();
  const auto place = resolve(*parsed, address);
  if (!place.ok()) return place.status();
  auto socket = listen_at(*place, address);
  if (!socket.ok()) return socket.status();
  RETURN_IF_ERROR(start_io_thread());
  parsed->port = port_of(*socket);
  const std::lock_guard lock(hub_.mutex);
  RETURN_IF_ERROR(doorman_.add_listener(*std::move(socket)));
  listening_address_ = fmt::format("{}{}", kPrefix, to_string(*parsed));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Connection>> TcpTransport::connect(const std::string& address,
                                                                  TimePoint deadline) {
  const auto parsed = parse_address(address);
  if (!parsed.ok()) return parsed.status();
  const auto places = resolve_all(*parsed, address);
  if (!places.ok()) return places.status();
  RETURN_IF_ERROR(start_io_thread());
  auto met = meet_listener(address, *places, deadline, options_, tls_.get());
  if (!met.ok()) return met.status();
  Terms terms{.credits = met->listener.credits,
              .id = met->listener.nonce,
              .peer = fmt::format("process {} at {}", met->listener.process,
                                  host_of(reinterpret_cast<const sockaddr&>(met->place))),
              .most_streams = met->listener.most_streams,
              .listener = met->place};
  std::unique_ptr<TcpConnection> connection;
  {
    const std::lock_guard lock(hub_.mutex);
    connection = std::make_unique<TcpConnection>(hub_, std::move(met->channel), std::move(terms));
    connection->take();
  }
  if (options_.streams > 1) open_streams(*connection, deadline);
  return connection;
}

/// Opens those that were asked for by the options, and waits for them for a while.
void TcpTransport::open_streams(TcpConnection& connection, TimePoint deadline) {
  deadline = std::min<TimePoint>(deadline, now() + kWaitForStreams);
  for (bool begins = true; now() < deadline; begins = false) {
    {
      const std::lock_guard lock(hub_.mutex);
      if (begins) connection.open_streams();
      if (!connection.is_opening()) return;
      hub_.sockets.check();
      if (!connection.is_opening()) return;
    }
    pollfd file = {.fd = hub_.sockets.fd(), .events = POLLIN, .revents = 0};
    ::poll(&file, 1, kOpeningCheckMs);
  }
  const std::lock_guard lock(hub_.mutex);
  if (connection.is_opening()) connection.tell_who_is_late();
}

TcpConnection* TcpTransport::find(const ConnectionId& id) {
  const auto found = std::ranges::find(hub_.connections, id, &TcpConnection::id);
  return found == hub_.connections.end() ? nullptr : *found;
}

absl::Status TcpTransport::check_join(const ConnectionId& id) {
  const TcpConnection* const connection = find(id);
  if (connection == nullptr)
    return absl::NotFoundError("it asks for a stream of a connection that there is not");
  return connection->check_one_more_stream();
}

std::unique_ptr<Connection> TcpTransport::take_accepted() {
  const std::lock_guard lock(hub_.mutex);
  if (announced_ == 0) return nullptr;
  std::unique_ptr<TcpConnection> connection = std::move(accepted_.front());
  accepted_.pop_front();
  --announced_;
  connection->take();
  return connection;
}

// ---- work

void TcpTransport::look(Look how) {
  const bool few = hub_.connections.size() <= kFewConnections;
  if (few) {
    for (std::size_t i = 0; i < hub_.connections.size(); ++i) hub_.connections[i]->progress();
  }
  if (!few || how == Look::kThorough || ++turns_since_look_ >= kTurnsBetweenLooks) {
    turns_since_look_ = 0;
    hub_.sockets.check();
  }
  if (const TimePoint time = coarse_now(); time >= next_tick_) tick(time);
}

void TcpTransport::tick(TimePoint now) {
  next_tick_ = now + tick_interval();
  doorman_.tick(clock_now());
  for (TcpConnection* connection : hub_.connections) connection->tick();
  const TimePoint time = clock_now();
  std::erase_if(hub_.leaving, [&](const Leaving& each) { return each.is_over(time); });
}

bool TcpTransport::has_news() const {
  return !hub_.ready.empty() || announced_ < accepted_.size() || hub_.has_room_again;
}

void TcpTransport::work_in_the_owners_place() {
  const std::lock_guard lock(hub_.mutex);
  look(Look::kThorough);
  // The owner may have come to wait in the meantime, and sleep while this thread has taken what would have
  // woken it.
  if (io_thread_ != nullptr && io_thread_->is_owner_asleep() && has_news()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t bytes = ::write(wake_up_.get(), &one, sizeof one);
  }
}

std::size_t TcpTransport::poll(std::span<Event> events) {
  if (io_thread_ != nullptr) io_thread_->owner_is_here();
  const std::lock_guard lock(hub_.mutex);
  messages_.clear();
  if (hub_.ready.size() < events.size()) look(Look::kQuick);
  std::size_t count = 0;
  for (; count < events.size() && announced_ < accepted_.size(); ++count) {
    events[count] = {.kind = Event::Kind::kAccepted, .connection = accepted_[announced_++].get()};
  }
  for (; count < events.size() && !hub_.ready.empty(); ++count) {
    Hub::Pending pending = std::move(hub_.ready.front());
    hub_.ready.pop_front();
    events[count] = pending.event;
    if (pending.event.kind == Event::Kind::kMessage) {
      messages_.push_back(std::move(pending.message));
      events[count].message = messages_.back();
    }
    static_cast<TcpConnection*>(pending.event.connection)->on_polled(pending.event);
  }
  return count;
}

TcpTransport::Found TcpTransport::look_for_news(Look how) {
  const std::lock_guard lock(hub_.mutex);
  hub_.has_worked = false;
  if (!has_news()) look(how);
  if (has_news() || interrupted_.load(std::memory_order_seq_cst)) return Found::kNews;
  return hub_.has_worked ? Found::kWork : Found::kNothing;
}

void TcpTransport::sleep(TimePoint deadline) {
  const Duration left = std::max(std::min(deadline - now(), tick_interval()), Duration::zero());
  const timespec time = {.tv_sec = static_cast<time_t>(left.count() / 1'000'000'000),
                         .tv_nsec = static_cast<long>(left.count() % 1'000'000'000)};
  std::array<pollfd, 2> files = {pollfd{.fd = hub_.sockets.fd(), .events = POLLIN, .revents = 0},
                                 pollfd{.fd = wake_up_.get(), .events = POLLIN, .revents = 0}};
  ::ppoll(files.data(), files.size(), &time, nullptr);
  if ((files[1].revents & POLLIN) == 0) return;
  std::uint64_t rung = 0;
  [[maybe_unused]] const ssize_t bytes = ::read(wake_up_.get(), &rung, sizeof rung);
}

void TcpTransport::wait(TimePoint deadline) {
  if (io_thread_ != nullptr) io_thread_->owner_is_here();
  Found found = look_for_news(Look::kQuick);
  TimePoint idle_since = now();
  const auto note_work = [&] {
    const TimePoint time = now();
    spin_.learn(time - idle_since);
    idle_since = time;
  };
  while (found != Found::kNews) {
    // A peer that is answered within this time often asks again within it.
    while (found != Found::kNews && now() < std::min(idle_since + spin_.now(), deadline)) {
      found = look_for_news(Look::kQuick);
      if (found == Found::kWork) note_work();
    }
    if (found == Found::kNews || now() >= deadline) break;
    if (io_thread_ != nullptr) io_thread_->owner_sleeps();
    do {
      found = look_for_news(Look::kThorough);
      if (found == Found::kNothing) sleep(deadline);
    } while (found == Found::kNothing && now() < deadline);
    if (io_thread_ != nullptr) io_thread_->owner_wakes();
    if (found == Found::kWork) note_work();
  }
  note_work();
  interrupted_.store(false, std::memory_order_seq_cst);
  const std::lock_guard lock(hub_.mutex);
  hub_.has_room_again = false;
}

void TcpTransport::interrupt() {
  const int saved_errno = errno;  // a signal handler may interrupt
  interrupted_.store(true, std::memory_order_seq_cst);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t bytes = ::write(wake_up_.get(), &one, sizeof one);
  errno = saved_errno;
}

// ---- options

absl::Status check_options(const TcpOptions& options) {
  const auto refuse = [](std::string_view option, auto value, std::string_view expected) {
    return absl::InvalidArgumentError(fmt::format("tcp: {} is {}, but must be {}", option, value, expected));
  };
  if (options.send_depth < 16 || options.send_depth > 1U << 20U)
    return refuse("send_depth", options.send_depth, "from 16 to 1048576");
  if (options.receive_depth < 2 || options.receive_depth > 1U << 20U)
    return refuse("receive_depth", options.receive_depth, "from 2 to 1048576");
  if (options.max_message_bytes < 64 || options.max_message_bytes > 1U << 20U)
    return refuse("max_message_bytes", options.max_message_bytes, "from 64 to 1048576");
  if (options.spin.count() < 0 || options.linger.count() < 0)
    return absl::InvalidArgumentError("tcp: spin and linger must not be negative");
  if (options.streams > kMostStreams)
    return refuse("streams", options.streams, fmt::format("from 1 to {}, or 0", kMostStreams));
  if (options.long_bytes < 16 || options.long_bytes > 1U << 30U)
    return refuse("long_bytes", options.long_bytes, "from 16 to 1073741824");
  if (options.tls && options.secret == nullptr)
    return absl::InvalidArgumentError("tcp: tls needs a secret, from which its keys follow");
  if (options.peer_timeout.count() < 20)
    return absl::InvalidArgumentError("tcp: peer_timeout must be at least 20 ms");
  return absl::OkStatus();
}

TcpOptions tcp_options(const BackendOptions& options) {
  TcpOptions mine{.secret = options.secret, .tls = options.tls, .streams = options.streams};
  if (options.shares_cores) mine.spin = std::chrono::microseconds(0);
  mine.send_depth = std::max(mine.send_depth, options.send_depth);
  return mine;
}

}  // namespace

Backend backend() {
  return {.scheme = "tcp",
          .summary = "TCP between hosts, without a device",
          .reach = Reach::kHosts,
          .can_encrypt = true,
          .over_sockets = true,
          .make = [](const BackendOptions& options) { return make_tcp_transport(tcp_options(options)); },
          .own_host = own_address};
}

}  // namespace tcp

absl::StatusOr<std::unique_ptr<Transport>> make_tcp_transport(const TcpOptions& options) {
  RETURN_IF_ERROR(tcp::check_options(options));
  auto sockets = tcp::Sockets::create();
  if (!sockets.ok()) return sockets.status();
  base::FileDescriptor wake_up(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_up.valid()) return absl::ErrnoToStatus(errno, "no event file can be made (eventfd)");
  std::unique_ptr<const tcp::TlsContext> tls;
  if (options.tls) {
    absl::StatusOr<std::unique_ptr<tcp::TlsContext>> made = tcp::TlsContext::create();
    if (!made.ok()) return made.status();
    tls = *std::move(made);
  }
  return std::make_unique<tcp::TcpTransport>(options, std::move(tls), *std::move(sockets),
                                             std::move(wake_up));
}

}  // namespace verbena::transport
