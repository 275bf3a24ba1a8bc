#include "apps/simulation/simulated_transport.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

#include "apps/simulation/link.hpp"
#include "base/return_if_error.hpp"

namespace verbena::simulation {

using transport::Access;
using transport::Connection;
using transport::Event;
using transport::MemoryRegion;
using transport::OperationResult;
using transport::RemoteDescriptor;
using transport::WorkRequest;

SimulatedRegion::~SimulatedRegion() {
  const std::lock_guard lock(network_.mutex_);
  memory_->alive = false;
}

// ---- a connection

SimulatedConnection::~SimulatedConnection() {
  const std::lock_guard lock(network_.mutex_);
  network_.close(link_, side_);
}

absl::StatusOr<RemoteDescriptor> SimulatedConnection::grant(const MemoryRegion& region) {
  const std::lock_guard lock(network_.mutex_);
  if (refresh()) return status_;
  if (region.access() == Access::kLocal)
    return absl::InvalidArgumentError("a local region cannot be granted");
  const SimulatedTransport* const peer = link_->ends[1 - side_].node;
  if (peer != nullptr && std::exchange(end().peer_polls, peer->polls_) != peer->polls_)
    end().untaken_grants = 0;
  if (end().untaken_grants >= network_.options_.most_untaken_grants)
    return absl::AbortedError("the peer does not take what it is granted");
  ++end().untaken_grants;
  const auto& memory = static_cast<const SimulatedRegion&>(region).memory();
  end().grants.push_back({++network_.keys_, memory});
  return RemoteDescriptor{reinterpret_cast<std::uintptr_t>(memory->data), memory->bytes, network_.keys_};
}

std::size_t SimulatedConnection::do_post(std::span<const WorkRequest> requests) {
  network_.pacer_.step(task_);
  if (Meter* const meter = end().node->meter_) {
    for (const WorkRequest& request : requests) meter->posts(request);
  }
  const std::lock_guard lock(network_.mutex_);
  network_.run_due_locked();
  const std::size_t taken = network_.post(link_, side_, requests);
  refresh();
  return taken;
}

absl::StatusOr<RemoteDescriptor> SimulatedConnection::grant_in_place(const transport::MemoryRegion& region) {
  if (region.access() != Access::kRemoteReadHostWrite)
    return absl::PermissionDeniedError("a region that peers may not write in place cannot be granted so");
  absl::StatusOr<RemoteDescriptor> descriptor = grant(region);
  if (!descriptor.ok()) return descriptor;
  const std::lock_guard lock(network_.mutex_);
  for (Grant& grant : end().grants) {
    if (grant.key == descriptor->key) grant.in_place = true;
  }
  return descriptor;
}

const std::byte* SimulatedConnection::mapped(const RemoteDescriptor& remote) {
  return locate(remote, /*in_place=*/false);
}

std::byte* SimulatedConnection::mapped_in_place(const RemoteDescriptor& remote) {
  return locate(remote, /*in_place=*/true);
}

std::byte* SimulatedConnection::locate(const RemoteDescriptor& remote, bool in_place) {
  const std::lock_guard lock(network_.mutex_);
  if (!network_.options_.mapped || !status_.ok()) return nullptr;
  for (const Grant& grant : link_->ends[1 - side_].grants) {
    if (grant.key != remote.key || (in_place && !grant.in_place)) continue;
    // What a process has granted before it died can be mapped as long as nobody has noticed its death: over
    // shared memory, pages live until the last one lets go of them.
    const bool is_there = grant.memory->alive || link_->broken;
    if (!is_there || !allows(grant.memory->access, Access::kRemoteRead) ||
        !grant.memory->holds(remote.address, remote.length_bytes)) {
      return nullptr;
    }
    end().mapped.push_back(grant.memory);
    return grant.memory->data + (remote.address - reinterpret_cast<std::uintptr_t>(grant.memory->data));
  }
  return nullptr;
}

bool SimulatedConnection::refresh() {
  const End& mine = end();
  if (!mine.failed || !status_.ok()) return mine.failed;
  status_ = absl::Status(mine.failure == OperationResult::kPeerGone ? absl::StatusCode::kUnavailable
                                                                    : absl::StatusCode::kInternal,
                         fmt::format("{}: {}", peer_name(), mine.reason));
  return true;
}

// ---- a ticker

SimulatedTicker::SimulatedTicker(Network& network, const SimulatedTransport& node, Duration interval,
                                 std::function<void()> tick)
    : network_(network),
      node_(node),
      interval_(interval),
      tick_(std::move(tick)),
      due_(node.now() + interval) {
  const std::lock_guard lock(network_.mutex_);
  network_.tickers_.push_back(this);
  network_.next_tick_ = std::min(network_.next_tick_, due_);
}

SimulatedTicker::~SimulatedTicker() {
  const std::lock_guard lock(network_.mutex_);
  std::erase(network_.tickers_, this);
}

void SimulatedTicker::tick(TimePoint now) {
  bool ticks = false;
  for (; due_ <= now; due_ += interval_) ticks |= !node_.dead_ && due_ >= node_.stopped_until_;
  if (ticks) tick_();
}

// ---- a node

SimulatedTransport::~SimulatedTransport() {
  const std::lock_guard lock(network_.mutex_);
  std::erase_if(network_.listeners_, [&](const auto& listener) { return listener.second == this; });
  for (const Incoming& incoming : incoming_) network_.close(incoming.link, 1);
}

std::size_t SimulatedTransport::max_message_bytes() const {
  return kMaxMessageBytes;
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> SimulatedTransport::allocate_region(std::size_t bytes,
                                                                                  Access access) {
  const auto refused = [&] {
    return absl::ResourceExhaustedError(fmt::format("no room for a region of {} bytes", bytes));
  };
  if (bytes > network_.options_.memory_bytes) return refused();
  if (regions_left_ == 0) {
    told_of_refusal_();
    return refused();
  }
  if (regions_left_) --*regions_left_;
  void* const memory = ::mmap(nullptr, Memory::mapped_bytes(bytes), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return refused();
  return std::make_unique<SimulatedRegion>(
      network_, std::make_shared<Memory>(static_cast<std::byte*>(memory), bytes, access));
}

namespace {
absl::Status check_address(const std::string& address) {
  if (address.starts_with("sim:") && address.size() > 4) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("address \"{}\": expected sim:NAME", address));
}
}  // namespace

absl::Status SimulatedTransport::listen(const std::string& address) {
  RETURN_IF_ERROR(check_address(address));
  const std::lock_guard lock(network_.mutex_);
  if (!network_.listeners_.emplace(address, this).second)
    return absl::AlreadyExistsError(fmt::format("somebody listens at {} already", address));
  listening_address_ = address;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Connection>> SimulatedTransport::connect(const std::string& address,
                                                                        TimePoint deadline) {
  RETURN_IF_ERROR(check_address(address));
  for (;;) {
    network_.pacer_.step(task_);
    {
      const std::lock_guard lock(network_.mutex_);
      if (const auto found = network_.listeners_.find(address);
          found != network_.listeners_.end() && !dead_) {
        SimulatedTransport& listener = *found->second;
        auto link = std::make_shared<Link>();
        link->ends[0].node = this;
        link->ends[0].card = card_;
        link->ends[1].node = &listener;
        link->ends[1].card = listener.card_;
        listener.incoming_.push_back({link});
        network_.forget_ended_links();
        network_.links_.push_back(link);
        auto connection = std::make_unique<SimulatedConnection>(network_, link, 0, task_);
        link->ends[0].connection = connection.get();
        network_.at(now() + network_.latency(), Network::Action::Kind::kAnnounce, link, 1);
        return connection;
      }
    }
    if (now() >= deadline) return absl::DeadlineExceededError(fmt::format("nobody listens at {}", address));
    network_.pacer_.block(task_, std::min(deadline, now() + std::chrono::milliseconds(1)));
  }
}

std::unique_ptr<Connection> SimulatedTransport::take_accepted() {
  const std::lock_guard lock(network_.mutex_);
  const auto first = std::find_if(incoming_.begin(), incoming_.end(),
                                  [](const Incoming& incoming) { return incoming.announced; });
  if (first == incoming_.end()) return nullptr;
  const std::shared_ptr<Link> link = std::move(first->link);
  incoming_.erase(first);
  auto connection = std::make_unique<SimulatedConnection>(network_, link, 1, task_);
  End& end = link->ends[1];
  end.connection = connection.get();
  if (end.failed) network_.touch(link, 1);
  for (auto& [event, message] : end.held) {
    event.connection = connection.get();
    pending_.push_back({event, std::move(message), link.get(), 1});
  }
  end.held.clear();
  return connection;
}

std::size_t SimulatedTransport::poll(std::span<Event> events) {
  network_.pacer_.step(task_);
  const std::size_t count = take_events(events);
  if (meter_ != nullptr && count > 0) meter_->polled(events.first(count));
  return count;
}

std::size_t SimulatedTransport::take_events(std::span<Event> events) {
  const std::lock_guard lock(network_.mutex_);
  ++polls_;
  network_.run_due_locked();
  for (const auto& [link, side] : touched_) {
    End& end = link->ends[side];
    if (end.connection != nullptr) end.connection->refresh();
    while (!end.requests.empty() && end.requests.front().has_ended()) end.requests.pop_front();
    end.touched = false;
  }
  touched_.clear();
  unblocked_ = false;
  messages_.clear();
  messages_.reserve(events.size());  // events hold spans into the strings
  std::size_t count = 0;
  while (count < events.size() && !pending_.empty()) {
    Event event = pending_.front().event;
    messages_.push_back(std::move(pending_.front().message));
    event.message = std::as_bytes(std::span(messages_.back()));
    pending_.pop_front();
    events[count++] = event;
  }
  return count;
}

void SimulatedTransport::wait(TimePoint deadline) {
  const auto ready = [&] {
    const std::lock_guard lock(network_.mutex_);
    network_.run_due_locked();
    return !pending_.empty() || unblocked_;
  };
  while (!ready() && !interrupted_ && now() < deadline) network_.pacer_.block(task_, deadline);
  interrupted_ = false;
}

absl::StatusOr<std::unique_ptr<transport::Ticker>> SimulatedTransport::start_ticker(
    Duration interval, std::function<void()> tick) {
  return std::make_unique<SimulatedTicker>(network_, *this, interval, std::move(tick));
}

void SimulatedTransport::interrupt() {
  interrupted_ = true;
  network_.pacer_.wake(task_);
}

}  // namespace verbena::simulation
