#include "tests/transport/faulty_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace verbena::transport {

namespace {

constexpr std::size_t kQueuedRequests = 128;  ///< that a connection holds back, at most
constexpr std::size_t kLineBytes = 64;

bool is_write(Opcode opcode) {
  return opcode == Opcode::kWrite || opcode == Opcode::kWriteNotify;
}

bool overlap(const WorkRequest& a, const WorkRequest& b) {
  return a.remote.address < b.remote.address + b.local.size() &&
         b.remote.address < a.remote.address + a.local.size();
}

/// The part [offset, offset + bytes) of a read or write, as an unsignaled request without a notification.
WorkRequest part_of(const WorkRequest& request, std::size_t offset, std::size_t bytes) {
  WorkRequest part = request;
  part.opcode = request.opcode == Opcode::kRead ? Opcode::kRead : Opcode::kWrite;
  part.signaled = false;
  part.local = request.local.subspan(offset, bytes);
  part.remote.address += offset;
  part.remote.length_bytes -= offset;
  return part;
}

}  // namespace

/// A connection of a FaultyTransport. A request waits in `queued_` until it is due. Then it moves, alone or
/// with others, and is in `moving_`. Then all of it is posted to the wrapped connection, and it is in
/// `posted_` until that completes it.
class FaultyConnection final : public Connection {
 public:
  FaultyConnection(FaultyTransport& transport, std::unique_ptr<Connection> wrapped, bool taken);
  ~FaultyConnection() override;

  absl::StatusOr<RemoteDescriptor> grant(const MemoryRegion& region) override;
  [[nodiscard]] std::size_t do_post(std::span<const WorkRequest> requests) override;
  const std::byte* mapped(const RemoteDescriptor& remote) override;
  absl::StatusOr<RemoteDescriptor> grant_in_place(const MemoryRegion& region) override;
  std::byte* mapped_in_place(const RemoteDescriptor& remote) override;
  [[nodiscard]] const absl::Status& status() const override;

  void set_taken() { taken_ = true; }
  void name_wrapped();
  void move_requests(bool at_once);
  void on_wrapped_event(const Event& event);
  [[nodiscard]] std::size_t take_events(std::span<Event> events);
  void fail(OperationResult result);
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool busy() const;

 private:
  struct Request {
    WorkRequest work;
    std::vector<std::byte> message;  ///< of a kSend: the bytes that work.local points to
    std::uint64_t due = 0;
    std::size_t last_offset = 0;  ///< the line that is posted last and completes the request
    std::size_t last_bytes = 0;
  };
  struct Line {
    std::size_t request = 0;  ///< in moving_
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  struct Posted {
    std::uint64_t id = 0;
    bool signaled = false;
  };
  struct Late {
    Event event;
    std::string message;
    std::uint64_t due = 0;
  };

  void enqueue(const WorkRequest& work);
  std::size_t give_back(std::size_t taken);
  [[nodiscard]] bool post_wrapped(const WorkRequest& request);
  void start_moving(bool at_once);
  void split(std::size_t index);
  [[nodiscard]] bool post_lines(bool at_once);
  [[nodiscard]] bool post_last();
  void finish(std::deque<Late>& events, Event event);
  void end(const absl::Status& status, OperationResult result);

