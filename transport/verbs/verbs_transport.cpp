#include "transport/verbs/verbs_transport.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <ctime>
#include <deque>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/backends.hpp"
#include "transport/socket_address.hpp"
#include "transport/spin_budget.hpp"
#include "transport/verbs/address.hpp"
#include "transport/verbs/errors.hpp"
#include "transport/verbs/verbs_connection.hpp"
#include "transport/verbs/work_request_id.hpp"

namespace verbena::transport {

namespace verbs {

namespace {

constexpr int kBacklog = 1024;
constexpr int kManagerEventsAtOnce = 256;

// Exact to some milliseconds, for a fraction of the cost of a precise clock.
TimePoint coarse_now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return TimePoint(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

/// The connection manager's event channel.
class ManagerChannel {
 public:
  static absl::StatusOr<ManagerChannel> create(const VerbsApi& api) {
    rdma_event_channel* channel = api.create_event_channel();
    if (channel == nullptr) {
      const int error = errno;
      return absl::UnavailableError(fmt::format(
          "{}; is the kernel module rdma_ucm loaded (modprobe rdma_ucm) and /dev/infiniband/rdma_cm in this "
          "container?",
          errno_text(error, "the RDMA connection manager cannot be used")));
    }
    ManagerChannel owner(api, channel);
    const int flags = ::fcntl(channel->fd, F_GETFL);
    if (flags < 0 || ::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
      return errno_status(errno, "the RDMA connection manager's file cannot be made non-blocking");
    }
    return owner;
  }
  ~ManagerChannel() {
    if (channel_ != nullptr) api_.destroy_event_channel(channel_);
  }
  ManagerChannel(ManagerChannel&& other) noexcept
      : api_(other.api_), channel_(std::exchange(other.channel_, nullptr)) {}
  ManagerChannel& operator=(ManagerChannel&&) = delete;

  [[nodiscard]] rdma_event_channel* get() const { return channel_; }

  /// The oldest event. It is acknowledged; the private data of connection events is copied.
  [[nodiscard]] std::optional<std::pair<ManagerUser*, ManagerEvent>> next() const {
    rdma_cm_event* event = nullptr;
    if (api_.get_cm_event(channel_, &event) != 0) return std::nullopt;
    ManagerEvent copy{.type = event->event, .status = event->status, .id = event->id};
    const bool connects = copy.type == RDMA_CM_EVENT_CONNECT_REQUEST ||
                          copy.type == RDMA_CM_EVENT_CONNECT_RESPONSE ||
                          copy.type == RDMA_CM_EVENT_ESTABLISHED || copy.type == RDMA_CM_EVENT_REJECTED;
    if (connects) {
      const rdma_conn_param& param = event->param.conn;
      copy.responder_resources = param.responder_resources;
      copy.initiator_depth = param.initiator_depth;
      const auto* data = static_cast<const std::byte*>(param.private_data);
      if (data != nullptr) copy.private_data.assign(data, data + param.private_data_len);
    }
    const rdma_cm_id* addressee = copy.type == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id;
    auto* user = static_cast<ManagerUser*>(addressee->context);
    api_.ack_cm_event(event);
    return std::pair(user, std::move(copy));
  }

 private:
  ManagerChannel(const VerbsApi& api, rdma_event_channel* channel) : api_(api), channel_(channel) {}

  const VerbsApi& api_;
  rdma_event_channel* channel_;
};

class VerbsTransport final : public Transport {
 public:
  VerbsTransport(const VerbsOptions& options, std::unique_ptr<Device> device, ManagerChannel channel,
                 base::FileDescriptor wake_up);
  ~VerbsTransport() override;

  absl::StatusOr<std::unique_ptr<MemoryRegion>> allocate_region(std::size_t bytes, Access access) override;
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
  [[nodiscard]] std::string_view name() const override { return "verbs"; }
  [[nodiscard]] bool connections_may_break() const override { return true; }

 private:
  struct Listener final : ManagerUser {
    explicit Listener(VerbsTransport& owner) : transport(owner) {}
    void on_manager_event(const ManagerEvent& event) override { transport.accept(event); }
    VerbsTransport& transport;
    rdma_cm_id* id = nullptr;
  };

  absl::Status listen(Listener& listener, const Address& address, const std::string& text);
  void accept(const ManagerEvent& event);

  void check_manager();
  void check_device();
  void look_around();
  void attend();
  void finish_failed();
  bool progress(std::uint64_t activity_before);
  void sleep(TimePoint deadline);
  [[nodiscard]] std::vector<VerbsConnection*> connections() const;
  [[nodiscard]] Duration tick_interval() const;

  const VerbsOptions options_;
  SpinBudget spin_;
  std::unique_ptr<Device> device_;
  ManagerChannel channel_;
  base::FileDescriptor wake_up_;
  Windows windows_;
  CompletionQueues queues_;
  Gatekeeper gatekeeper_;
  Neighbours neighbours_;
  Hub hub_;
  std::deque<Listener> listeners_;
  std::string listening_address_;
  std::deque<std::unique_ptr<VerbsConnection>> accepted_;  ///< not taken yet
  std::size_t announced_ = 0;                              ///< of accepted_
  bool closing_ = false;
  bool events_seen_ = false;           ///< by the owner since the last poll()
  std::uint64_t activity_polled_ = 0;  ///< hub_.activity, as the last poll() began or the last wait() ended
  TimePoint next_look_;
  TimePoint next_tick_;
  std::atomic<bool> interrupted_ = false;
  static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler sets it
};

VerbsTransport::VerbsTransport(const VerbsOptions& options, std::unique_ptr<Device> device,
                               ManagerChannel channel, base::FileDescriptor wake_up)
    : options_(options),
      spin_(options.spin),
      device_(std::move(device)),
      channel_(std::move(channel)),
      wake_up_(std::move(wake_up)),
      windows_(*device_),
      queues_(*device_,
              [this](const ibv_wc& completion) {
                const auto found = hub_.connections.find(serial_of(completion.wr_id));
                if (found != hub_.connections.end()) found->second->on_completion(completion);
              }),
      gatekeeper_(options.secret),
      hub_{.options = options_,
           .device = *device_,
           .windows = windows_,
           .queues = queues_,
           .channel = channel_.get(),
           .gatekeeper = gatekeeper_,
           .neighbours = neighbours_,
           .check_device = [this] {
             check_device();
             check_manager();
           }} {}

VerbsTransport::~VerbsTransport() {
  closing_ = true;  // connections poll while they close, and must not bring new ones
  accepted_.clear();
  for (const Listener& listener : listeners_) device_->api().destroy_id(listener.id);
}

std::vector<VerbsConnection*> VerbsTransport::connections() const {
  std::vector<VerbsConnection*> all;
  for (const auto& [serial, connection] : hub_.connections) all.push_back(connection);
  return all;
}

Duration VerbsTransport::tick_interval() const {
  return std::clamp<Duration>(options_.peer_timeout / 20, std::chrono::milliseconds(5),
                              std::chrono::milliseconds(200));
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> VerbsTransport::allocate_region(std::size_t bytes,
                                                                              Access access) {
  return windows_.allocate(bytes, access);
}

// ---- meeting

absl::Status VerbsTransport::listen(const std::string& address) {
  auto parsed = parse_address(address);
  if (!parsed.ok()) return parsed.status();
  if (parsed->host.empty()) parsed->host = device_->address();
  Listener& listener = listeners_.emplace_back(*this);
  absl::Status status = listen(listener, *parsed, address);
  if (!status.ok()) {
    if (listener.id != nullptr) device_->api().destroy_id(listener.id);
    listeners_.pop_back();
  }
  return status;
}

absl::Status VerbsTransport::listen(Listener& listener, const Address& address, const std::string& text) {
  auto place = resolve(address, text);
  if (!place.ok()) return place.status();
  const VerbsApi& api = device_->api();
  ManagerUser* user = &listener;
  if (api.create_id(channel_.get(), &listener.id, user, RDMA_PS_TCP) != 0) {
    listener.id = nullptr;
    const int error = errno;
    return errno_status(error, fmt::format("{}: no identifier of the connection manager", text));
  }
  if (api.bind_addr(listener.id, reinterpret_cast<sockaddr*>(&*place)) != 0 ||
      api.listen(listener.id, kBacklog) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) {
      return absl::AlreadyExistsError(
          fmt::format("{}: someone else listens there; expected a port that nobody listens at", text));
    }
    return errno_status(
        error, fmt::format("{}: nothing can listen there; is it the address of an RDMA device?", text));
  }
  // A listener that is bound to no device gets the requests of all devices.
  if (listener.id->verbs != nullptr && !device_->is(*listener.id)) {
    return absl::InvalidArgumentError(fmt::format("{}: this is device {} port {}, but {} port {} is in use",
                                                  text, listener.id->verbs->device->name,
                                                  listener.id->port_num, device_->name(), device_->port()));
  }
  neighbours_.listen();
  listening_address_ = text_of(Address{.host = address.host, .port = ntohs(api.get_src_port(listener.id))});
  return absl::OkStatus();
}

void VerbsTransport::accept(const ManagerEvent& event) {
  ++hub_.activity;
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    spdlog::error("{} was removed; {} is deaf", device_->name(), listening_address_);
  }
  if (event.type != RDMA_CM_EVENT_CONNECT_REQUEST) return;
  if (closing_) {
    device_->api().destroy_id(event.id);  // which refuses the connection
    return;
  }
  if (auto connection = VerbsConnection::accept(hub_, event)) accepted_.push_back(std::move(connection));
}

absl::StatusOr<std::unique_ptr<Connection>> VerbsTransport::connect(const std::string& address,
                                                                    TimePoint deadline) {
  auto parsed = parse_address(address);
  if (!parsed.ok()) return parsed.status();
  auto destination = resolve(*parsed, address);
  if (!destination.ok()) return destination.status();
  auto connection = std::make_unique<VerbsConnection>(hub_, address, *destination, deadline);
  while (connection->connecting()) {
    const std::optional<TimePoint> asked = connection->asked_at();
    if (asked && *asked + options_.answer_patience < now()) return connection;
    const TimePoint until = std::min(deadline, now() + std::chrono::milliseconds(5));
    pollfd file = {.fd = channel_.get()->fd, .events = POLLIN, .revents = 0};
    const auto rest = std::max(until - now(), Duration::zero());
    ::poll(&file, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(rest).count()));
    check_manager();
    connection->tick(now());
  }
  if (!connection->status().ok()) return connection->status();
  return connection;
}

std::unique_ptr<Connection> VerbsTransport::take_accepted() {
  if (announced_ == 0) return nullptr;
  std::unique_ptr<VerbsConnection> connection = std::move(accepted_.front());
  accepted_.pop_front();
  --announced_;
  connection->take();
  return connection;
}

// ---- events

/// Handles all pending events, but only a bounded number, no matter how many peers ask to connect.
void VerbsTransport::check_manager() {
  for (int i = 0; i < kManagerEventsAtOnce; ++i) {
    auto event = channel_.next();
    if (!event) return;
    if (event->first != nullptr) event->first->on_manager_event(event->second);
  }
  next_look_ = TimePoint::min();
}

void VerbsTransport::check_device() {
  ibv_async_event event{};
  while (device_->api().get_async_event(device_->context(), &event) == 0) {
    const ibv_event_type type = event.event_type;
    const std::vector<VerbsConnection*> all = connections();
    switch (type) {
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_COMM_EST:
        for (VerbsConnection* each : all) {
          if (each->uses(event.element.qp)) each->on_device_event(type);
        }
        break;
      case IBV_EVENT_CQ_ERR:
        for (VerbsConnection* each : all) {
          if (each->uses(event.element.cq)) each->on_device_event(type);
        }
        break;
      case IBV_EVENT_DEVICE_FATAL:
        for (VerbsConnection* each : all) each->on_device_event(type);
        break;
      case IBV_EVENT_PORT_ERR:
      case IBV_EVENT_PORT_ACTIVE:
        // A link that comes back in time is no failure; a peer that does not answer in the meantime is
        // detected by its timeout.
        if (event.element.port_num != device_->port()) break;
        hub_.port_down = type == IBV_EVENT_PORT_ERR;
        spdlog::warn("port {} of {} is {}", device_->port(), device_->name(),
                     hub_.port_down ? "down" : "active again");
        break;
      default:
        break;
    }
    // Acknowledge it before a queue that it names is destroyed: the destruction would wait for this.
    device_->api().ack_async_event(&event);
  }
}

void VerbsTransport::look_around() {
  check_device();
  const TimePoint time = coarse_now();
  next_look_ = time + options_.connection_check_interval;
  check_manager();
  if (time < next_tick_) return;
  next_tick_ = time + tick_interval();
  for (VerbsConnection* each : connections()) each->tick(now());
}

void VerbsTransport::attend() {
  const std::vector<VerbsConnection*> waiting = hub_.attention;
  for (VerbsConnection* each : waiting) each->attend();
}

void VerbsTransport::finish_failed() {
  for (VerbsConnection* each : connections()) each->finish(now());
}

std::size_t VerbsTransport::poll(std::span<Event> events) {
  hub_.retired.clear();
  events_seen_ = false;
  activity_polled_ = hub_.activity;
  if (coarse_now() >= next_look_) look_around();
  if (!hub_.attention.empty()) attend();
  for (std::size_t rounds = 0; rounds < 8 && hub_.ready.size() < events.size(); ++rounds) {
    if (queues_.take() == 0) break;
  }
  if (hub_.failed > 0) finish_failed();
  std::size_t count = 0;
  for (; count < events.size() && announced_ < accepted_.size(); ++count) {
    events[count] = {.kind = Event::Kind::kAccepted, .connection = accepted_[announced_++].get()};
  }
  for (; count < events.size() && !hub_.ready.empty(); ++count) {
    const Hub::Pending& pending = hub_.ready.front();
    events[count] = pending.event;
    if (pending.receive) {
      static_cast<VerbsConnection*>(pending.event.connection)->release_receive(*pending.receive);
      events_seen_ = true;
    }
    hub_.ready.pop_front();
  }
  return count;
}

// Has anything happened that makes it useful to poll(), or to repeat a post() that was refused?
bool VerbsTransport::progress(std::uint64_t activity_before) {
  queues_.take();
  return hub_.activity != activity_before || !hub_.ready.empty() || announced_ < accepted_.size() ||
         interrupted_.load(std::memory_order_seq_cst);
}

void VerbsTransport::sleep(TimePoint deadline) {
  const TimePoint until = std::min(deadline, now() + tick_interval());
  const auto rest = std::max(until - now(), Duration::zero());
  std::array<pollfd, 4> files{};
  const std::array<int, 4> fds = {device_->channel()->fd, channel_.get()->fd, device_->context()->async_fd,
                                  wake_up_.get()};
  for (std::size_t i = 0; i < files.size(); ++i) files[i] = {.fd = fds[i], .events = POLLIN, .revents = 0};
  ::poll(files.data(), files.size(),
         static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(rest).count()));
  queues_.clear_events();
  look_around();
}

void VerbsTransport::wait(TimePoint deadline) {
  // A message that the owner has seen keeps its receive until the next poll(), and its sender may be waiting
  // for that receive.
  if (events_seen_) return;
  // Since before the last poll(): it may have taken what a post that was refused before it waits for, and
  // that raises no event.
  const std::uint64_t activity = activity_polled_;
  bool ready = progress(activity);
  const TimePoint start = now();
  for (const TimePoint end = std::min(deadline, start + spin_.now()); !ready && now() < end;) {
    ready = progress(activity);
  }
  while (!ready && now() < deadline) {
    queues_.arm();
    ready = progress(activity);  // completions before the arming cause no wake-up
    if (ready) break;
    sleep(deadline);
    ready = progress(activity);
  }
  spin_.learn(now() - start);
  activity_polled_ = hub_.activity;
  interrupted_.store(false, std::memory_order_seq_cst);
  std::uint64_t rung = 0;
  [[maybe_unused]] const ssize_t bytes = ::read(wake_up_.get(), &rung, sizeof(rung));
}

void VerbsTransport::interrupt() {
  const int saved_errno = errno;  // a signal handler may interrupt
  interrupted_.store(true, std::memory_order_seq_cst);
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t bytes = ::write(wake_up_.get(), &one, sizeof(one));
  errno = saved_errno;
}

// ---- options

absl::Status check(const VerbsOptions& options) {
  const auto refuse = [](std::string_view option, auto value, std::string_view expected) {
    return absl::InvalidArgumentError(
        fmt::format("verbs: {} is {}, but must be {}", option, value, expected));
  };
  if (!std::has_single_bit(options.send_depth) || options.send_depth < 16 || options.send_depth > 32768) {
    return refuse("send_depth", options.send_depth, "a power of two from 16 to 32768");
  }
  if (options.receive_depth < 2 || options.receive_depth > 16384) {
    return refuse("receive_depth", options.receive_depth, "from 2 to 16384");
  }
  if (options.max_message_bytes < 64 || options.max_message_bytes > 1U << 20U) {
    return refuse("max_message_bytes", options.max_message_bytes, "from 64 to 1048576");
  }
  if (options.max_inline_bytes > 4096) {
    return refuse("max_inline_bytes", options.max_inline_bytes, "at most 4096");
  }
  if (options.spin.count() < 0 || options.linger.count() < 0 || options.answer_patience.count() < 0) {
    return absl::InvalidArgumentError("verbs: spin, linger and answer_patience must not be negative");
  }
  if (options.peer_timeout.count() < 20 || options.connection_check_interval.count() <= 0) {
    return absl::InvalidArgumentError(
        "verbs: peer_timeout must be at least 20 ms, connection_check_interval positive");
  }
  return absl::OkStatus();
}

}  // namespace

}  // namespace verbs

