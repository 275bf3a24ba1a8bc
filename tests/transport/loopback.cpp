#include "tests/transport/loopback.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/inside.hpp"
#include "transport/shm/transfer.hpp"

namespace verbena::transport {
namespace {

constexpr std::size_t kMostRegionBytes = std::size_t{1} << 40;
constexpr std::size_t kMessageBytes = 4096;
constexpr std::size_t kMostPending = 1024;  // of a connection: events that its owner has not polled

/// The lock of all that threads share.
std::mutex& everything() {
  static std::mutex mutex;
  return mutex;
}

struct LoopbackRegion final : MemoryRegion {
  LoopbackRegion(std::shared_ptr<std::byte> owned, std::size_t bytes, Access right)
      : MemoryRegion({owned.get(), bytes}, right), memory(std::move(owned)) {}
  std::shared_ptr<std::byte> memory;
};

struct Grant {
  std::weak_ptr<std::byte> memory;  // expired once the region is destroyed
  std::span<std::byte> bytes;
  Access access = Access::kLocal;
};

/// The events that a transport has to poll, and what wakes it.
struct Mailbox {
  struct Pending {
    Event event;
    std::string message;
  };
  explicit Mailbox(int file) : wake_up(file) {}
  ~Mailbox() { ::close(wake_up); }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void wake() const {
    const int saved_errno = errno;  // a signal handler may call interrupt()
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t bytes = ::write(wake_up, &one, sizeof one);
    errno = saved_errno;
  }
  const int wake_up;  // an eventfd
  std::deque<Pending> pending;
};

struct LoopbackConnection final : Connection {
  explicit LoopbackConnection(Mailbox& box) : mailbox(box) {}
  ~LoopbackConnection() override {
    const std::lock_guard lock(everything());
    std::erase_if(mailbox.pending, [&](const auto& each) { return each.event.connection == this; });
    if (peer == nullptr) return;
    peer->fail("the peer has closed the connection");
    peer->peer = nullptr;
  }

  absl::StatusOr<RemoteDescriptor> grant(const MemoryRegion& region) override {
    const std::lock_guard lock(everything());
    if (has_failed()) return shown;
    if (region.access() == Access::kLocal) return absl::InvalidArgumentError("a local region is no peer's");
    std::erase_if(grants, [](const auto& each) { return each.second.memory.expired(); });
    grants[++keys] = {static_cast<const LoopbackRegion&>(region).memory, region.bytes(), region.access()};
    return RemoteDescriptor{reinterpret_cast<std::uintptr_t>(region.bytes().data()), region.bytes().size(),
                            keys};
  }

  std::size_t do_post(std::span<const WorkRequest> requests) override {
    const std::lock_guard lock(everything());
    std::size_t taken = 0;
    while (taken < requests.size() && !has_failed()) {
      refused = waiting >= kMostPending || peer->waiting >= kMostPending;
      if (refused) break;
      const WorkRequest& request = requests[taken++];
      const OperationResult result = carry_out(request);
      const bool is_done = result == OperationResult::kOk;
      if (request.signaled || !is_done)
        raise({.kind = Event::Kind::kCompletion, .result = result, .id = request.id});
      if (is_done) continue;
      fail(fmt::format("a request has failed: {}", to_string(result)));
      peer->fail("a request of the peer's has failed");
    }
    return taken;
  }

  const std::byte* mapped(const RemoteDescriptor& /*remote*/) override { return nullptr; }
  [[nodiscard]] const absl::Status& status() const override { return shown; }

  // ---- all that follows: under the lock