  FaultyTransport& transport_;
  std::unique_ptr<Connection> wrapped_;
  bool taken_;
  bool mapped_ = false;         ///< the wrapped connection must live on, since it has mapped memory
  bool failed_ = false;         ///< it takes nothing more, and all outstanding requests have completions
  bool wrapped_ended_ = false;  ///< no more events of the wrapped connection count
  bool disconnected_reported_ = false;
  bool refused_ = false;         ///< the last post to the wrapped connection was not taken
  bool moving_started_ = false;  ///< a part of moving_ has been posted
  absl::Status status_;
  std::deque<Request> queued_;
  std::vector<Request> moving_;
  std::vector<Line> lines_;    ///< of moving_, still to be posted, in random order
  std::size_t next_last_ = 0;  ///< the request of moving_ whose last line is posted next
  std::deque<Posted> posted_;  ///< in order; the wrapped connection's ids count from posted_first_ on
  std::uint64_t posted_first_ = 0;
  std::deque<Late> completions_;
  std::deque<Late> incoming_;
};

FaultyConnection::FaultyConnection(FaultyTransport& transport, std::unique_ptr<Connection> wrapped,
                                   bool taken)
    : transport_(transport), wrapped_(std::move(wrapped)), taken_(taken) {
  wrapped_->user_data = reinterpret_cast<std::uintptr_t>(this);
  set_peer_name(wrapped_->peer_name());
  transport_.connections_.push_back(this);
}

FaultyConnection::~FaultyConnection() {
  if (!failed_) move_requests(/*at_once=*/true);
  std::erase(transport_.connections_, this);
}

absl::StatusOr<RemoteDescriptor> FaultyConnection::grant(const MemoryRegion& region) {
  if (failed_) return status_;
  return wrapped_->grant(region);
}

absl::StatusOr<RemoteDescriptor> FaultyConnection::grant_in_place(const MemoryRegion& region) {
  if (failed_) return status_;
  return wrapped_->grant_in_place(region);
}

std::byte* FaultyConnection::mapped_in_place(const RemoteDescriptor& remote) {
  if (failed_ || !transport_.options_.mapped) return nullptr;
  std::byte* const memory = wrapped_->mapped_in_place(remote);
  mapped_ |= memory != nullptr;
  return memory;
}

const std::byte* FaultyConnection::mapped(const RemoteDescriptor& remote) {
  if (failed_ || !transport_.options_.mapped) return nullptr;
  const std::byte* const memory = wrapped_->mapped(remote);
  mapped_ |= memory != nullptr;
  return memory;
}

const absl::Status& FaultyConnection::status() const {
  return failed_ ? status_ : wrapped_->status();
}

void FaultyConnection::name_wrapped() {
  if (wrapped_ && wrapped_->peer_name() != peer_name()) wrapped_->set_peer_name(peer_name());
}

std::size_t FaultyConnection::do_post(std::span<const WorkRequest> requests) {
  name_wrapped();
  if (!status().ok()) return 0;
  std::size_t limit = requests.size();
  if (transport_.chance(transport_.options_.partial_post_probability))
    limit = transport_.below(requests.size() + 1);
  std::size_t taken = 0;
  for (const WorkRequest& request : requests) {
    if (queued_.size() + moving_.size() >= kQueuedRequests) break;
    if (taken >= limit) break;
    enqueue(request);
    ++taken;
    if (transport_.requests_++ == transport_.options_.fail_at_request) {
      fail(transport_.options_.failure);
      return taken;
    }
  }
  move_requests(/*at_once=*/false);
  return taken - give_back(taken);
}

/// If the wrapped connection is full, so is this one: of the `taken` requests, those at the end that are due
/// count as not taken after all. Returns how many.
std::size_t FaultyConnection::give_back(std::size_t taken) {
  std::size_t given_back = 0;
  if (!refused_) return given_back;
  while (given_back < taken && !queued_.empty() && queued_.back().due <= transport_.poll_) {
    queued_.pop_back();
    ++given_back;
  }
  if (queued_.empty() && !moving_started_ && given_back + moving_.size() <= taken) {
    given_back += moving_.size();
    moving_.clear();
    lines_.clear();
  }
  return given_back;
}

void FaultyConnection::enqueue(const WorkRequest& work) {
  Request& request = queued_.emplace_back();
  request.work = work;
  if (work.opcode == Opcode::kSend) {
    request.message.assign(work.local.begin(), work.local.end());
    request.work.local = request.message;
  }
  request.due = transport_.due_after(transport_.options_.request_delay_probability);
}

/// Posts the requests that are due, in order, as far as the wrapped connection takes them.
void FaultyConnection::move_requests(bool at_once) {
  while (status().ok()) {
    if (moving_.empty()) start_moving(at_once);
    if (moving_.empty() || !post_lines(at_once) || !post_last()) return;
  }
}

/// Moves the first request to `moving_`, if it is due, and with it the writes behind it that may mix with it.
void FaultyConnection::start_moving(bool at_once) {
  const auto due = [&] { return !queued_.empty() && (at_once || queued_.front().due <= transport_.poll_); };
  const auto mixes = [&](const Request& request) {
    // Nothing may overtake a notification.
    return is_write(request.work.opcode) && moving_.back().work.opcode == Opcode::kWrite &&
           std::none_of(moving_.begin(), moving_.end(),
                        [&](const Request& other) { return overlap(other.work, request.work); });
  };
  while (due() && (moving_.empty() || mixes(queued_.front()))) {
    moving_.push_back(std::move(queued_.front()));
    queued_.pop_front();
    split(moving_.size() - 1);
  }
  std::shuffle(lines_.begin(), lines_.end(), transport_.random_);
  next_last_ = 0;
  moving_started_ = false;
}

bool FaultyConnection::post_wrapped(const WorkRequest& request) {
  refused_ = wrapped_->post({&request, 1}) == 0;
  moving_started_ |= !refused_;
  return !refused_;
}

void FaultyConnection::split(std::size_t index) {
  Request& request = moving_[index];
  const WorkRequest& work = request.work;
  request.last_bytes = work.local.size();
  // A request that the wrapped connection must refuse is posted as a whole.
  if (work.opcode == Opcode::kSend || work.remote.length_bytes < work.local.size() ||
      !transport_.chance(transport_.options_.split_probability)) {
    return;
  }
  std::vector<Line> lines;
  for (std::size_t offset = 0; offset < work.local.size();) {
    const std::size_t to_boundary = kLineBytes - (work.remote.address + offset) % kLineBytes;
    const std::size_t bytes = std::min(to_boundary, work.local.size() - offset);
    lines.push_back({index, offset, bytes});
    offset += bytes;
  }
  if (lines.empty()) return;
  std::swap(lines[transport_.below(lines.size())], lines.back());
  request.last_offset = lines.back().offset;
  request.last_bytes = lines.back().bytes;
  lines_.insert(lines_.end(), lines.begin(), lines.end() - 1);
}

/// Returns true when all lines have been posted but the last one of each request.
bool FaultyConnection::post_lines(bool at_once) {
  if (lines_.empty()) return true;
  const std::uint32_t most = transport_.options_.max_lines_per_poll;
  std::size_t budget = at_once || most == 0 ? lines_.size() : 1 + transport_.below(most);
  while (!lines_.empty() && budget > 0) {
    const Line& line = lines_.back();
    WorkRequest part = part_of(moving_[line.request].work, line.offset, line.bytes);
    part.id = posted_first_ + posted_.size() + line.request;
    if (!post_wrapped(part)) return false;
    lines_.pop_back();
    --budget;
  }
  return lines_.empty();
}

/// Returns true when all requests of `moving_` have been posted.
bool FaultyConnection::post_last() {
  for (; next_last_ < moving_.size(); ++next_last_) {
    const Request& request = moving_[next_last_];
    WorkRequest last = request.work;
    if (last.opcode != Opcode::kSend) {
      last = part_of(request.work, request.last_offset, request.last_bytes);
      last.opcode = request.work.opcode;
    }
    last.signaled = true;
    last.id = posted_first_ + posted_.size();
    if (!post_wrapped(last)) return false;
    posted_.push_back({request.work.id, request.work.signaled});
  }
  moving_.clear();
  return true;
}

void FaultyConnection::finish(std::deque<Late>& events, Event event) {
  event.connection = this;
  Late& late = events.emplace_back();
  late.event = event;
  late.message.assign(reinterpret_cast<const char*>(event.message.data()), event.message.size());
  late.due = transport_.due_after(transport_.options_.event_delay_probability);
}

void FaultyConnection::on_wrapped_event(const Event& event) {
  if (wrapped_ended_) return;
  switch (event.kind) {
    case Event::Kind::kAccepted:
      break;
    case Event::Kind::kCompletion: {
      if (event.result != OperationResult::kOk) {
        end(wrapped_->status(), event.result);
        break;
      }
      const Posted posted = posted_.front();
      posted_.pop_front();
      ++posted_first_;
      Event completion = event;
      completion.id = posted.id;
      if (posted.signaled) finish(completions_, completion);
      break;
    }
    case Event::Kind::kNotification:
    case Event::Kind::kMessage:
      finish(incoming_, event);
      break;
    case Event::Kind::kDisconnected:
      wrapped_ended_ = true;
      end(wrapped_->status(), OperationResult::kFlushed);
      break;
  }
}

void FaultyConnection::fail(OperationResult result) {
  if (failed_) return;
  const std::string what = fmt::format("{}: {} (injected)", peer_name(), to_string(result));
  wrapped_ended_ = true;
  end(result == OperationResult::kDeviceError ? absl::InternalError(what) : absl::UnavailableError(what),
      result);
  if (!mapped_) wrapped_.reset();
}

/// The connection has failed. Completes all outstanding requests: the first with `result`, the others as
/// flushed.
void FaultyConnection::end(const absl::Status& status, OperationResult result) {
  if (failed_) return;
  failed_ = true;
  status_ = status;
  Event completion;
  completion.result = result;
  const auto complete = [&](std::uint64_t id) {
    completion.id = id;
    finish(completions_, completion);
    completion.result = OperationResult::kFlushed;
  };
  for (const Posted& posted : posted_) complete(posted.id);
  for (std::size_t i = next_last_; i < moving_.size(); ++i) complete(moving_[i].work.id);
  for (const Request& request : queued_) complete(request.work.id);
  posted_.clear();
  moving_.clear();
  lines_.clear();
  queued_.clear();
}

std::size_t FaultyConnection::take_events(std::span<Event> events) {
  std::size_t count = 0;
  if (!taken_) return count;
  const auto take = [&](std::deque<Late>& from) {
    while (count < events.size() && !from.empty() && from.front().due <= transport_.poll_) {
      Event event = from.front().event;
      transport_.messages_.push_back(std::move(from.front().message));
      event.message = std::as_bytes(std::span(transport_.messages_.back()));
      from.pop_front();
      events[count++] = event;
    }
  };
  const bool completions_first = transport_.chance(0.5);
  take(completions_first ? completions_ : incoming_);
  take(completions_first ? incoming_ : completions_);
  if (failed_ && wrapped_ended_ && !disconnected_reported_ && count < events.size() && completions_.empty() &&
      incoming_.empty()) {
    disconnected_reported_ = true;
    events[count] = Event{};
    events[count].kind = Event::Kind::kDisconnected;
    events[count++].connection = this;
  }
  return count;
}

bool FaultyConnection::busy() const {
  return !queued_.empty() || !moving_.empty() || !completions_.empty() || !incoming_.empty() ||
         (wrapped_ended_ && !disconnected_reported_);
}

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> wrapped, const FaultOptions& options)
    : wrapped_(std::move(wrapped)), options_(options), random_(options.seed) {}

