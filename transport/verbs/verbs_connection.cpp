#include "transport/verbs/verbs_connection.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/inside.hpp"
#include "transport/verbs/address.hpp"
#include "transport/verbs/errors.hpp"

namespace verbena::transport::verbs {

namespace {

constexpr int kResolveTimeoutMs = 2000;
constexpr auto kAttemptPause = std::chrono::milliseconds(5);
constexpr auto kLongestAttemptPause = std::chrono::milliseconds(200);
constexpr auto kDrainPatience = std::chrono::seconds(1);
constexpr std::uint8_t kRetries = 6;         // for rxe 7 means endless
constexpr std::uint8_t kEndlessRetries = 7;  // of receiver-not-ready, which does not happen; see the header
constexpr std::uint32_t kSendBuffers = 16;
constexpr std::uint32_t kMostCredits = 1U << 20U;  // the most that any peer may give
constexpr std::uint32_t kReservedSends = 2;        // credits and an empty write must always find room

// A bit in a work request's identifier. The identifier tells what completed even if no other field of the
// completion is valid.
constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 31U;

std::uint64_t request_id(std::uint32_t serial, std::uint32_t number) {
  return std::uint64_t{serial} << 32U | number;
}

TimePoint clock_now() {
  return std::chrono::steady_clock::now();
}

// The upper half of a descriptor's key is the number under which memory that was granted in place was passed
// to a neighbour. The lower half is the device's key.
std::uint32_t device_key(const RemoteDescriptor& remote) {
  return static_cast<std::uint32_t>(remote.key);
}
std::uint64_t numbered_key(std::uint64_t key, std::uint32_t number) {
  return std::uint64_t{number} << 32U | key;
}
std::uint32_t number_of(const RemoteDescriptor& remote) {
  return static_cast<std::uint32_t>(remote.key >> 32U);
}

/// InfiniBand's code for the time until a retry, 4.096 µs × 2^code. All retries must fit into half of
/// `patience`, because devices take up to four times as long as they are told.
std::uint8_t retry_code(Duration patience) {
  const double each_us = std::chrono::duration<double, std::micro>(patience).count() / 2 / (kRetries + 1);
  return static_cast<std::uint8_t>(std::clamp(std::floor(std::log2(each_us / 4.096)), 1.0, 21.0));
}

std::string text(const absl::Status& status) {
  return std::string(status.message());
}

}  // namespace

// ---- life

VerbsConnection::VerbsConnection(Hub& hub, Role role)
    : hub_(hub),
      role_(role),
      serial_(++hub.last_serial),
      attempt_pause_(kAttemptPause),
      sends_(hub.device.send_depth()),
      requests_(hub.device.send_depth()),
      pieces_(hub.device.send_depth()),
      headers_(hub.device.send_depth()),
      alive_at_(clock_now()) {
  hub_.connections.emplace(serial_, this);
}

VerbsConnection::VerbsConnection(Hub& hub, std::string address, const sockaddr_storage& destination,
                                 TimePoint deadline)
    : VerbsConnection(hub, Role::kConnector) {
  address_ = std::move(address);
  destination_ = destination;
  deadline_ = deadline;
  taken_ = true;
  set_peer_name(address_);
  start_attempt();
}

VerbsConnection::~VerbsConnection() {
  if (state_ == State::kOpen) drain();
  // An identifier has no device before its address is resolved, and older libraries do not check that.
  if (state_ != State::kFailed && id_ != nullptr && id_->verbs != nullptr) api().disconnect(id_);
  hub_.windows.close(*this);
  destroy_queue_pair();
  destroy_id();
  if (failed_at_ && !disconnect_raised_) --hub_.failed;
  hub_.connections.erase(serial_);
  std::erase(hub_.attention, this);
  std::erase_if(hub_.ready, [&](const Hub::Pending& pending) { return pending.event.connection == this; });
  if (staging_) hub_.retired.push_back(std::move(*staging_));
}

// Waits until the peer's device has what was posted, at most `linger`.
void VerbsConnection::drain() {
  const TimePoint end = clock_now() + hub_.options.linger;
  while (state_ == State::kOpen && !sends_.empty() && clock_now() < end) {
    if (!sends_.awaits_report()) probe();
    hub_.queues.take();
  }
}

void VerbsConnection::take() {
  taken_ = true;
  for (Hub::Pending& pending : held_) hub_.ready.push_back(pending);
  held_.clear();
}

void VerbsConnection::raise(const Event& event, std::optional<std::uint32_t> receive) {
  (taken_ ? hub_.ready : held_).push_back({event, receive});
}

void VerbsConnection::destroy_id() {
  if (id_ != nullptr) api().destroy_id(std::exchange(id_, nullptr));
}

// ---- meeting: the connector

void VerbsConnection::prepare_opening() {
  opening_.flags = (hub_.device.iwarp() ? 0U : unsigned{Opening::kImmediate}) |
                   (answers_ ? unsigned{Opening::kAnswers} : 0U);
  opening_.receives = static_cast<std::uint16_t>(hub_.device.receive_depth());
  opening_.max_message_bytes = hub_.options.max_message_bytes;
  if (std::exchange(answers_, false)) {
    sign(opening_, hub_.options.secret.get());
    return;
  }
  opening_.challenge = {};
  opening_.proof = {};
}

rdma_conn_param VerbsConnection::parameters(std::span<const std::byte> data) const {
  return {.private_data = data.data(),
          .private_data_len = static_cast<std::uint8_t>(data.size()),
          .responder_resources = hub_.device.reads_at_once(),
          .initiator_depth = hub_.device.reads_at_once(),
          .flow_control = 1,
          .retry_count = kRetries,
          .rnr_retry_count = kEndlessRetries,
          .srq = 0,
          .qp_num = qp_->qp_num};
}

void VerbsConnection::start_attempt() {
  ManagerUser* user = this;
  if (api().create_id(hub_.channel, &id_, user, RDMA_PS_TCP) != 0) {
    id_ = nullptr;
    const int error = errno;
    return fail(errno_status(error, fmt::format("{}: no identifier of the connection manager", address_)));
  }
  // Connect from the device's own address if it is known: with two devices in one network the system would
  // choose one.
  sockaddr_storage source{};
  sockaddr* from = nullptr;
  auto& to = reinterpret_cast<sockaddr&>(destination_);
  if (!hub_.device.address().empty() && !is_loopback(to)) {
    const auto own = resolve({.host = hub_.device.address(), .port = 0});
    if (own.ok() && own->ss_family == to.sa_family) {
      source = *own;
      from = reinterpret_cast<sockaddr*>(&source);
    }
  }
  if (api().resolve_addr(id_, from, &to, kResolveTimeoutMs) != 0) {
    abandon_attempt(errno_text(errno, "its host cannot be reached"));
  }
}

void VerbsConnection::abandon_attempt(std::string obstacle) {
  obstacle_ = std::move(obstacle);
  asked_at_.reset();
  destroy_queue_pair();
  destroy_id();
  next_attempt_ = clock_now() + attempt_pause_;
  attempt_pause_ = std::min<Duration>(2 * attempt_pause_, kLongestAttemptPause);
}

absl::Status VerbsConnection::ask() {
  RETURN_IF_ERROR(create_queue_pair());
  if (!answers_) {
    const auto nonce = fresh_nonce();
    if (!nonce.ok()) return nonce.status();
    std::copy_n(nonce->begin(), opening_.nonce.size(), opening_.nonce.begin());
  }
  prepare_opening();
  rdma_conn_param param = parameters(std::as_bytes(std::span(&opening_, 1)));
  if (api().connect(id_, &param) != 0) {
    const int error = errno;
    return errno_status(error, fmt::format("{}: no connection can be asked for", address_));
  }
  asked_at_ = clock_now();
  return absl::OkStatus();
}

absl::Status VerbsConnection::take_answer(const ManagerEvent& event) {
  const std::optional<Welcome> theirs = read_welcome(event.private_data);
  if (!theirs) {
    return absl::FailedPreconditionError(
        fmt::format("{}: who listens there is not of this program's version", address_));
  }
  const Secret* secret = hub_.options.secret.get();
  if (!is_signed(*theirs, opening_, secret)) {
    return absl::PermissionDeniedError(
        fmt::format("{}: who listens there does not have this job's secret", address_));
  }
  if (theirs->max_message_bytes != hub_.options.max_message_bytes) {
    return absl::FailedPreconditionError(fmt::format("{}: its options differ: max_message_bytes {}; here {}",
                                                     peer_name(), theirs->max_message_bytes,
                                                     hub_.options.max_message_bytes));
  }
  send_credits_ = theirs->receives;
  immediate_ = theirs->immediate == 1 && !hub_.device.iwarp();
  if (peer_name() == address_)
    set_peer_name(fmt::format("process {} at {}", theirs->process, host_of(id_->route.addr.dst_addr)));
  neighbour_ = visit(theirs->neighbours, opening_, secret);
  if (!hub_.device.iwarp()) {
    RETURN_IF_ERROR(move_to(IBV_QPS_RTR, nullptr));
    RETURN_IF_ERROR(move_to(IBV_QPS_RTS, nullptr));
    if (api().establish(id_) != 0) {
      const int error = errno;
      return errno_status(error, fmt::format("{}: the connection cannot be established", address_));
    }
  }
  open();
  add_message(MessageKind::kIntroduction, static_cast<std::uint32_t>(::getpid()), {}, {.signaled = true});
  submit();
  return absl::OkStatus();
}

void VerbsConnection::take_refusal(const ManagerEvent& event) {
  const std::optional<Refusal> refusal = read_refusal(event.private_data);
  if (!refusal) return abandon_attempt("nobody of this program's version listens there");
  const bool has_secret = hub_.options.secret != nullptr;
  if (refusal->has_secret != 0 && !has_secret) {
    return fail(absl::PermissionDeniedError(fmt::format(
        "{}: who listens there is of a job that has a secret, and this process was given none", address_)));
  }
  if (refusal->has_secret == 0 && has_secret) {
    return fail(absl::PermissionDeniedError(fmt::format(
        "{}: who listens there was given no secret, and so cannot be of this process's job", address_)));
  }
  switch (refusal->reason) {
    case Refusal::kChallenge:
      return take_challenge(*refusal);
    case Refusal::kNoProof:
      return fail(absl::PermissionDeniedError(fmt::format(
          "{}: who listens there has another secret than this process: it is of another job", address_)));
    case Refusal::kOptions:
      return fail(absl::FailedPreconditionError(
          fmt::format("{}: its options differ: max_message_bytes {}; here {}", address_,
                      refusal->max_message_bytes, hub_.options.max_message_bytes)));
    default:
      return fail(absl::FailedPreconditionError(
          fmt::format("{}: it refused the connection; its log says why", address_)));
  }
}

/// Asks again at once, with the answer to the challenge.
void VerbsConnection::take_challenge(const Refusal& challenge) {
  if ((opening_.flags & Opening::kAnswers) != 0) return abandon_attempt("it challenges without end");
  abandon_attempt("it has not let this process in");
  opening_.challenge = challenge.challenge;
  answers_ = true;
  start_attempt();
}

void VerbsConnection::open() {
  if (state_ != State::kConnecting) return;
  state_ = State::kOpen;
  asked_at_.reset();
  alive_at_ = clock_now();
  if (!unbound_.empty()) want_attention();
}

void VerbsConnection::on_manager_event(const ManagerEvent& event) {
  ++hub_.activity;
  if (event.id != id_ || state_ == State::kFailed) return;
  absl::Status status;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (!hub_.device.is(*id_)) {
        status = absl::FailedPreconditionError(fmt::format(
            "{}: the way there leads through device {} port {}, but {} port {} is in use; choose "
            "the device by the option",
            address_, id_->verbs->device->name, id_->port_num, hub_.device.name(), hub_.device.port()));
      } else if (api().resolve_route(id_, kResolveTimeoutMs) != 0) {
        abandon_attempt(errno_text(errno, "there is no route to its host"));
      }
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      status = ask();
      break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      status = take_answer(event);
      break;
    case RDMA_CM_EVENT_ESTABLISHED:
      // On iWARP the acceptor waits for the first message, and the connector gets no earlier event than this.
      if (role_ == Role::kAcceptor && !hub_.device.iwarp()) open();
      if (role_ == Role::kConnector && connecting()) status = take_answer(event);
      break;
    case RDMA_CM_EVENT_REJECTED:
      if (role_ == Role::kConnector && connecting()) {
        take_refusal(event);
      } else {
        status = absl::UnavailableError(fmt::format("{}: it gave the connection up", peer_name()));
      }
      break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
      if (role_ == Role::kConnector && connecting()) {
        abandon_attempt(errno_text(std::abs(event.status), "its host cannot be reached"));
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

// ---- meeting: the acceptor

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
  std::unique_ptr<VerbsConnection> connection(new VerbsConnection(hub, Role::kAcceptor));
  connection->id_ = request.id;
  ManagerUser* user = connection.get();
  request.id->context = user;
  connection->deadline_ = clock_now() + hub.options.peer_timeout;
  connection->opening_ = *opening;
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
  if (!hub_.device.is(*id_)) {
    return absl::FailedPreconditionError(
        fmt::format("{} came through device {} port {}, but {} port {} is in use", peer_name(),
                    id_->verbs->device->name, id_->port_num, hub_.device.name(), hub_.device.port()));
  }
  send_credits_ = opening_.receives;
  immediate_ = (opening_.flags & Opening::kImmediate) != 0 && !hub_.device.iwarp();
  RETURN_IF_ERROR(create_queue_pair());
  if (!hub_.device.iwarp()) {
    RETURN_IF_ERROR(move_to(IBV_QPS_RTR, &request));
    RETURN_IF_ERROR(move_to(IBV_QPS_RTS, &request));
  }
  Welcome welcome{.immediate = hub_.device.iwarp() ? 0U : 1U,
                  .receives = hub_.device.receive_depth(),
                  .max_message_bytes = hub_.options.max_message_bytes,
                  .process = static_cast<std::uint32_t>(::getpid()),
                  .neighbours = hub_.neighbours.name()};
  sign(welcome, opening_, hub_.options.secret.get());
  rdma_conn_param param = parameters(std::as_bytes(std::span(&welcome, 1)));
  param.responder_resources = std::min(param.responder_resources, request.responder_resources);
  param.initiator_depth = std::min(param.initiator_depth, request.initiator_depth);
  if (api().accept(id_, &param) != 0) {
    const int error = errno;
    return errno_status(error, fmt::format("{} cannot be accepted", peer_name()));
  }
  return absl::OkStatus();
}

// ---- the queue pair

std::size_t VerbsConnection::buffer_bytes() const {
  const std::size_t bytes = sizeof(MessageHeader) + hub_.options.max_message_bytes;
  return (bytes + 7) / 8 * 8;
}

std::span<std::byte> VerbsConnection::receive_buffer(std::uint32_t receive) const {
  return staging_->bytes().subspan(receive * buffer_bytes(), buffer_bytes());
}

std::span<std::byte> VerbsConnection::send_buffer(std::uint32_t number) const {
  return receive_buffer(receives() + number % kSendBuffers);
}

absl::Status VerbsConnection::create_staging() {
  auto memory = RegisteredMemory::create(hub_.device, (receives() + kSendBuffers) * buffer_bytes(),
                                         IBV_ACCESS_LOCAL_WRITE);
  if (!memory.ok()) return memory.status();
  staging_.emplace(std::move(*memory));
  return absl::OkStatus();
}

absl::StatusOr<ibv_qp*> VerbsConnection::create_queue_pair(ibv_qp_init_attr& attributes) {
  // A device does not tell how many inline bytes it grants; some refuse the queue pair instead of granting
  // less.
  for (std::uint32_t bytes = hub_.options.max_inline_bytes;; bytes /= 2) {
    attributes.cap = {.max_send_wr = sends_.depth(),
                      .max_recv_wr = receives(),
                      .max_send_sge = 2,
                      .max_recv_sge = 1,
                      .max_inline_data = bytes};
    ibv_qp* qp = api().create_qp(hub_.device.domain(), &attributes);
    if (qp != nullptr) return qp;
    if (bytes == 0) break;
  }
  const int error = errno;
  return errno_status(error,
                      fmt::format("{}: {} makes no queue pair with {} sends and {} receives (of {} queue "
                                  "pairs)",
                                  peer_name(), hub_.device.name(), sends_.depth(), receives(),
                                  hub_.device.attributes().max_qp));
}

absl::Status VerbsConnection::create_queue_pair() {
  if (!staging_) {
    RETURN_IF_ERROR(create_staging());
  }
  auto queue = hub_.queues.reserve(sends_.depth() + receives());
  if (!queue.ok()) return queue.status();
  queue_ = *queue;
  ibv_qp_init_attr attributes{};
  attributes.send_cq = queue_->cq;
  attributes.recv_cq = queue_->cq;
  attributes.qp_type = IBV_QPT_RC;
  auto qp = create_queue_pair(attributes);
  if (!qp.ok()) {
    hub_.queues.release(*std::exchange(queue_, nullptr), sends_.depth() + receives());
    return qp.status();
  }
  qp_ = *qp;
  max_inline_bytes_ = std::min(attributes.cap.max_inline_data, hub_.options.max_inline_bytes);
  if (max_inline_bytes_ < hub_.options.max_inline_bytes) {
    spdlog::debug("{} grants {} bytes inline instead of {}", hub_.device.name(), max_inline_bytes_,
                  hub_.options.max_inline_bytes);
  }
  RETURN_IF_ERROR(move_to(IBV_QPS_INIT, nullptr));
  free_receives_.clear();
  for (std::uint32_t receive = 0; receive < receives(); ++receive) free_receives_.push_back(receive);
  post_receives();
  return status_;
}

absl::Status VerbsConnection::move_to(ibv_qp_state state, const ManagerEvent* request) {
  ibv_qp_attr attributes{};
  int mask = 0;
  attributes.qp_state = state;
  if (api().init_qp_attr(id_, &attributes, &mask) != 0) {
    const int error = errno;
    return errno_status(error, fmt::format("{}: the connection manager has no parameters", peer_name()));
  }
  if (state == IBV_QPS_INIT) {
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  if ((mask & IBV_QP_TIMEOUT) != 0) attributes.timeout = retry_code(hub_.options.peer_timeout);
  if (request != nullptr) {
    const std::uint8_t most = hub_.device.reads_at_once();
    if (state == IBV_QPS_RTR) attributes.max_dest_rd_atomic = std::min(most, request->responder_resources);
    if (state == IBV_QPS_RTS) attributes.max_rd_atomic = std::min(most, request->initiator_depth);
  }
  if (const int error = api().modify_qp(qp_, &attributes, mask); error != 0) {
    return errno_status(error, fmt::format("{}: its queue pair cannot be set to state {}", peer_name(),
                                           static_cast<int>(state)));
  }
  return absl::OkStatus();
}

void VerbsConnection::destroy_queue_pair() {
  if (qp_ != nullptr) {
    if (const int error = api().destroy_qp(std::exchange(qp_, nullptr)); error != 0) {
      spdlog::error("{}", errno_text(error, "a queue pair cannot be destroyed"));
    }
  }
  posted_receives_ = 0;
  if (queue_ == nullptr) return;
  hub_.queues.release(*std::exchange(queue_, nullptr), sends_.depth() + receives());
}

// ---- granting

absl::StatusOr<RemoteDescriptor> VerbsConnection::grant(const MemoryRegion& region) {
  if (!status_.ok()) return status_;
  const auto* ours = dynamic_cast<const VerbsRegion*>(&region);
  if (ours == nullptr || &ours->owner() != &hub_.windows) {
    return absl::InvalidArgumentError("the region to be granted belongs to another transport");
  }
  if (region.access() == Access::kLocal) {
    return absl::PermissionDeniedError("a local region cannot be granted to a peer");
  }
  auto grant = hub_.windows.grant(*ours, *this);
  if (!grant.ok()) {
    return absl::Status(grant.status().code(), fmt::format("{}: {}", peer_name(), text(grant.status())));
  }
  if (grant->fresh) {
    unbound_.push_back(grant->binding);
    bind_windows();
    if (!status_.ok()) return status_;
  }
  return RemoteDescriptor{.address = reinterpret_cast<std::uintptr_t>(region.bytes().data()),
                          .length_bytes = region.bytes().size(),
                          .key = grant->key};
}

absl::StatusOr<RemoteDescriptor> VerbsConnection::grant_in_place(const MemoryRegion& region) {
  if (region.access() != Access::kRemoteReadHostWrite) {
    return absl::PermissionDeniedError("a region that peers may not write in place cannot be granted so");
  }
  absl::StatusOr<RemoteDescriptor> descriptor = grant(region);
  Neighbour* const peer = descriptor.ok() ? neighbour() : nullptr;
  if (peer == nullptr) return descriptor;
  // Pass it anew each time: a number belongs to one file for ever, but keys can be used again.
  const std::uint32_t number = peer->pass(region.bytes(), static_cast<const VerbsRegion&>(region).file());
  descriptor->key = numbered_key(descriptor->key, number);
  return descriptor;
}

std::byte* VerbsConnection::mapped_in_place(const RemoteDescriptor& remote) {
  const std::uint32_t number = number_of(remote);
  Neighbour* const peer = number == 0 ? nullptr : neighbour();
  return peer == nullptr ? nullptr : peer->find(number, remote.address, remote.length_bytes);
}

/// A neighbour comes before it sends anything over the device.
Neighbour* VerbsConnection::neighbour() {
  if (neighbour_ == nullptr && role_ == Role::kAcceptor)
    neighbour_ = hub_.neighbours.claim(opening_, hub_.options.secret.get());
  return neighbour_.get();
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
  while (state_ == State::kOpen && binds_ > 0 && clock_now() < end) hub_.queues.take();
}

bool VerbsConnection::post_windows() {
  std::size_t bound = 0;
  for (; bound < unbound_.size() && sends_.room() > kReservedSends; ++bound) {
    const Windows::Binding& binding = unbound_[bound];
    if (!hub_.windows.exists(binding)) continue;  // the region is gone already
    ibv_send_wr& request = add({.bind = true, .signaled = true}, {}, 0);
    ++binds_;
    request.opcode = IBV_WR_BIND_MW;
    request.bind_mw.mw = binding.window;
    request.bind_mw.rkey = binding.key;
    request.bind_mw.bind_info = {
        .mr = binding.region->registration(),
        .addr = reinterpret_cast<std::uintptr_t>(binding.region->bytes().data()),
        .length = binding.region->bytes().size(),
        .mw_access_flags = static_cast<unsigned>(remote_right(binding.region->access()))};
  }
  unbound_.erase(unbound_.begin(), unbound_.begin() + static_cast<std::ptrdiff_t>(bound));
  submit();
  return unbound_.empty();
}

// ---- posting

ibv_send_wr& VerbsConnection::add(const SendQueue::Entry& entry, std::span<const std::byte> local,
                                  std::uint32_t key) {
  const std::uint32_t number = sends_.push(entry);
  ibv_send_wr& request = requests_[prepared_];
  std::array<ibv_sge, 2>& pieces = pieces_[prepared_];
  ++prepared_;
  request = {};
  request.wr_id = request_id(serial_, number);
  request.sg_list = pieces.data();
  request.num_sge = local.empty() ? 0 : 1;
  request.send_flags = entry.signaled ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0U;
  pieces[0] = {.addr = reinterpret_cast<std::uintptr_t>(local.data()),
               .length = static_cast<std::uint32_t>(local.size()),
               .lkey = key};
  return request;
}

bool VerbsConnection::add_message(MessageKind kind, std::uint32_t value, std::span<const std::byte> payload,
                                  SendQueue::Entry entry) {
  const MessageHeader header = {.kind = kind, .value = value};
  const std::size_t bytes = sizeof(header) + payload.size();
  if (bytes <= max_inline_bytes_) {
    MessageHeader& kept = headers_[prepared_];
    kept = header;
    entry.signaled = entry.signaled || sends_.must_signal();
    ibv_send_wr& request = add(entry, std::as_bytes(std::span(&kept, 1)), 0);
    request.opcode = IBV_WR_SEND;
    request.send_flags |= IBV_SEND_INLINE;
    if (!payload.empty()) {
      request.sg_list[1] = {.addr = reinterpret_cast<std::uintptr_t>(payload.data()),
                            .length = static_cast<std::uint32_t>(payload.size()),
                            .lkey = 0};
      request.num_sge = 2;
    }
    return true;
  }
  if (buffers_taken_ - buffers_released_ == kSendBuffers) return false;
  const std::span<std::byte> buffer = send_buffer(buffers_taken_++).first(bytes);
  std::memcpy(buffer.data(), &header, sizeof(header));
  if (!payload.empty()) std::memcpy(buffer.data() + sizeof(header), payload.data(), payload.size());
  entry.buffered = true;
  entry.signaled = true;  // there are few buffers
  add(entry, buffer, staging_->registration()->lkey).opcode = IBV_WR_SEND;
  return true;
}

std::size_t VerbsConnection::submit() {
  const std::uint32_t count = std::exchange(prepared_, 0);
  if (count == 0) return 0;
  for (std::uint32_t i = 0; i + 1 < count; ++i) requests_[i].next = &requests_[i + 1];
  requests_[count - 1].next = nullptr;
  ibv_send_wr* bad = nullptr;
  const int error = api().post_send(qp_, requests_.data(), &bad);
  if (error == 0) return count;
  const bool known = bad >= requests_.data() && bad < requests_.data() + count;
  const auto posted = known ? static_cast<std::uint32_t>(bad - requests_.data()) : 0;
  sends_.drop_last(count - posted);
  fail(errno_status(error, fmt::format("{}: {} takes no requests", peer_name(), hub_.device.name())));
  return posted;
}

std::optional<VerbsConnection::Fault> VerbsConnection::fault_of(const WorkRequest& request) const {
  const std::size_t bytes = request.local.size();
  if (request.opcode == Opcode::kSend) {
    if (bytes <= hub_.options.max_message_bytes) return std::nullopt;
    return Fault{
        OperationResult::kDeviceError,
        absl::InternalError(fmt::format("{}: a message of {} bytes was posted to it; at most {} can be",
                                        peer_name(), bytes, hub_.options.max_message_bytes))};
  }
  if (bytes == 0) return std::nullopt;
  const auto* region = dynamic_cast<const VerbsRegion*>(request.region);
  if (region == nullptr || &region->owner() != &hub_.windows || !is_inside(request.local, region->bytes())) {
    return Fault{OperationResult::kAccessDenied,
                 absl::PermissionDeniedError(fmt::format(
                     "{}: a request was posted to it whose local bytes are in no region", peer_name()))};
  }
  if (request.remote.length_bytes < bytes) {
    return Fault{
        OperationResult::kAccessDenied,
        absl::PermissionDeniedError(fmt::format(
            "{}: {} bytes are not allowed there: no such region, or too short", peer_name(), bytes))};
  }
  if (bytes > hub_.device.max_transfer_bytes()) {
    return Fault{OperationResult::kDeviceError,
                 absl::InternalError(
                     fmt::format("{}: a request of {} bytes was posted to it; {} moves {} at once",
                                 peer_name(), bytes, hub_.device.name(), hub_.device.max_transfer_bytes()))};
  }
  return std::nullopt;
}

bool VerbsConnection::has_room_for(const WorkRequest& request) const {
  const bool send = request.opcode == Opcode::kSend;
  const bool notify = request.opcode == Opcode::kWriteNotify;
  if (sends_.room() < kReservedSends + 2 || ((send || notify) && send_credits_ == 0)) return false;
  const std::size_t message_bytes = sizeof(MessageHeader) + (send ? request.local.size() : 0);
  const bool takes_buffer = (send || (notify && !immediate_)) && message_bytes > max_inline_bytes_;
  return !takes_buffer || buffers_taken_ - buffers_released_ < kSendBuffers;
}

void VerbsConnection::prepare_transfer(const WorkRequest& request) {
  const bool notify = request.opcode == Opcode::kWriteNotify;
  const bool two_requests = notify && !immediate_;
  const bool signaled = request.signaled && !two_requests;
  // An empty read brings no bytes back: an empty write takes its place.
  const bool read = request.opcode == Opcode::kRead && !request.local.empty();
  const std::uint32_t key =
      request.local.empty() ? 0 : static_cast<const VerbsRegion*>(request.region)->local_key();
  ibv_send_wr& transfer = add({.id = request.id,
                               .report_success = signaled,
                               .report_failure = true,
                               .continued = two_requests,
                               .read = read,
                               .signaled = signaled || sends_.must_signal()},
                              request.local, key);
  transfer.wr.rdma.remote_addr = request.remote.address;
  transfer.wr.rdma.rkey = device_key(request.remote);
  transfer.opcode = read                      ? IBV_WR_RDMA_READ
                    : notify && !two_requests ? IBV_WR_RDMA_WRITE_WITH_IMM
                                              : IBV_WR_RDMA_WRITE;
  transfer.imm_data = ::htonl(request.notification);
  // The data to write may be what an earlier read brings: so do not copy it now, and do not overtake the
  // read.
  if (read) {
    ++reads_;
  } else if (reads_ > 0) {
    transfer.send_flags |= IBV_SEND_FENCE;
  } else if (!request.local.empty() && request.local.size() <= max_inline_bytes_) {
    transfer.send_flags |= IBV_SEND_INLINE;
  }
  if (!two_requests) return;
  add_message(MessageKind::kNotification, request.notification, {},
              {.id = request.id,
               .report_success = request.signaled,
               .report_failure = true,
               .signaled = request.signaled});
}

// REQUIRES: there is room for the request, and it has no fault.
void VerbsConnection::prepare(const WorkRequest& request) {
  if (request.opcode == Opcode::kSend || request.opcode == Opcode::kWriteNotify) --send_credits_;
  if (request.opcode != Opcode::kSend) return prepare_transfer(request);
  add_message(MessageKind::kMessage, 0, request.local,
              {.id = request.id,
               .report_success = request.signaled,
               .report_failure = true,
               .signaled = request.signaled});
  // A message overtakes an earlier read unless it has a fence.
  if (reads_ > 0) requests_[prepared_ - 1].send_flags |= IBV_SEND_FENCE;
}

std::size_t VerbsConnection::post(std::span<const WorkRequest> requests) {
  if (state_ == State::kOpen && !unbound_.empty()) post_windows();
  if (state_ != State::kOpen || !unbound_.empty()) return 0;
  request_ends_.clear();
  std::optional<Fault> fault;
  for (const WorkRequest& request : requests) {
    if (!has_room_for(request)) break;
    fault = fault_of(request);
    if (fault) break;
    prepare(request);
    request_ends_.push_back(prepared_);
  }
  const std::size_t posted = submit();
  if (state_ == State::kFailed) {
    // A request counts as posted even if only a part of it was posted: that part will complete.
    const auto first_incomplete = std::upper_bound(request_ends_.begin(), request_ends_.end(), posted);
    const auto complete = static_cast<std::size_t>(first_incomplete - request_ends_.begin());
    const std::size_t complete_end = complete == 0 ? 0 : request_ends_[complete - 1];
    return complete + (posted > complete_end ? 1 : 0);
  }
  std::size_t taken = request_ends_.size();
  if (fault) {
    refused_ = Event{.kind = Event::Kind::kCompletion,
                     .result = fault->result,
                     .id = requests[taken++].id,
                     .connection = this};
    fail(std::move(fault->status));
  }
  return taken;
}

// An empty write proves that the peer's device answers, and frees the send queue up to here.
void VerbsConnection::probe() {
  if (sends_.room() == 0) return;
  add({.signaled = true}, {}, 0).opcode = IBV_WR_RDMA_WRITE;
  submit();
}

void VerbsConnection::want_attention() {
  if (std::exchange(wants_attention_, true)) return;
  hub_.attention.push_back(this);
}

void VerbsConnection::release_receive(std::uint32_t receive) {
  free_receives_.push_back(receive);
  ++owed_credits_;
  want_attention();
}

void VerbsConnection::attend() {
  if (state_ == State::kFailed) unbound_.clear();
  bool content = true;
  if (qp_ != nullptr && state_ != State::kFailed) {
    post_receives();
    // An acceptor's queue pair is ready to send before the connection manager reports that it is open.
    if (state_ == State::kOpen || role_ == Role::kAcceptor) content = post_windows();
    if (state_ == State::kOpen && owed_credits_ >= hub_.device.receive_depth() / 2) {
      if (sends_.room() > 0 && add_message(MessageKind::kCredits, owed_credits_, {}, {})) {
        owed_credits_ = 0;
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
  if (free_receives_.empty()) return;
  std::vector<ibv_recv_wr>& requests = receive_requests_;
  std::vector<ibv_sge>& pieces = receive_pieces_;
  requests.assign(free_receives_.size(), {});
  pieces.assign(free_receives_.size(), {});
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::span<std::byte> buffer = receive_buffer(free_receives_[i]);
    pieces[i] = {.addr = reinterpret_cast<std::uintptr_t>(buffer.data()),
                 .length = static_cast<std::uint32_t>(buffer.size()),
                 .lkey = staging_->registration()->lkey};
    requests[i].wr_id = request_id(serial_, free_receives_[i]) | kReceiveBit;
    requests[i].next = i + 1 < requests.size() ? &requests[i + 1] : nullptr;
    requests[i].sg_list = &pieces[i];
    requests[i].num_sge = 1;
  }
  ibv_recv_wr* bad = nullptr;
  const int error = api().post_recv(qp_, requests.data(), &bad);
  const bool known = error != 0 && bad >= requests.data() && bad < requests.data() + requests.size();
  posted_receives_ += error == 0 ? static_cast<std::uint32_t>(requests.size())
                      : known    ? static_cast<std::uint32_t>(bad - requests.data())
                                 : 0;
  free_receives_.clear();
  if (error != 0) {
    fail(errno_status(error, fmt::format("{}: {} takes no receives", peer_name(), hub_.device.name())));
  }
}

// ---- completing

void VerbsConnection::on_completion(const ibv_wc& completion) {
  if (qp_ == nullptr) return;  // a completion that was left over in the queue
  ++completions_;
  ++hub_.activity;
  const auto number = static_cast<std::uint32_t>(completion.wr_id);
  if ((completion.wr_id & kReceiveBit) != 0) {
    on_receive_completion(completion, number & ~static_cast<std::uint32_t>(kReceiveBit));
  } else {
    on_send_completion(completion, number);
  }
}

void VerbsConnection::on_send_completion(const ibv_wc& completion, std::uint32_t number) {
  if (!sends_.contains(number)) {
    return fail(absl::InternalError(
        fmt::format("{}: {} completed a request that was not posted", peer_name(), hub_.device.name())));
  }
  while (sends_.front_number() != number) complete_front(OperationResult::kOk);
  if (completion.status != IBV_WC_SUCCESS) learn_cause(completion.status);
  complete_front(result_of(completion.status));
}

void VerbsConnection::complete_front(OperationResult result) {
  const SendQueue::Entry entry = sends_.front();
  sends_.pop();
  if (entry.buffered) ++buffers_released_;
  if (entry.read) --reads_;
  if (entry.bind) --binds_;
  const bool ok = result == OperationResult::kOk;
  if (ok ? entry.report_success : entry.report_failure) {
    raise({.kind = Event::Kind::kCompletion, .result = result, .id = entry.id, .connection = this});
  }
  // The failure of a request's first part is the failure of the request.
  if (!ok && entry.continued && !sends_.empty()) sends_.front().report_failure = false;
}

void VerbsConnection::on_receive_completion(const ibv_wc& completion, std::uint32_t receive) {
  if (posted_receives_ == 0 || receive >= receives()) {
    return fail(absl::InternalError(
        fmt::format("{}: {} completed a receive that was not posted", peer_name(), hub_.device.name())));
  }
  --posted_receives_;
  if (completion.status != IBV_WC_SUCCESS) return learn_cause(completion.status);
  if (connecting()) {
    // An acceptor sends nothing before the connector does, and the connector sends nothing before it has the
    // acceptor's proof.
    if (role_ == Role::kConnector) {
      return fail(absl::PermissionDeniedError(fmt::format(
          "{}: who listens there spoke without having proved that it has this job's secret", address_)));
    }
    // This arrived before the connection manager's event.
    if (!hub_.device.iwarp()) api().notify(id_, IBV_EVENT_COMM_EST);
    open();
  }
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    raise({.kind = Event::Kind::kNotification,
           .notification = ::ntohl(completion.imm_data),
           .connection = this},
          receive);
  } else {
    take_message(receive, completion.byte_len);
  }
}

void VerbsConnection::take_message(std::uint32_t receive, std::uint32_t bytes) {
  const std::span<const std::byte> buffer = receive_buffer(receive);
  MessageHeader header{};
  if (bytes >= sizeof(header) && bytes <= buffer.size()) {
    std::memcpy(&header, buffer.data(), sizeof(header));
    if (header.kind == MessageKind::kMessage) {
      return raise({.kind = Event::Kind::kMessage,
                    .connection = this,
                    .message = buffer.subspan(sizeof(header), bytes - sizeof(header))},
                   receive);
    }
    if (header.kind == MessageKind::kNotification) {
      return raise({.kind = Event::Kind::kNotification, .notification = header.value, .connection = this},
                   receive);
    }
    const bool introduces = header.kind == MessageKind::kIntroduction && role_ == Role::kAcceptor;
    if (introduces ||
        (header.kind == MessageKind::kCredits && header.value <= kMostCredits - send_credits_)) {
      if (introduces) {
        // The owner may have given the peer a name already.
        const std::string host = fmt::format("a process at {}", host_of(id_->route.addr.dst_addr));
        if (peer_name() == host)
          set_peer_name(fmt::format("process {} at {}", header.value, host_of(id_->route.addr.dst_addr)));
      } else {
        send_credits_ += header.value;
      }
      if (state_ != State::kOpen) return;
      free_receives_.push_back(receive);
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
      if (connecting() && id_ != nullptr) api().notify(id_, IBV_EVENT_COMM_EST);
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
  if (qp_ != nullptr) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    // Flushes the outstanding requests. If the device cannot do even that, do not wait for it: see finish().
    if (api().modify_qp(qp_, &attributes, IBV_QP_STATE) != 0) failed_at_ = TimePoint::min();
  }
  if (id_ != nullptr && id_->verbs != nullptr) api().disconnect(id_);  // fails if the peer was faster
}

void VerbsConnection::finish(TimePoint now) {
  if (disconnect_raised_ || state_ != State::kFailed) return;
  if (qp_ != nullptr && (!sends_.empty() || posted_receives_ > 0) && now - kDrainPatience < *failed_at_)
    return;
  hub_.windows.close(*this);
  destroy_queue_pair();
  while (!sends_.empty()) complete_front(OperationResult::kFlushed);
  if (refused_) raise(*refused_);
  disconnect_raised_ = true;
  --hub_.failed;
  raise({.kind = Event::Kind::kDisconnected, .result = OperationResult::kPeerGone, .connection = this});
}

void VerbsConnection::tick(TimePoint now) {
  if (state_ == State::kFailed) return;
  if (connecting()) {
    if (now >= deadline_) {
      fail(absl::DeadlineExceededError(fmt::format("{}: nobody has accepted connections there in time{}{}",
                                                   role_ == Role::kConnector ? address_ : peer_name(),
                                                   obstacle_.empty() ? "" : ": ", obstacle_)));
    } else if (role_ == Role::kConnector && id_ == nullptr && now >= next_attempt_) {
      start_attempt();
    }
    return;
  }
  const Duration patience = hub_.options.peer_timeout;
  // If this side has not looked for a long time, it cannot tell whether the peer has answered.
  if (now - std::exchange(last_tick_, now) > patience / 4) waiting_since_.reset();
  if (std::exchange(completions_at_tick_, completions_) != completions_) {
    alive_at_ = now;
    waiting_since_.reset();
  } else if (!sends_.awaits_report()) {
    waiting_since_.reset();
    if (now - alive_at_ > patience / 4) probe();
  } else if (!waiting_since_) {
    waiting_since_ = now;
  } else if (now - *waiting_since_ > patience) {
    learn_cause(IBV_WC_RESP_TIMEOUT_ERR);
  }
}

}  // namespace verbena::transport::verbs