absl::StatusOr<std::unique_ptr<Transport>> make_verbs_transport(const VerbsOptions& options,
                                                                std::shared_ptr<const VerbsApi> api) {
  RETURN_IF_ERROR(verbs::check(options));
  if (api == nullptr) {
    auto loaded = load_verbs_api();
    if (!loaded.ok()) return loaded.status();
    api = std::make_shared<const VerbsApi>(std::move(*loaded));
  }
  auto device = verbs::Device::open(api, options);
  if (!device.ok()) return device.status();
  auto channel = verbs::ManagerChannel::create(*api);
  if (!channel.ok()) return channel.status();
  base::FileDescriptor wake_up(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_up.valid()) return verbs::errno_status(errno, "no event file can be made (eventfd)");
  return std::make_unique<verbs::VerbsTransport>(options, std::move(*device), std::move(*channel),
                                                 std::move(wake_up));
}

VerbsSurvey survey_verbs(std::shared_ptr<const VerbsApi> api) {
  VerbsSurvey survey;
  if (api == nullptr) {
    VerbsApi loaded{};
    survey.ibverbs = load_ibverbs(loaded);
    survey.rdmacm = load_rdmacm(loaded);
    if (!survey.ibverbs.ok() || !survey.rdmacm.ok()) return survey;
    api = std::make_shared<const VerbsApi>(std::move(loaded));
  }
  auto devices = list_verbs_devices(api);
  survey.listing = devices.status();
  if (devices.ok()) survey.devices = std::move(*devices);
  survey.connection_manager = verbs::ManagerChannel::create(*api).status();
  return survey;
}

