#include "transport/shm/shm_transport.hpp"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <ctime>
#include <deque>
#include <iterator>
#include <list>
#include <string_view>
#include <thread>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/backends.hpp"
#include "transport/refusals.hpp"
#include "transport/shm/shm_connection.hpp"
#include "transport/spin_budget.hpp"

namespace verbena::transport {

namespace shm {

namespace {

constexpr auto kHelloPatience = std::chrono::seconds(10);  // with a peer that has not proved itself
constexpr auto kMeetingCheckInterval = std::chrono::milliseconds(1);
constexpr auto kMeetingHurry =
    std::chrono::milliseconds(50);            // the next step of an introduction is awaited so long
constexpr std::size_t kMostStrangers = 1024;  // of the same user; of other users there are none
constexpr std::size_t kAcceptedAtOnce = 256;  // in one look at the sockets
constexpr auto kQueuePatience =
    std::chrono::milliseconds(100);  // for a place in the listener's queue, in one attempt
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

// Exact to some milliseconds, for a fraction of the cost of a precise clock.
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

class ShmTransport final : public Transport {
 public:
  ShmTransport(const ShmOptions& options, Hub hub)
      : options_(options),
        hub_(std::move(hub)),
        spin_(options.spin),
        message_space_(std::max<std::size_t>(kMessageSpaceBytes, options.max_message_bytes)) {}

  absl::StatusOr<std::unique_ptr<MemoryRegion>> allocate_region(std::size_t bytes, Access access) override {
    return hub_.regions->allocate(bytes, access);
  }
  absl::Status listen(const std::string& address) override;
  [[nodiscard]] std::string listening_address() const override { return listening_address_; }
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
  /// A process that has connected and has not sent its hello yet. It is in one of three lists: those that
  /// have sent nothing, those that were challenged, and those that are done. The last are destroyed when no
  /// pending socket event refers to them any more.
  struct Stranger final : SocketUser {
    enum class Stage : std::uint8_t { kSilent, kChallenged, kProven, kDone };
    Stranger(ShmTransport& owner, ControlSocket incoming, const Peer& who)
        : transport(owner),
          socket(std::move(incoming)),
          peer(who),
          deadline(transport.now() + kHelloPatience) {}
    void on_readable() override { transport.hear(*this); }
    ShmTransport& transport;
    ControlSocket socket;
    Peer peer;
    TimePoint deadline;
    Stage stage = Stage::kSilent;
    Nonce theirs{};
    Nonce ours{};
    std::list<Stranger>::iterator place;
  };

  absl::StatusOr<std::unique_ptr<ShmConnection>> introduce(ControlSocket socket);
  void accept(const ControlSocket& listening);
  void take_in(ControlSocket socket, const Peer& peer);
  void hear(Stranger& stranger);
  absl::Status take_word(Stranger& stranger, ControlSocket::Received& word);
  absl::Status challenge(Stranger& stranger, const ControlMessage& greeting);
  absl::StatusOr<std::unique_ptr<ShmConnection>> admit(Stranger& stranger, ControlSocket::Received& hello);
  void part_from(Stranger& stranger);
  void refuse(Stranger& stranger, std::string_view why);
  bool refuse_one_of_many(std::string_view why);
  void refuse_late();

  static std::size_t most_strangers();
  void check_sockets();
  [[nodiscard]] Duration socket_check_interval(TimePoint time) const;
  bool ready();
  bool spin_until_ready(TimePoint end);
  void wait_for_work(TimePoint deadline);

