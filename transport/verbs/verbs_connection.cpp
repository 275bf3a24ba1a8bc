#include "transport/verbs/verbs_connection.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/socket_address.hpp"
#include "transport/verbs/errors.hpp"
#include "transport/verbs/work_request_id.hpp"

namespace verbena::transport::verbs {

namespace {

constexpr auto kDrainPatience = std::chrono::seconds(1);

std::string text(const absl::Status& status) {
  return std::string(status.message());
}

}  // namespace

// ---- life

VerbsConnection::VerbsConnection(Hub& hub, Meeting::Role role)
    : hub_(hub),
      serial_(++hub.last_serial),
      sender_(hub.device, hub.options, hub.windows, serial_),
      receives_(serial_, hub.device.receive_depth() + kReservedReceives),
      queue_pair_(hub.device, hub.options, hub.queues, sender_.queue().depth(), receives_.count()),
      meeting_(hub, queue_pair_, *this, role),
      grants_(hub, *this, meeting_),
      watch_(clock_now()),
      events_(hub.ready) {
  hub_.connections.emplace(serial_, this);
}

VerbsConnection::VerbsConnection(Hub& hub, std::string address, const sockaddr_storage& destination,
                                 TimePoint deadline)
    : VerbsConnection(hub, Meeting::Role::kConnector) {
  events_.open();
  set_peer_name(address);
  absl::Status status = meeting_.seek(std::move(address), destination, deadline);
  if (!status.ok()) fail(std::move(status));
}

VerbsConnection::~VerbsConnection() {
  if (state_ == State::kOpen) drain();
  if (state_ != State::kFailed) queue_pair_.disconnect();
  hub_.windows.close(*this);
  queue_pair_.destroy();
  queue_pair_.destroy_id();
  if (failed_at_ && !disconnect_raised_) --hub_.failed;
  hub_.connections.erase(serial_);
  std::erase(hub_.attention, this);
  std::erase_if(hub_.ready, [&](const Hub::Pending& pending) { return pending.event.connection == this; });
  if (staging_) hub_.retired.push_back(std::move(*staging_));
}

// Waits until the peer's device has what was posted, at most `linger`.
void VerbsConnection::drain() {
  const TimePoint end = clock_now() + hub_.options.linger;
  while (state_ == State::kOpen && !sender_.queue().empty() && clock_now() < end) {
    if (!sender_.queue().awaits_report()) probe();
    hub_.queues.take();
  }
}

// ---- meeting

absl::Status VerbsConnection::create_queue_pair() {
  if (!staging_) {
    const std::size_t each = buffer_bytes(hub_.options.max_message_bytes);
    auto memory = RegisteredMemory::create(hub_.device, (receives_.count() + Sender::kBuffers) * each,
                                           IBV_ACCESS_LOCAL_WRITE);
    if (!memory.ok()) return memory.status();
    staging_.emplace(std::move(*memory));
    const BufferRow row = {
        .first = staging_->bytes().data(), .each_bytes = each, .key = staging_->registration()->lkey};
    receives_.use(row);
    sender_.use({.first = row.at(receives_.count()).data(), .each_bytes = each, .key = row.key});
  }
  receives_.restart();
  const absl::StatusOr<std::uint32_t> inline_bytes = queue_pair_.create(peer_name());
  if (!inline_bytes.ok()) return inline_bytes.status();
  sender_.set_max_inline(*inline_bytes);
  post_receives();
  return status_;
}

absl::Status VerbsConnection::ask() {
  RETURN_IF_ERROR(create_queue_pair());
  return meeting_.ask();
}

absl::Status VerbsConnection::take_answer(const ManagerEvent& event) {
  const absl::StatusOr<Welcome> theirs = meeting_.take_answer(event, peer_name());
  if (!theirs.ok()) return theirs.status();
  sender_.set_peer(theirs->receives, theirs->immediate == 1 && !hub_.device.iwarp());
  if (peer_name() == meeting_.address()) {
    set_peer_name(
        fmt::format("process {} at {}", theirs->process, host_of(queue_pair_.id()->route.addr.dst_addr)));
  }
  grants_.set_neighbour(visit(theirs->neighbours, meeting_.opening(), hub_.options.secret.get()));
  if (!hub_.device.iwarp()) {
    RETURN_IF_ERROR(queue_pair_.start(nullptr, peer_name()));
    if (hub_.device.api().establish(queue_pair_.id()) != 0) {
      const int error = errno;
      return errno_status(error, fmt::format("{}: the connection cannot be established", meeting_.address()));
    }
  }
  open();
  if (sender_.add_own(MessageKind::kIntroduction, static_cast<std::uint32_t>(::getpid()), true)) submit();
  return absl::OkStatus();
}

void VerbsConnection::open() {
  if (state_ != State::kConnecting) return;
  state_ = State::kOpen;
  meeting_.end();
  watch_.start(clock_now());
  if (!grants_.all_bound()) want_attention();
}

void VerbsConnection::on_manager_event(const ManagerEvent& event) {
  ++hub_.activity;
  if (event.id != queue_pair_.id() || state_ == State::kFailed) return;
  absl::Status status;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      status = meeting_.seek_route();
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      status = ask();
      break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      status = take_answer(event);
      break;
    case RDMA_CM_EVENT_ESTABLISHED:
      // On iWARP the acceptor waits for the first message, and the connector gets no earlier event than this.
      if (!meeting_.connects() && !hub_.device.iwarp()) open();
      if (meeting_.connects() && connecting()) status = take_answer(event);
      break;
    case RDMA_CM_EVENT_REJECTED:
      if (meeting_.connects() && connecting()) {
        status = meeting_.take_refusal(event);
      } else {
        status = absl::UnavailableError(fmt::format("{}: it gave the connection up", peer_name()));
      }
      break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      if (meeting_.connects() && connecting()) {
        meeting_.abandon(errno_text(std::abs(event.status), "its host cannot be reached"));
      } else {
        status = absl::UnavailableError(fmt::format("{}: the connection was never completed", peer_name()));
      }
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      status = absl::UnavailableError(fmt::format("{}: it closed or died", peer_name()));
      break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      status = absl::UnavailableError(
          fmt::format("{}: the device {} was removed", peer_name(), hub_.device.name()));
      break;
    default:
      break;
  }
  if (!status.ok()) fail(std::move(status));
}