namespace verbs {
namespace {

VerbsOptions verbs_options(const BackendOptions& options) {
  VerbsOptions mine{.secret = options.secret, .device = options.device, .port = options.device_port};
  mine.send_depth = std::max(mine.send_depth, std::bit_ceil(options.send_depth));
  mine.answer_patience = options.answer_patience.value_or(mine.answer_patience);
  if (options.shares_cores) mine.spin = std::chrono::microseconds(0);
  return mine;
}

/// The GID index of the port's address that listens and connects.
int gid_index_of(const VerbsDevice::Port& port) {
  for (const VerbsDevice::Gid& gid : port.gids) {
    if (gid.type == "RoCEv2" && gid.text == port.address) return static_cast<int>(gid.index);
  }
  return -1;
}

absl::StatusOr<RdmaDevice> find_device(const BackendOptions& options) {
  const absl::StatusOr<std::vector<VerbsDevice>> devices = list_verbs_devices();
  if (!devices.ok()) return devices.status();
  for (const VerbsDevice& device : *devices) {
    if (!device.obstacle.empty() || (!options.device.empty() && device.name != options.device)) continue;
    for (const VerbsDevice::Port& port : device.ports) {
      if (!port.obstacle.empty() || (options.device_port != 0 && port.number != options.device_port))
        continue;
      return RdmaDevice{.name = device.name,
                        .port = port.number,
                        .mtu_bytes = port.mtu_bytes,
                        .gid_index = gid_index_of(port)};
    }
  }
  return absl::NotFoundError("no usable RDMA device");
}

}  // namespace

Backend backend() {
  return {.scheme = "verbs",
          .summary = "RDMA (InfiniBand, RoCE, iWARP) between hosts",
          .reach = Reach::kHosts,
          .maps_own_host = true,
          .make = [](const BackendOptions& options) -> absl::StatusOr<std::unique_ptr<Transport>> {
            if (options.tls)
              return absl::InvalidArgumentError("verbs does not encrypt what travels; tcp can");
            return make_verbs_transport(verbs_options(options));
          },
          .find_device = find_device};
}

}  // namespace verbs

}  // namespace verbena::transport