  const ShmOptions options_;
  Hub hub_;
  SpinBudget spin_;
  std::list<Listener> listeners_;
  std::string listening_address_;
  std::list<Stranger> silent_;
  std::list<Stranger> challenged_;
  std::list<Stranger> done_;
  std::size_t most_strangers_ = most_strangers();
  bool more_wait_ = false;  ///< connectors that wait to be accepted
  Refusals refusals_;
  std::uint64_t meetings_seen_ = 0;
  TimePoint hurry_until_ = TimePoint::min();
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
  if (!status.ok()) {
    listeners_.pop_back();
    return status;
  }
  listening_address_ = address;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Connection>> ShmTransport::connect(const std::string& address,
                                                                  TimePoint deadline) {
  Duration pause = kConnectPause;
  while (true) {
    const auto rest = std::chrono::ceil<std::chrono::microseconds>(deadline - now());
    auto socket = ControlSocket::connect(
        address, std::clamp<std::chrono::microseconds>(rest, std::chrono::microseconds(1), kQueuePatience));
    if (!socket.ok()) return socket.status();
    if (socket->has_value()) {
      auto connection = introduce(std::move(**socket));
      absl::Status status = connection.status();
      if (status.ok()) {
        (*connection)->wait_for_challenge(std::min<TimePoint>(deadline, now() + options_.answer_patience));
        status = (*connection)->status();
      }
      if (status.ok()) {
        (*connection)->start();
        return *std::move(connection);
      }
      // A listener that hung up has too many connectors, or is about to end: try again.
      if (!connection.ok() || !(*connection)->was_turned_away()) {
        return absl::Status(status.code(), fmt::format("{}: {}", address, std::string(status.message())));
      }
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

// The kernel has connected the sockets; the listener may not have noticed yet. What is posted before that
// waits in the channel, which belongs to this process alone until the listener has proved itself.
absl::StatusOr<std::unique_ptr<ShmConnection>> ShmTransport::introduce(ControlSocket socket) {
  auto peer = socket.peer();
  if (!peer.ok()) return peer.status();
  RETURN_IF_ERROR(check_uid(*peer));
  const std::size_t bytes = ShmConnection::channels_bytes(hub_.geometry);
  auto file = create_memory("verbena-channel", bytes);
  if (!file.ok()) return file.status();
  auto channels = map_memory(*file, bytes, Protection::kReadWrite);
  if (!channels.ok()) return channels.status();
  return ShmConnection::greet(hub_, std::move(socket), *peer, std::move(*file), std::move(*channels));
}

// Accepts until no connector waits, so that processes that will be refused take no places in the queue; but
// only a bounded number.
void ShmTransport::accept(const ControlSocket& listening) {
  for (std::size_t i = 0; i < kAcceptedAtOnce; ++i) {
    absl::StatusOr<ControlSocket> socket = listening.accept();
    if (absl::IsResourceExhausted(socket.status()) && refuse_one_of_many("there are too many open files"))
      continue;
    if (!socket.ok()) {
      if (absl::IsResourceExhausted(socket.status()))
        refusals_.note(now(), std::string(socket.status().message()));
      return;
    }
    const auto peer = socket->peer();
    const absl::Status known = peer.ok() ? check_uid(*peer) : peer.status();
    if (known.ok()) {
      take_in(*std::move(socket), *peer);
    } else {
      refusals_.note(now(),
                     std::string(known.message()));  // the peer only sees that it is closed
    }
  }
  more_wait_ = true;
}

void ShmTransport::take_in(ControlSocket socket, const Peer& peer) {
  if (silent_.size() + challenged_.size() >= most_strangers_)
    refuse_one_of_many("there are too many at a time");
  Stranger& stranger = silent_.emplace_back(*this, std::move(socket), peer);
  stranger.place = std::prev(silent_.end());
  if (absl::Status status = hub_.sockets.add(stranger.socket.fd(), stranger); !status.ok()) {
    return refuse(stranger, std::string(status.message()));
  }
  hear(stranger);  // usually its greeting has arrived already
}

void ShmTransport::hear(Stranger& stranger) {
  while (stranger.stage != Stranger::Stage::kDone) {
    ControlSocket::End end = ControlSocket::End::kOpen;
    std::optional<ControlSocket::Received> word = stranger.socket.receive(
        end, stranger.stage == Stranger::Stage::kProven ? ControlSocket::TakesFiles::kYes
                                                        : ControlSocket::TakesFiles::kNo);
    if (!word && end == ControlSocket::End::kOpen) return;
    if (!word) {
      return refuse(stranger, end == ControlSocket::End::kNonsense
                                  ? "it said what no peer of this version says"
                                  : "it went before it had proved itself");
    }
    if (absl::Status status = take_word(stranger, *word); !status.ok()) {
      return refuse(stranger, std::string(status.message()));
    }
  }
}

absl::Status ShmTransport::take_word(Stranger& stranger, ControlSocket::Received& word) {
  using Stage = Stranger::Stage;
  ++hub_.meetings;
  if (stranger.stage == Stage::kSilent && word.message.kind == ControlKind::kGreeting) {
    return challenge(stranger, word.message);
  }
  if (stranger.stage == Stage::kChallenged && word.message.kind == ControlKind::kProof) {
    if (!is_proof(word.message.proof, hub_.secret.get(), kConnectorRole, {stranger.theirs, stranger.ours})) {
      return absl::PermissionDeniedError("it does not have the secret of this job");
    }
    stranger.stage = Stage::kProven;
    return absl::OkStatus();
  }
  if (stranger.stage != Stage::kProven || word.message.kind != ControlKind::kHello) {
    return absl::DataLossError("it spoke out of turn");
  }
  auto connection = admit(stranger, word);
  if (!connection.ok()) return connection.status();
  accepted_.push_back(*std::move(connection));
  part_from(stranger);
  return absl::OkStatus();
}

absl::Status ShmTransport::challenge(Stranger& stranger, const ControlMessage& greeting) {
  auto nonce = fresh_nonce();
  if (!nonce.ok()) return nonce.status();
  stranger.theirs = greeting.nonce;
  stranger.ours = *nonce;
  const ControlMessage challenge = {
      .kind = ControlKind::kChallenge,
      .has_secret = hub_.secret == nullptr ? 0U : 1U,
      .nonce = *nonce,
      .proof = prove(hub_.secret.get(), kAcceptorRole, {stranger.theirs, stranger.ours})};
  RETURN_IF_ERROR(stranger.socket.send(challenge, {-1, -1, -1}));
  stranger.stage = Stranger::Stage::kChallenged;
  challenged_.splice(challenged_.end(), silent_, stranger.place);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ShmConnection>> ShmTransport::admit(Stranger& stranger,
                                                                   ControlSocket::Received& hello) {
  if (hello.message.geometry != hub_.geometry) {
    const ControlMessage refusal = {.kind = ControlKind::kRefused, .geometry = hub_.geometry};
    absl::Status status = stranger.socket.send(refusal, {-1, -1, -1});
    return status.ok() ? absl::FailedPreconditionError("its options differ") : status;
  }
  const std::size_t bytes = ShmConnection::channels_bytes(hub_.geometry);
  RETURN_IF_ERROR(check_received(hello.files[0], bytes));
  auto channels = map_memory(hello.files[0], bytes, Protection::kReadWrite);
  if (!channels.ok()) return channels.status();
  auto doorbell = Doorbell::open(hello.files[1]);
  if (!doorbell.ok()) return doorbell.status();
  auto regions = RegionTable::open(hello.files[2]);
  if (!regions.ok()) return regions.status();
  const ControlMessage welcome = {.kind = ControlKind::kWelcome, .geometry = hub_.geometry};
  const std::array<int, 3> files = {hub_.doorbell.file().get(), hub_.regions->table().file().get(), -1};
  RETURN_IF_ERROR(stranger.socket.send(welcome, files));
  hub_.sockets.remove(stranger.socket.fd());
  return ShmConnection::admit(hub_, std::move(stranger.socket), stranger.peer, std::move(*channels),
                              std::move(*doorbell), std::move(*regions));
}

// ---- strangers

std::size_t ShmTransport::most_strangers() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return kMostStrangers;
  return std::clamp<std::size_t>(files.rlim_cur / 4, 16, kMostStrangers);
}

void ShmTransport::part_from(Stranger& stranger) {
  if (stranger.socket.fd() >= 0) hub_.sockets.remove(stranger.socket.fd());
  stranger.socket = ControlSocket();
  std::list<Stranger>& from = stranger.stage == Stranger::Stage::kSilent ? silent_ : challenged_;
  done_.splice(done_.end(), from, stranger.place);
  stranger.stage = Stranger::Stage::kDone;
}

void ShmTransport::refuse(Stranger& stranger, std::string_view why) {
  refusals_.note(now(), fmt::format("process {}: {}", stranger.peer.pid, why));
  part_from(stranger);
}

/// Refuses the stranger that came first among those that have sent nothing; if there are none, among those
/// that were challenged. False if there are no strangers.
bool ShmTransport::refuse_one_of_many(std::string_view why) {
  std::list<Stranger>& from = silent_.empty() ? challenged_ : silent_;
  if (from.empty()) return false;
  refuse(from.front(), why);
  return true;
}

void ShmTransport::refuse_late() {
  const TimePoint time = now();
  for (std::list<Stranger>* list : {&silent_, &challenged_}) {
    while (!list->empty() && list->front().deadline <= time)
      refuse(list->front(), fmt::format("it has not proved itself within {} s", kHelloPatience.count()));
  }
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
  more_wait_ = false;
  hub_.sockets.check();
  if (!silent_.empty() || !challenged_.empty()) refuse_late();
  done_.clear();
  const TimePoint time = coarse_now();
  if (std::exchange(meetings_seen_, hub_.meetings) != hub_.meetings) hurry_until_ = time + kMeetingHurry;
  next_socket_check_ = time + (more_wait_ ? Duration::zero() : socket_check_interval(time));
}

/// Shorter during an introduction: it takes a few messages in both directions.
Duration ShmTransport::socket_check_interval(TimePoint time) const {
  return time < hurry_until_ ? std::min<Duration>(kMeetingCheckInterval, options_.socket_check_interval)
                             : options_.socket_check_interval;
}

std::size_t ShmTransport::poll(std::span<Event> events) {
  if (coarse_now() >= next_socket_check_) check_sockets();
  std::size_t count = 0;
  for (; count < events.size() && announced_ < accepted_.size(); ++count) {
    events[count] = {.kind = Event::Kind::kAccepted, .connection = accepted_[announced_++].get()};
  }
  const std::size_t connections = hub_.connections.size();
  std::span<std::byte> space = message_space_;
  std::size_t next = first_polled_++;
  for (std::size_t i = 0; i < connections && count < events.size(); ++i, ++next) {
    if (next >= connections) next = 0;
    count += hub_.connections[next]->poll(events.subspan(count), space);
  }
  if (first_polled_ >= connections) first_polled_ = 0;
  return count;
}

bool ShmTransport::ready() {
  // seq_cst, because it is read between announcing sleep and sleeping (doorbell.hpp).
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
  // If more processes than processors are at work, this lets the others run first: what they send in the
  // meantime arrives together and rings no doorbell. If no other process wants the processor, the cost is one
  // more look. If a process outside the job computes on it all the time, an answer may be late by that
  // process's time slice.
  ::sched_yield();
  if (ready()) return;
  for (TimePoint time = now(); time < deadline; time = now()) {  // compared first: a difference may overflow
    hub_.doorbell.announce_sleep();
    if (ready()) {
      hub_.doorbell.cancel_sleep();
      return;
    }
    const bool rung = hub_.doorbell.sleep(
        std::min<Duration>(deadline - time, more_wait_ ? Duration::zero() : socket_check_interval(time)));
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
  if (options.spin.count() < 0 || options.answer_patience.count() < 0 ||
      options.socket_check_interval.count() <= 0) {
    return absl::InvalidArgumentError(
        "shm: spin and answer_patience must not be negative, socket_check_interval must be positive");
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
  RETURN_IF_ERROR(shm::check(options));
  auto sockets = shm::SocketWatch::create();
  if (!sockets.ok()) return sockets.status();
  auto doorbell = shm::Doorbell::create();
  if (!doorbell.ok()) return doorbell.status();
  auto regions = shm::Regions::create(options.check_free_memory);
  if (!regions.ok()) return regions.status();
  return std::make_unique<shm::ShmTransport>(
      options,
      shm::Hub{.secret = options.secret,
               .sockets = std::move(*sockets),
               .doorbell = std::move(*doorbell),
               .regions = std::move(*regions),
               .geometry = {options.event_capacity, options.message_capacity, options.max_message_bytes},
               .completion_capacity = options.completion_capacity});
}

namespace shm {

Backend backend() {
  return {.scheme = "shm",
          .summary = "this host's shared memory",
          .reach = Reach::kHost,
          .maps_own_host = true,
          .make =
              [](const BackendOptions& options) {
                ShmOptions mine{.secret = options.secret};
                if (options.shares_cores) mine.spin = {};
                mine.answer_patience = options.answer_patience.value_or(mine.answer_patience);
                return make_shm_transport(mine);
              },
          .listening = listening_addresses};
}

}  // namespace shm

}  // namespace verbena::transport