std::unique_ptr<VerbsConnection> VerbsConnection::accept(Hub& hub, const ManagerEvent& request) {
  const VerbsApi& api = hub.device.api();
  const std::string from = fmt::format("a process at {}", host_of(request.id->route.addr.dst_addr));
  const std::optional<Opening> opening = read_opening(request.private_data);
  if (const std::optional<Refusal> refusal =
          hub.gatekeeper.refuses(opening, from, hub.options.max_message_bytes, clock_now())) {
    api.reject(request.id, &*refusal, sizeof(*refusal));
    api.destroy_id(request.id);
    return nullptr;
  }
  std::unique_ptr<VerbsConnection> connection(new VerbsConnection(hub, Meeting::Role::kAcceptor));
  connection->queue_pair_.adopt_id(request.id, *connection);
  connection->meeting_.expect(*opening, clock_now() + hub.options.peer_timeout);
  connection->set_peer_name(from);
  const absl::Status status = connection->answer(request);
  if (status.ok()) return connection;
  hub.gatekeeper.note(clock_now(), text(status));
  const Refusal refusal = {.max_message_bytes = hub.options.max_message_bytes,
                           .has_secret = hub.options.secret == nullptr ? 0U : 1U};
  api.reject(request.id, &refusal, sizeof(refusal));
  connection->state_ = State::kFailed;  // there is nothing to disconnect
  return nullptr;
}

