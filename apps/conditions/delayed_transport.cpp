#include "apps/conditions/delayed_transport.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "apps/conditions/fields.hpp"
#include "base/decimal.hpp"

namespace verbena::apps {

using transport::Connection;
using transport::Duration;
using transport::Event;
using transport::MemoryRegion;
using transport::Opcode;
using transport::OperationResult;
using transport::RemoteDescriptor;
using transport::TimePoint;
using transport::WorkRequest;

namespace {

/// The headers of the packets of a transfer.
constexpr std::size_t kHeaderBytes = 64;
/// At most this many requests are under way of which none asks for a completion.
constexpr std::size_t kMostUnsignaled = 32;
constexpr std::string_view kHosts = "hosts";

bool is_announced(Opcode opcode) {
  return opcode == Opcode::kWriteNotify || opcode == Opcode::kSend;
}

std::optional<double> parse_rate(std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"Gb/s", 1e9}, {"Mb/s", 1e6}};
  for (const auto& [unit, bits] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::optional<double> number =
        base::parse_decimal<double>(text.substr(0, text.size() - unit.size()));
    return number ? std::optional(*number * bits) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<JobNetwork> parse_job_network(std::string_view text) {
  constexpr Duration kMostLatency = std::chrono::seconds(1);
  constexpr double kLeastBits = 1e6;
  constexpr double kMostBits = 1e13;
  const auto refuse = [&](std::string_view why) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\": {}latency=TIME,bandwidth=RATE, such as latency=10us,bandwidth=1Gb/s, is expected", text,
        why));
  };
  const auto fields = split_fields(text);
  if (!fields) return refuse("");
  JobNetwork network;
  std::vector<std::string_view> seen;
  for (const auto& [name, value] : *fields) {
    if (std::find(seen.begin(), seen.end(), name) != seen.end())
      return refuse(fmt::format("{}= comes twice; ", name));
    seen.push_back(name);
    if (name == "latency") {
      const std::optional<Duration> latency = parse_duration(value);
      if (!latency || *latency > kMostLatency) return refuse("a latency of at most 1s with its unit, in ");
      network.cost.latency = *latency;
    } else if (name == "bandwidth") {
      const std::optional<double> rate = parse_rate(value);
      if (!rate || !(*rate >= kLeastBits && *rate <= kMostBits)) {
        return refuse("a bandwidth from 1Mb/s to 10000Gb/s, in ");
      }
      network.cost.bits_per_second = *rate;
    } else if (name == kHosts) {
      if (value != "nodes" && value != "processes") return refuse("hosts=nodes or hosts=processes after ");
      network.hosts = value == "nodes" ? Hosts::kNodes : Hosts::kProcesses;
    } else {
      return refuse(fmt::format("there is no {}=; ", name));
    }
  }
  return network;
}

absl::StatusOr<NetworkCost> parse_network(std::string_view text) {
  const absl::StatusOr<JobNetwork> network = parse_job_network(text);
  if (!network.ok()) return network.status();
  if (text.find(kHosts) != std::string_view::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "\"{}\": {}= is of a job that runs; latency=TIME,bandwidth=RATE is expected", text, kHosts));
  }
  return network->cost;
}

/// A connection of a DelayedTransport. A request that is taken goes to the wrapped connection at once; events
/// are kept until they are due.
class DelayedConnection final : public Connection {
 public:
  enum class Origin : std::uint8_t { kConnected, kConnectedNear, kAccepted };
  DelayedConnection(DelayedTransport& transport, std::unique_ptr<Connection> wrapped, Origin origin);
  ~DelayedConnection() override { std::erase(transport_.connections_, this); }

  absl::StatusOr<RemoteDescriptor> grant(const MemoryRegion& region) override {
    return wrapped_->grant(region);
  }
  absl::StatusOr<RemoteDescriptor> grant_in_place(const MemoryRegion& region) override {
    return wrapped_->grant_in_place(region);
  }
  [[nodiscard]] std::size_t do_post(std::span<const WorkRequest> requests) override;
  const std::byte* mapped(const RemoteDescriptor& remote) override {
    return is_near_ ? wrapped_->mapped(remote) : nullptr;
  }
  std::byte* mapped_in_place(const RemoteDescriptor& remote) override {
    return is_near_ ? wrapped_->mapped_in_place(remote) : nullptr;
  }
  [[nodiscard]] const absl::Status& status() const override { return wrapped_->status(); }