  OperationResult carry_out(const WorkRequest& request) {
    const std::span<std::byte> local = request.local;
    if (request.opcode == Opcode::kSend) {
      if (local.size() > kMessageBytes) return OperationResult::kDeviceError;
      peer->raise({.kind = Event::Kind::kMessage},
                  std::string(reinterpret_cast<const char*>(local.data()), local.size()));
      return OperationResult::kOk;
    }
    const bool reads = request.opcode == Opcode::kRead;
    const auto granted = peer->grants.find(request.remote.key);
    auto* const there = reinterpret_cast<std::byte*>(request.remote.address);
    // Held until the bytes are copied: another thread may destroy the region.
    std::shared_ptr<std::byte> held;
    if (granted != peer->grants.end()) held = granted->second.memory.lock();
    if (held == nullptr ||
        !allows(granted->second.access, reads ? Access::kRemoteRead : Access::kRemoteWrite) ||
        !is_inside({there, local.size()}, granted->second.bytes) ||
        !is_inside(local, request.region->bytes())) {
      return OperationResult::kAccessDenied;
    }
    shm::transfer(reads ? local.data() : there, reads ? there : local.data(), local.size());
    if (request.opcode == Opcode::kWriteNotify)
      peer->raise({.kind = Event::Kind::kNotification, .notification = request.notification});
    return OperationResult::kOk;
  }
  void raise(Event event, std::string message = {}) {
    event.connection = this;
    ++waiting;
    mailbox.pending.push_back({event, std::move(message)});
    mailbox.wake();
  }
  void fail(std::string_view why) {
    if (!reason.empty()) return;
    reason = why;
    raise({.kind = Event::Kind::kDisconnected});
  }
  /// Called by its owner's thread, the one that looks at status().
  bool has_failed() {
    if (!reason.empty() && shown.ok())
      shown = absl::UnavailableError(fmt::format("{}: {}", peer_name(), reason));
    return !reason.empty();
  }

  static inline std::uint64_t keys = 0;
  Mailbox& mailbox;
  LoopbackConnection* peer = nullptr;
  std::map<std::uint64_t, Grant> grants;  // to the peer, by key
  std::size_t waiting = 0;                // this connection's events in the mailbox
  bool refused = false;                   // post() has taken fewer requests than there were
  std::string reason;                     // why the connection has failed; empty: it has not
  absl::Status shown;
};

struct LoopbackTransport final : Transport {
  LoopbackTransport(int wake_up, std::shared_ptr<const Secret> own)
      : mailbox(wake_up), secret(std::move(own)) {}
  ~LoopbackTransport() override {
    const std::lock_guard lock(everything());
    std::erase_if(listeners, [&](const auto& listener) { return listener.second == this; });
  }

  absl::StatusOr<std::unique_ptr<MemoryRegion>> allocate_region(std::size_t bytes, Access access) override {
    const std::size_t size = std::max<std::size_t>(bytes, 1);
    void* const place = size > kMostRegionBytes ? MAP_FAILED
                                                : ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) return absl::ResourceExhaustedError(fmt::format("no memory of {} bytes", bytes));
    std::shared_ptr<std::byte> memory(static_cast<std::byte*>(place),
                                      [=](void* old) { ::munmap(old, size); });
    return std::make_unique<LoopbackRegion>(std::move(memory), bytes, access);
  }

  absl::Status listen(const std::string& address) override {
    RETURN_IF_ERROR(check(address));
    const std::lock_guard lock(everything());
    if (!listeners.emplace(address, this).second)
      return absl::AlreadyExistsError(fmt::format("{}: someone else listens there", address));
    own_address = address;
    has_listener.notify_all();
    return absl::OkStatus();
  }
  [[nodiscard]] std::string listening_address() const override { return own_address; }