absl::Status VerbsConnection::answer(const ManagerEvent& request) {
  const rdma_cm_id& id = *request.id;
  if (!hub_.device.is(id)) {
    return absl::FailedPreconditionError(
        fmt::format("{} came through device {} port {}, but {} port {} is in use", peer_name(),
                    id.verbs->device->name, id.port_num, hub_.device.name(), hub_.device.port()));
  }
  const Opening& opening = meeting_.opening();
  sender_.set_peer(opening.receives, (opening.flags & Opening::kImmediate) != 0 && !hub_.device.iwarp());
  RETURN_IF_ERROR(create_queue_pair());
  if (!hub_.device.iwarp()) {
    RETURN_IF_ERROR(queue_pair_.start(&request, peer_name()));
  }
  return meeting_.answer(request, peer_name());
}

// ---- granting

absl::StatusOr<RemoteDescriptor> VerbsConnection::grant(const MemoryRegion& region) {
  if (!status_.ok()) return status_;
  const absl::StatusOr<Grants::Grant> grant = grants_.add(region, peer_name());
  if (!grant.ok()) return grant.status();
  if (grant->fresh) {
    bind_windows();
    if (!status_.ok()) return status_;
  }
  return grant->descriptor;
}

absl::StatusOr<RemoteDescriptor> VerbsConnection::grant_in_place(const MemoryRegion& region) {
  if (region.access() != Access::kRemoteReadHostWrite) {
    return absl::PermissionDeniedError("a region that peers may not write in place cannot be granted so");
  }
  const absl::StatusOr<RemoteDescriptor> descriptor = grant(region);
  if (!descriptor.ok()) return descriptor;
  return grants_.pass(region, *descriptor);
}

// Usually the windows are bound when this returns, so that a peer can use a descriptor no matter how it got
// it. If the connection is not established soon, or the queue is full, they will be bound before anything
// that is posted later.
void VerbsConnection::bind_windows() {
  const TimePoint end = clock_now() + hub_.options.linger;
  while (connecting() && clock_now() < end) {
    hub_.check_device();
    hub_.queues.take();
  }
  want_attention();
  // Post only the windows: receives and credits must wait for poll(), because the owner may still look at the
  // messages of the last poll().
  if (state_ == State::kOpen) post_windows();
  while (state_ == State::kOpen && sender_.queue().binds() > 0 && clock_now() < end) hub_.queues.take();
}

bool VerbsConnection::post_windows() {
  grants_.bind(sender_);
  submit();
  return grants_.all_bound();
}

// ---- posting

std::size_t VerbsConnection::submit() {
  const Sender::Submitted submitted = sender_.submit(queue_pair_.get());
  if (submitted.error != 0) {
    fail(errno_status(submitted.error,
                      fmt::format("{}: {} takes no requests", peer_name(), hub_.device.name())));
  }
  return submitted.posted;
}

std::size_t VerbsConnection::do_post(std::span<const WorkRequest> requests) {
  if (state_ == State::kOpen && !grants_.all_bound()) post_windows();
  if (state_ != State::kOpen || !grants_.all_bound()) return 0;
  std::optional<Sender::Fault> fault = sender_.add(requests, peer_name());
  const std::size_t posted = submit();
  if (state_ == State::kFailed) return sender_.begun(posted);
  std::size_t taken = sender_.added();
  if (fault) {
    refused_ = Event{.kind = Event::Kind::kCompletion,
                     .result = fault->result,
                     .id = requests[taken++].id,
                     .connection = this};
    fail(std::move(fault->status));
  }
  return taken;
}

void VerbsConnection::probe() {
  if (sender_.room() == 0) return;
  sender_.add_probe();
  submit();
}

void VerbsConnection::want_attention() {
  if (std::exchange(wants_attention_, true)) return;
  hub_.attention.push_back(this);
}

void VerbsConnection::release_receive(std::uint32_t receive) {
  receives_.return_counted(receive);
  want_attention();
}

void VerbsConnection::attend() {
  if (state_ == State::kFailed) grants_.drop_unbound();
  bool content = true;
  if (queue_pair_.exists() && state_ != State::kFailed) {
    post_receives();
    // An acceptor's queue pair is ready to send before the connection manager reports that it is open.
    if (state_ == State::kOpen || !meeting_.connects()) content = post_windows();
    if (state_ == State::kOpen && receives_.owed_credits() >= hub_.device.receive_depth() / 2) {
      if (sender_.room() > 0 && sender_.add_own(MessageKind::kCredits, receives_.owed_credits(), false)) {
        receives_.credits_sent();
        submit();
      } else {
        content = false;
      }
    }
  }
  if (!content || !wants_attention_) return;
  wants_attention_ = false;
  std::erase(hub_.attention, this);
}