  void set_taken() { taken_ = true; }
  void name_wrapped() {
    if (wrapped_->peer_name() != peer_name()) wrapped_->set_peer_name(peer_name());
  }
  void on_wrapped_event(const Event& event);
  [[nodiscard]] std::size_t take_events(std::span<Event> events, TimePoint now);
  /// When the next event is due; TimePoint::max() if there is none.
  [[nodiscard]] TimePoint next_due() const;

 private:
  /// The message that goes before each notification and message.
  struct Stamp {
    static constexpr std::uint64_t kMagic = 0x796c6564'6e627276;
    static constexpr std::uint64_t kNearMagic =
        0x7261656e'6e627276;  ///< sent alone, and first: this connection is near

    std::uint64_t magic = kMagic;
    std::int64_t due_ns = 0;  ///< when its last byte arrives if the receiver's link is free
    std::uint64_t bytes = 0;
  };
  /// A request that the wrapped connection has. The ids that it sees count from first_posted_ on.
  struct Posted {
    std::uint64_t id = 0;
    bool signaled = false;
    bool own = false;  ///< a request of ours: a stamp
    TimePoint due;     ///< when its completion is due
  };
  struct Late {
    Event event;
    std::string message;
    TimePoint due;
  };

  [[nodiscard]] bool post_stamp(std::size_t bytes);
  [[nodiscard]] bool post_own(Stamp stamp);
  [[nodiscard]] bool post_wrapped(const WorkRequest& request, const Posted& posted);
  void on_completion(const Event& event);
  void on_incoming(const Event& event);

  DelayedTransport& transport_;
  std::unique_ptr<Connection> wrapped_;
  bool taken_;
  bool is_near_;
  bool near_is_told_;     ///< the peer knows it, or the connection is not near
  bool stamped_ = false;  ///< the next notification or message has its stamp already
  bool disconnected_ = false;
  bool disconnected_reported_ = false;
  TimePoint last_due_;             ///< when the last thing that was sent is due
  TimePoint last_completion_due_;  ///< completions come in the order of posting
  std::deque<Posted> posted_;
  std::uint64_t first_posted_ = 0;
  std::size_t unsignaled_ = 0;
  std::optional<Stamp> stamp_;  ///< stamp of the next notification or message to come in
  std::deque<Late> completions_;
  std::deque<Late> incoming_;
};

DelayedConnection::DelayedConnection(DelayedTransport& transport, std::unique_ptr<Connection> wrapped,
                                     Origin origin)
    : transport_(transport),
      wrapped_(std::move(wrapped)),
      taken_(origin != Origin::kAccepted),
      is_near_(origin == Origin::kConnectedNear),
      near_is_told_(!is_near_) {
  wrapped_->user_data = reinterpret_cast<std::uintptr_t>(this);
  set_peer_name(wrapped_->peer_name());
  transport_.connections_.push_back(this);
}

bool DelayedConnection::post_wrapped(const WorkRequest& request, const Posted& posted) {
  WorkRequest numbered = request;
  numbered.id = first_posted_ + posted_.size();
  if (wrapped_->post({&numbered, 1}) == 0) return false;
  posted_.push_back(posted);
  unsignaled_ = numbered.signaled ? 0 : unsignaled_ + 1;
  return true;
}

bool DelayedConnection::post_stamp(std::size_t bytes) {
  const TimePoint left =
      std::max(transport_.now(), transport_.sending_until_) + transport_.on_the_link(bytes);
  const TimePoint due = std::max(last_due_, left + transport_.cost_.latency);
  if (!post_own({.due_ns = due.time_since_epoch().count(), .bytes = bytes})) return false;
  transport_.sending_until_ = left;
  last_due_ = due;
  return true;
}

bool DelayedConnection::post_own(Stamp stamp) {
  // Signaled from time to time, so that requests that were posted before are known to have ended.
  const WorkRequest request{.opcode = Opcode::kSend,
                            .signaled = unsignaled_ >= kMostUnsignaled,
                            .local = std::as_writable_bytes(std::span(&stamp, 1))};
  return post_wrapped(request, {.signaled = request.signaled, .own = true});
}