FaultyTransport::~FaultyTransport() = default;

void FaultyTransport::fail(Connection& connection, OperationResult result) {
  static_cast<FaultyConnection&>(connection).fail(result);
}

absl::StatusOr<std::unique_ptr<MemoryRegion>> FaultyTransport::allocate_region(std::size_t bytes,
                                                                               Access access) {
  return wrapped_->allocate_region(bytes, access);
}

absl::Status FaultyTransport::listen(const std::string& address) {
  return wrapped_->listen(address);
}

absl::StatusOr<std::unique_ptr<Connection>> FaultyTransport::connect(const std::string& address,
                                                                     TimePoint deadline) {
  auto connection = wrapped_->connect(address, deadline);
  if (!connection.ok()) return connection.status();
  return std::make_unique<FaultyConnection>(*this, std::move(*connection), /*taken=*/true);
}

std::unique_ptr<Connection> FaultyTransport::take_accepted() {
  if (accepted_.empty() || !accepted_.front().announced) return nullptr;
  std::unique_ptr<FaultyConnection> connection = std::move(accepted_.front().connection);
  accepted_.pop_front();
  connection->set_taken();
  return connection;
}

std::size_t FaultyTransport::poll(std::span<Event> events) {
  ++poll_;
  messages_.clear();
  messages_.reserve(events.size());  // events hold spans into the strings
  const std::vector<FaultyConnection*> connections = shuffled_connections();
  for (FaultyConnection* connection : connections) {
    connection->name_wrapped();
    if (failures_ < options_.most_failures && chance(options_.failure_probability)) {
      ++failures_;
      connection->fail(options_.failure);
    }
    connection->move_requests(/*at_once=*/false);
  }
  poll_wrapped();
  std::size_t count = announce_accepted(events);
  for (FaultyConnection* connection : connections) count += connection->take_events(events.subspan(count));
  return count;
}