void VerbsConnection::post_receives() {
  if (const int error = receives_.post(hub_.device.api(), queue_pair_.get()); error != 0) {
    fail(errno_status(error, fmt::format("{}: {} takes no receives", peer_name(), hub_.device.name())));
  }
}

// ---- completing

void VerbsConnection::on_completion(const ibv_wc& completion) {
  if (!queue_pair_.exists()) return;  // a completion that was left over in the queue
  watch_.on_completion();
  ++hub_.activity;
  if (is_receive(completion.wr_id)) {
    on_receive_completion(completion);
  } else {
    on_send_completion(completion);
  }
}

void VerbsConnection::on_send_completion(const ibv_wc& completion) {
  const std::uint32_t number = place_of(completion.wr_id);
  if (!sender_.queue().contains(number)) {
    return fail(absl::InternalError(
        fmt::format("{}: {} completed a request that was not posted", peer_name(), hub_.device.name())));
  }
  while (sender_.queue().front_number() != number) complete_front(OperationResult::kOk);
  // First: to learn the cause may take further completions, which must not find this one still in front.
  complete_front(result_of(completion.status));
  if (completion.status != IBV_WC_SUCCESS) learn_cause(completion.status);
}

void VerbsConnection::complete_front(OperationResult result) {
  const bool ok = result == OperationResult::kOk;
  const SendQueue::Entry entry = sender_.complete(ok);
  if (ok ? entry.report_success : entry.report_failure) {
    events_.raise({.kind = Event::Kind::kCompletion, .result = result, .id = entry.id, .connection = this});
  }
}

void VerbsConnection::on_receive_completion(const ibv_wc& completion) {
  const std::uint32_t receive = place_of(completion.wr_id);
  if (!receives_.take(receive)) {
    return fail(absl::InternalError(
        fmt::format("{}: {} completed a receive that was not posted", peer_name(), hub_.device.name())));
  }
  if (completion.status != IBV_WC_SUCCESS) return learn_cause(completion.status);
  if (connecting()) {
    // An acceptor sends nothing before the connector does, and the connector sends nothing before it has the
    // acceptor's proof.
    if (meeting_.connects()) {
      return fail(absl::PermissionDeniedError(
          fmt::format("{}: who listens there spoke without having proved that it has this job's secret",
                      meeting_.address())));
    }
    // This arrived before the connection manager's event.
    if (!hub_.device.iwarp()) hub_.device.api().notify(queue_pair_.id(), IBV_EVENT_COMM_EST);
    open();
  }
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    events_.raise({.kind = Event::Kind::kNotification,
                   .notification = ::ntohl(completion.imm_data),
                   .connection = this},
                  receive);
  } else {
    take_message(receive, completion.byte_len);
  }
}

void VerbsConnection::take_message(std::uint32_t receive, std::uint32_t bytes) {
  const std::span<const std::byte> buffer = receives_.buffer(receive);
  MessageHeader header{};
  if (bytes >= sizeof(header) && bytes <= buffer.size()) {
    std::memcpy(&header, buffer.data(), sizeof(header));
    if (header.kind == MessageKind::kMessage) {
      return events_.raise({.kind = Event::Kind::kMessage,
                            .connection = this,
                            .message = buffer.subspan(sizeof(header), bytes - sizeof(header))},
                           receive);
    }
    if (header.kind == MessageKind::kNotification) {
      return events_.raise(
          {.kind = Event::Kind::kNotification, .notification = header.value, .connection = this}, receive);
    }
    const bool introduces = header.kind == MessageKind::kIntroduction && !meeting_.connects();
    if (introduces || (header.kind == MessageKind::kCredits && sender_.take_credits(header.value))) {
      if (introduces) {
        // The owner may have given the peer a name already.
        const std::string host = host_of(queue_pair_.id()->route.addr.dst_addr);
        if (peer_name() == fmt::format("a process at {}", host))
          set_peer_name(fmt::format("process {} at {}", header.value, host));
      }
      if (state_ != State::kOpen) return;
      receives_.return_reserved(receive);
      return post_receives();
    }
  }
  fail(absl::DataLossError(fmt::format("{}: it sent what no peer of this version sends", peer_name())));
}