std::size_t DelayedConnection::do_post(std::span<const WorkRequest> requests) {
  name_wrapped();
  std::size_t taken = 0;
  if (!near_is_told_) near_is_told_ = post_own({.magic = Stamp::kNearMagic});
  if (!near_is_told_) return taken;
  if (is_near_) {
    while (taken < requests.size() &&
           post_wrapped(requests[taken], {.id = requests[taken].id, .signaled = requests[taken].signaled})) {
      ++taken;
    }
    return taken;
  }
  const TimePoint now = transport_.now();
  for (const WorkRequest& request : requests) {
    if (is_announced(request.opcode) && !stamped_) stamped_ = post_stamp(request.local.size());
    if (is_announced(request.opcode) && !stamped_) return taken;
    Posted posted{.id = request.id, .signaled = request.signaled};
    const Duration link = transport_.on_the_link(request.local.size());
    if (request.opcode == Opcode::kRead) {
      posted.due = std::max(now + 2 * transport_.cost_.latency, transport_.receiving_until_) + link;
    }
    if (!post_wrapped(request, posted)) return taken;
    if (request.opcode == Opcode::kRead) transport_.receiving_until_ = posted.due;
    if (request.opcode == Opcode::kWrite) {
      transport_.sending_until_ = std::max(now, transport_.sending_until_) + link;
    }
    if (is_announced(request.opcode)) stamped_ = false;
    ++taken;
  }
  return taken;
}

void DelayedConnection::on_completion(const Event& event) {
  TimePoint due;
  // The requests before it have ended, too, and have not asked for a completion.
  while (first_posted_ < event.id) {
    due = std::max(due, posted_.front().due);
    posted_.pop_front();
    ++first_posted_;
  }
  const Posted posted = posted_.front();
  posted_.pop_front();
  ++first_posted_;
  last_completion_due_ = std::max({last_completion_due_, due, posted.due});
  if (posted.own || (event.result == OperationResult::kOk && !posted.signaled)) return;
  Late& late = completions_.emplace_back();
  late.event = event;
  late.event.id = posted.id;
  late.event.connection = this;
  // A failure brings no data, so it is not delayed.
  late.due = event.result == OperationResult::kOk ? last_completion_due_ : TimePoint();
}

void DelayedConnection::on_incoming(const Event& event) {
  if (!stamp_ && event.kind == Event::Kind::kMessage && event.message.size() == sizeof(Stamp)) {
    Stamp stamp;
    std::memcpy(&stamp, event.message.data(), sizeof stamp);
    if (stamp.magic == Stamp::kNearMagic) is_near_ = true;
    if (stamp.magic == Stamp::kMagic) stamp_ = stamp;
    if (stamp.magic == Stamp::kNearMagic || stamp.magic == Stamp::kMagic) return;
  }
  Late& late = incoming_.emplace_back();
  late.event = event;
  late.event.connection = this;
  late.message.assign(reinterpret_cast<const char*>(event.message.data()), event.message.size());
  if (!stamp_) return;  // from a near peer, or from one that does not use this transport
  late.due = std::max(TimePoint(std::chrono::nanoseconds(stamp_->due_ns)),
                      transport_.receiving_until_ + transport_.on_the_link(stamp_->bytes));
  transport_.receiving_until_ = late.due;
  stamp_.reset();
}

void DelayedConnection::on_wrapped_event(const Event& event) {
  switch (event.kind) {
    case Event::Kind::kAccepted:
      break;
    case Event::Kind::kCompletion:
      on_completion(event);
      break;
    case Event::Kind::kNotification:
    case Event::Kind::kMessage:
      on_incoming(event);
      break;
    case Event::Kind::kDisconnected:
      disconnected_ = true;
      break;
  }
}

std::size_t DelayedConnection::take_events(std::span<Event> events, TimePoint now) {
  std::size_t count = 0;
  if (!taken_) return count;
  for (std::deque<Late>* from : {&completions_, &incoming_}) {
    while (count < events.size() && !from->empty() && from->front().due <= now) {
      Event event = from->front().event;
      transport_.messages_.push_back(std::move(from->front().message));
      event.message = std::as_bytes(std::span(transport_.messages_.back()));
      from->pop_front();
      events[count++] = event;
    }
  }
  if (disconnected_ && !disconnected_reported_ && count < events.size() && completions_.empty() &&
      incoming_.empty()) {
    disconnected_reported_ = true;
    events[count] = Event{};
    events[count].kind = Event::Kind::kDisconnected;
    events[count++].connection = this;
  }
  return count;
}