void FaultyTransport::poll_wrapped() {
  constexpr std::size_t kEvents = 64;
  std::array<Event, kEvents> events;
  const std::size_t count = wrapped_->poll(events);
  for (const Event& event : std::span(events).first(count)) {
    if (event.kind == Event::Kind::kAccepted) {
      while (std::unique_ptr<Connection> connection = wrapped_->take_accepted()) {
        accepted_.push_back(
            {std::make_unique<FaultyConnection>(*this, std::move(connection), /*taken=*/false),
             due_after(options_.event_delay_probability)});
      }
      continue;
    }
    auto* const connection =
        reinterpret_cast<FaultyConnection*>(static_cast<std::uintptr_t>(event.connection->user_data));
    connection->on_wrapped_event(event);
  }
}

std::size_t FaultyTransport::announce_accepted(std::span<Event> events) {
  std::size_t count = 0;
  for (Accepted& accepted : accepted_) {
    if (accepted.announced) continue;
    if (count == events.size() || accepted.due > poll_) break;
    accepted.announced = true;
    events[count] = Event{};
    events[count++].kind = Event::Kind::kAccepted;
  }
  return count;
}

void FaultyTransport::wait(TimePoint deadline) {
  const bool busy = std::any_of(connections_.begin(), connections_.end(),
                                [](const FaultyConnection* connection) { return connection->busy(); });
  if (!busy && accepted_.empty()) wrapped_->wait(deadline);
}

bool FaultyTransport::chance(double probability) {
  return probability > 0 && std::bernoulli_distribution(probability)(random_);
}

std::size_t FaultyTransport::below(std::size_t bound) {
  return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
}

std::uint64_t FaultyTransport::due_after(double delay_probability) {
  return chance(delay_probability) ? poll_ + 1 + below(std::max(1U, options_.max_delay_polls)) : poll_;
}

std::vector<FaultyConnection*> FaultyTransport::shuffled_connections() {
  std::vector<FaultyConnection*> connections = connections_;
  std::shuffle(connections.begin(), connections.end(), random_);
  return connections;
}

}  // namespace verbena::transport