// A flushed request tells that the connection has ended, but not why: the device or the peer may have
// reported the reason.
void VerbsConnection::learn_cause(ibv_wc_status status) {
  if (!status_.ok()) return;
  if (status == IBV_WC_WR_FLUSH_ERR) hub_.check_device();
  if (!status_.ok()) return;
  absl::Status cause = status_of(status, peer_name());
  if (hub_.port_down) {
    cause = absl::Status(cause.code(), fmt::format("{}; port {} of {} is down", text(cause),
                                                   hub_.device.port(), hub_.device.name()));
  }
  fail(std::move(cause));
}

void VerbsConnection::on_device_event(ibv_event_type type) {
  ++hub_.activity;
  switch (type) {
    case IBV_EVENT_QP_ACCESS_ERR:
      return fail(absl::PermissionDeniedError(
          fmt::format("{}: it tried to reach memory that it was not granted", peer_name())));
    case IBV_EVENT_QP_REQ_ERR:
      return fail(absl::InternalError(
          fmt::format("{}: it sent a request that {} cannot serve", peer_name(), hub_.device.name())));
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_CQ_ERR:
      return fail(
          absl::InternalError(fmt::format("{}: a queue of {} broke ({})", peer_name(), hub_.device.name(),
                                          type == IBV_EVENT_CQ_ERR ? "CQ_ERR" : "QP_FATAL")));
    case IBV_EVENT_DEVICE_FATAL:
      return fail(absl::UnavailableError(
          fmt::format("{}: the device {} broke down", peer_name(), hub_.device.name())));
    case IBV_EVENT_COMM_EST:
      if (connecting() && queue_pair_.id() != nullptr)
        hub_.device.api().notify(queue_pair_.id(), IBV_EVENT_COMM_EST);
      return;
    default:
      return;
  }
}

// ---- the end

void VerbsConnection::fail(absl::Status status) {
  if (state_ == State::kFailed) return;
  state_ = State::kFailed;
  status_ = std::move(status);
  failed_at_ = clock_now();
  ++hub_.failed;
  ++hub_.activity;
  // If the device cannot even flush, do not wait for it: see finish().
  if (queue_pair_.exists() && !queue_pair_.flush()) failed_at_ = TimePoint::min();
  queue_pair_.disconnect();
}

void VerbsConnection::finish(TimePoint now) {
  if (disconnect_raised_ || state_ != State::kFailed) return;
  const bool outstanding = !sender_.queue().empty() || receives_.posted() > 0;
  if (queue_pair_.exists() && outstanding && now - kDrainPatience < *failed_at_) return;
  hub_.windows.close(*this);
  queue_pair_.destroy();
  while (!sender_.queue().empty()) complete_front(OperationResult::kFlushed);
  if (refused_) events_.raise(*refused_);
  disconnect_raised_ = true;
  --hub_.failed;
  events_.raise(
      {.kind = Event::Kind::kDisconnected, .result = OperationResult::kPeerGone, .connection = this});
}

void VerbsConnection::tick(TimePoint now) {
  if (state_ == State::kFailed) return;
  if (connecting()) {
    absl::Status status = meeting_.tick(now, peer_name());
    if (!status.ok()) fail(std::move(status));
    return;
  }
  switch (watch_.look(now, hub_.options.peer_timeout, sender_.queue().awaits_report())) {
    case AnswerWatch::Finding::kFine:
      return;
    case AnswerWatch::Finding::kSilent:
      return probe();
    case AnswerWatch::Finding::kGone:
      return learn_cause(IBV_WC_RESP_TIMEOUT_ERR);
  }
}

}  // namespace verbena::transport::verbs