TimePoint DelayedConnection::next_due() const {
  if (!taken_) return TimePoint::max();
  TimePoint next = TimePoint::max();
  if (!completions_.empty()) next = std::min(next, completions_.front().due);
  if (!incoming_.empty()) next = std::min(next, incoming_.front().due);
  if (next == TimePoint::max() && disconnected_ && !disconnected_reported_) next = TimePoint();
  return next;
}

DelayedTransport::DelayedTransport(std::unique_ptr<transport::Transport> wrapped, const NetworkCost& cost,
                                   std::vector<std::string> near)
    : wrapped_(std::move(wrapped)), cost_(cost), near_(std::move(near)) {
  // The kernel may wake a thread 50 µs late to save power, which would be most of a latency. Threads that
  // this one starts inherit the setting. The result is ignored: if the call fails, the delays are only less
  // exact.
  (void)::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
}

DelayedTransport::~DelayedTransport() = default;

Duration DelayedTransport::on_the_link(std::size_t bytes) const {
  if (cost_.bits_per_second <= 0) return Duration::zero();
  constexpr double kBitsPerByte = 8;
  constexpr double kNsPerSecond = 1e9;
  const auto bits = kBitsPerByte * static_cast<double>(bytes + kHeaderBytes);
  return Duration(static_cast<std::int64_t>(bits / cost_.bits_per_second * kNsPerSecond));
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> DelayedTransport::allocate_region(std::size_t bytes,
                                                                                transport::Access access) {
  return wrapped_->allocate_region(bytes, access);
}

absl::StatusOr<std::unique_ptr<Connection>> DelayedTransport::connect(const std::string& address,
                                                                      TimePoint deadline) {
  auto connection = wrapped_->connect(address, deadline);
  if (!connection.ok()) return connection.status();
  const bool is_near = std::find(near_.begin(), near_.end(), address) != near_.end();
  using Origin = DelayedConnection::Origin;
  return std::make_unique<DelayedConnection>(*this, *std::move(connection),
                                             is_near ? Origin::kConnectedNear : Origin::kConnected);
}

std::unique_ptr<Connection> DelayedTransport::take_accepted() {
  if (accepted_.empty() || !accepted_.front().announced) return nullptr;
  std::unique_ptr<DelayedConnection> connection = std::move(accepted_.front().connection);
  accepted_.pop_front();
  connection->set_taken();
  return connection;
}

void DelayedTransport::poll_wrapped() {
  constexpr std::size_t kEvents = 64;
  std::array<Event, kEvents> events;
  const std::size_t count = wrapped_->poll(events);
  for (const Event& event : std::span(events).first(count)) {
    if (event.kind == Event::Kind::kAccepted) {
      while (std::unique_ptr<Connection> connection = wrapped_->take_accepted()) {
        accepted_.push_back({std::make_unique<DelayedConnection>(*this, std::move(connection),
                                                                 DelayedConnection::Origin::kAccepted)});
      }
      continue;
    }
    reinterpret_cast<DelayedConnection*>(static_cast<std::uintptr_t>(event.connection->user_data))
        ->on_wrapped_event(event);
  }
}

std::size_t DelayedTransport::announce_accepted(std::span<Event> events) {
  std::size_t count = 0;
  for (Accepted& accepted : accepted_) {
    if (accepted.announced) continue;
    if (count == events.size()) break;
    accepted.announced = true;
    events[count] = Event{};
    events[count++].kind = Event::Kind::kAccepted;
  }
  return count;
}

std::size_t DelayedTransport::poll(std::span<Event> events) {
  messages_.clear();
  messages_.reserve(events.size());  // events hold spans into the strings
  for (DelayedConnection* connection : connections_) connection->name_wrapped();
  poll_wrapped();
  const TimePoint time = now();
  std::size_t count = announce_accepted(events);
  for (DelayedConnection* connection : connections_) {
    count += connection->take_events(events.subspan(count), time);
  }
  return count;
}

void DelayedTransport::wait(TimePoint deadline) {
  TimePoint until = deadline;
  for (const Accepted& accepted : accepted_) {
    if (!accepted.announced) return;
  }
  for (const DelayedConnection* connection : connections_) until = std::min(until, connection->next_due());
  if (until > now()) wrapped_->wait(until);
}

}  // namespace verbena::apps