  absl::StatusOr<std::unique_ptr<Connection>> connect(const std::string& address,
                                                      TimePoint deadline) override {
    RETURN_IF_ERROR(check(address));
    std::unique_lock lock(everything());
    if (!has_listener.wait_until(lock, deadline, [&] { return listeners.contains(address); }))
      return absl::DeadlineExceededError(fmt::format("{}: nobody listens there", address));
    LoopbackTransport& listener = *listeners.find(address)->second;
    const auto text_of = [](const auto& some) { return some == nullptr ? std::string() : some->to_hex(); };
    if (text_of(secret) != text_of(listener.secret))
      return absl::PermissionDeniedError(fmt::format("{}: who listens there has another secret", address));
    auto mine = std::make_unique<LoopbackConnection>(mailbox);
    auto theirs = std::make_unique<LoopbackConnection>(listener.mailbox);
    mine->peer = theirs.get();
    theirs->peer = mine.get();
    theirs->raise({.kind = Event::Kind::kAccepted});
    listener.accepted.push_back(std::move(theirs));
    return mine;
  }
  std::unique_ptr<Connection> take_accepted() override {
    const std::lock_guard lock(everything());
    if (announced == 0) return nullptr;
    --announced;
    std::unique_ptr<Connection> first = std::move(accepted.front());
    accepted.pop_front();
    return first;
  }

  std::size_t poll(std::span<Event> events) override {
    const std::lock_guard lock(everything());
    messages.assign(events.size(), {});
    std::size_t count = 0;
    for (; count < events.size() && !mailbox.pending.empty(); ++count) {
      Event& event = events[count];
      event = mailbox.pending.front().event;
      messages[count] = std::move(mailbox.pending.front().message);
      event.message = std::as_bytes(std::span(messages[count]));
      mailbox.pending.pop_front();
      auto& connection = static_cast<LoopbackConnection&>(*event.connection);
      --connection.waiting;
      if (event.kind == Event::Kind::kAccepted) ++announced;
      if (event.kind == Event::Kind::kDisconnected) connection.has_failed();
      LoopbackConnection* const peer = connection.peer;
      if (peer != nullptr && std::exchange(peer->refused, false)) peer->mailbox.wake();
    }
    return count;
  }
  void wait(TimePoint deadline) override {
    const TimePoint start = now();
    if (deadline <= start || has_events()) return;
    const auto time = std::chrono::ceil<std::chrono::duration<int, std::milli>>(
        std::min<Duration>(deadline - start, std::chrono::hours(1)));
    pollfd file{.fd = mailbox.wake_up, .events = POLLIN, .revents = 0};
    if (::poll(&file, 1, time.count()) <= 0) return;
    std::uint64_t calls = 0;
    [[maybe_unused]] const ssize_t bytes = ::read(mailbox.wake_up, &calls, sizeof calls);
  }
  void interrupt() override { mailbox.wake(); }
  [[nodiscard]] TimePoint now() const override { return std::chrono::steady_clock::now(); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return kMessageBytes; }
  [[nodiscard]] std::string_view name() const override { return "loopback"; }

  bool has_events() const {
    const std::lock_guard lock(everything());
    return !mailbox.pending.empty();
  }
  static absl::Status check(std::string_view address) {
    if (address.starts_with("loopback:") && !place_of(address).empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(fmt::format("address \"{}\": expected loopback:NAME", address));
  }
  static inline std::map<std::string, LoopbackTransport*> listeners;
  static inline std::condition_variable has_listener;
  Mailbox mailbox;
  const std::shared_ptr<const Secret> secret;
  std::string own_address;
  std::deque<std::unique_ptr<LoopbackConnection>> accepted;  // not taken yet
  std::size_t announced = 0;                                 // how many of them poll() has announced
  std::vector<std::string> messages;                         // that the events of the last poll() point to
};

}  // namespace

Backend loopback_backend() {
  return {.scheme = "loopback",
          .summary = "this process",
          .reach = Reach::kHost,
          .make = [](const BackendOptions& options) -> absl::StatusOr<std::unique_ptr<Transport>> {
            const int wake_up = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
            if (wake_up < 0) return absl::ResourceExhaustedError("no event file can be made (eventfd)");
            return std::make_unique<LoopbackTransport>(wake_up, options.secret);
          }};
}

}  // namespace verbena::transport
