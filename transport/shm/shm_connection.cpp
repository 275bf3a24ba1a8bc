#include "transport/shm/shm_connection.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/prefetch.hpp"
#include "base/return_if_error.hpp"
#include "transport/inside.hpp"
#include "transport/shm/transfer.hpp"

namespace verbena::transport::shm {

namespace {

/// Of requests that are posted together: how many ahead the source of a read is fetched. Between two short
/// reads lie more instructions than a processor looks ahead, so that it would wait for each source by itself.
constexpr std::size_t kRequestsAhead = 4;
/// How much of it: a transfer that is longer fetches the rest by itself, since it goes from line to line.
constexpr std::size_t kMostAheadBytes = 512;
constexpr std::size_t kLineBytes = 64;

ShmConnection::Side other(ShmConnection::Side side) {
  return side == ShmConnection::Side::kConnector ? ShmConnection::Side::kAcceptor
                                                 : ShmConnection::Side::kConnector;
}

ChannelLayout channel(const Hub& hub, const Mapping& channels, ShmConnection::Side sender) {
  return {channels.bytes().data() + ShmConnection::channel_offset(hub.geometry, sender), hub.geometry};
}

}  // namespace

std::size_t ShmConnection::channel_offset(const ChannelGeometry& geometry, Side sender) {
  return sender == Side::kConnector ? 0 : whole_pages(geometry.bytes());
}

std::size_t ShmConnection::channels_bytes(const ChannelGeometry& geometry) {
  return 2 * whole_pages(geometry.bytes());
}

ShmConnection::ShmConnection(Hub& hub, Side side, ControlSocket socket, const Peer& peer, Mapping channels,
                             Doorbell doorbell, RegionTable regions)
    : hub_(hub),
      socket_(std::move(socket)),
      channels_(std::move(channels)),
      sender_(channel(hub, channels_, side)),
      receiver_(channel(hub, channels_, other(side))),
      peer_doorbell_(std::move(doorbell)),
      peer_regions_(std::move(regions)) {
  set_peer_name(fmt::format("process {}", peer.pid));
}

absl::StatusOr<std::unique_ptr<ShmConnection>> ShmConnection::greet(Hub& hub, ControlSocket socket,
                                                                    const Peer& peer,
                                                                    base::FileDescriptor channels_file,
                                                                    Mapping channels) {
  auto nonce = fresh_nonce();
  if (!nonce.ok()) return nonce.status();
  std::unique_ptr<ShmConnection> connection(new ShmConnection(
      hub, Side::kConnector, std::move(socket), peer, std::move(channels), Doorbell(), RegionTable()));
  connection->greeting_.emplace(Greeting{.nonce = *nonce, .channels = std::move(channels_file)});
  const ControlMessage greeting = {.kind = ControlKind::kGreeting, .nonce = *nonce};
  absl::Status status = connection->socket_.send(greeting, {-1, -1, -1});
  if (status.ok()) status = hub.sockets.add(connection->socket_.fd(), *connection);
  if (!status.ok()) return status;
  return connection;
}

absl::StatusOr<std::unique_ptr<ShmConnection>> ShmConnection::admit(Hub& hub, ControlSocket socket,
                                                                    const Peer& peer, Mapping channels,
                                                                    Doorbell doorbell, RegionTable regions) {
  std::unique_ptr<ShmConnection> connection(new ShmConnection(hub, Side::kAcceptor, std::move(socket), peer,
                                                              std::move(channels), std::move(doorbell),
                                                              std::move(regions)));
  RETURN_IF_ERROR(hub.sockets.add(connection->socket_.fd(), *connection));
  return connection;
}

ShmConnection::~ShmConnection() {
  hang_up();
  std::erase(hub_.connections, this);
}

// ---- what the peer says on the socket

void ShmConnection::read_control() {
  while (socket_.fd() >= 0) {
    ControlSocket::End end = ControlSocket::End::kOpen;
    std::optional<ControlSocket::Received> received =
        socket_.receive(end, greeting_ ? ControlSocket::TakesFiles::kNo : ControlSocket::TakesFiles::kYes);
    if (received) {
      if (absl::Status status = take_control(*received); !status.ok()) {
        fail(status.code(), std::string(status.message()));
      }
    } else if (end == ControlSocket::End::kOpen) {
      return;
    } else if (end == ControlSocket::End::kNonsense) {
      fail(absl::StatusCode::kDataLoss,
           "it sent what no peer of this version sends, or this process has too many files open");
    } else {
      // Not deaf: what the peer posted before it went is delivered first.
      if (status_.ok()) {
        turned_away_ = greeting_.has_value();
        status_ = absl::UnavailableError(fmt::format("{} closed or died", peer_name()));
      }
      hang_up();
    }
  }
}

absl::Status ShmConnection::take_control(ControlSocket::Received& received) {
  const ControlMessage& message = received.message;
  if (message.kind == ControlKind::kGrant && peer_regions_.valid())
    return take_grant(message, received.files[0]);
  if (message.kind == ControlKind::kChallenge && greeting_) return take_challenge(message);
  const bool may_answer = !greeting_ && !peer_doorbell_.valid();
  if (message.kind == ControlKind::kWelcome && may_answer) return take_welcome(received.files);
  if (message.kind == ControlKind::kRefused && may_answer) {
    const ChannelGeometry& theirs = message.geometry;
    const ChannelGeometry& ours = hub_.geometry;
    return absl::FailedPreconditionError(fmt::format(
        "its options differ: event_capacity {}, message_capacity {}, max_message_bytes {}; here {}, {}, {}",
        theirs.event_capacity, theirs.message_capacity, theirs.max_message_bytes, ours.event_capacity,
        ours.message_capacity, ours.max_message_bytes));
  }
  return absl::DataLossError(
      fmt::format("it sent a control message of kind {} out of turn", static_cast<unsigned>(message.kind)));
}

absl::Status ShmConnection::take_challenge(const ControlMessage& challenge) {
  const Secret* secret = hub_.secret.get();
  if (secret == nullptr && challenge.has_secret != 0) {
    return absl::PermissionDeniedError("it is of a job that has a secret, and this process was given none");
  }
  if (secret != nullptr && challenge.has_secret == 0) {
    return absl::PermissionDeniedError("it was given no secret, and so cannot be of this process's job");
  }
  const Greeting greeting = std::move(*greeting_);
  greeting_.reset();
  if (!is_proof(challenge.proof, secret, kAcceptorRole, {greeting.nonce, challenge.nonce})) {
    return absl::PermissionDeniedError(
        "its secret is not this process's: it is of another job, or an impostor");
  }
  ++hub_.meetings;
  const ControlMessage proof = {.kind = ControlKind::kProof,
                                .proof = prove(secret, kConnectorRole, {greeting.nonce, challenge.nonce})};
  RETURN_IF_ERROR(socket_.send(proof, {-1, -1, -1}));
  const ControlMessage hello = {.kind = ControlKind::kHello, .geometry = hub_.geometry};
  const std::array<int, 3> files = {greeting.channels.get(), hub_.doorbell.file().get(),
                                    hub_.regions->table().file().get()};
  RETURN_IF_ERROR(socket_.send(hello, files));
  for (const auto& [grant, file] : greeting.grants) {
    RETURN_IF_ERROR(socket_.send(grant, {file.get(), -1, -1}));
  }
  return absl::OkStatus();
}

void ShmConnection::wait_for_challenge(TimePoint deadline) {
  while (greeting_ && status_.ok()) {
    const auto rest = deadline - std::chrono::steady_clock::now();
    if (rest <= Duration::zero()) return;
    pollfd readable = {.fd = socket_.fd(), .events = POLLIN, .revents = 0};
    ::poll(&readable, 1, static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(rest).count()));
    read_control();
  }
}

absl::Status ShmConnection::take_welcome(const ControlSocket::Files& files) {
  auto doorbell = Doorbell::open(files[0]);
  if (!doorbell.ok()) return doorbell.status();
  auto regions = RegionTable::open(files[1]);
  if (!regions.ok()) return regions.status();
  peer_doorbell_ = std::move(*doorbell);
  peer_regions_ = std::move(*regions);
  return absl::OkStatus();
}

absl::Status ShmConnection::take_grant(const ControlMessage& message, const base::FileDescriptor& file) {
  const std::uint32_t slot = region_slot(message.key);
  if (slot >= kMaxRegions || message.length_bytes == 0 || message.length_bytes > SIZE_MAX / 4) {
    return absl::DataLossError("it granted a region that cannot be");
  }
  const std::size_t bytes = whole_pages(message.length_bytes);
  RETURN_IF_ERROR(check_received(file, bytes));
  const auto access = static_cast<Access>(message.access);
  const bool writable = allows(access, Access::kRemoteWrite) || allows(access, Access::kRemoteReadHostWrite);
  auto mapping = map_memory(file, bytes, writable ? Protection::kReadWrite : Protection::kRead);
  if (!mapping.ok()) return mapping.status();

  drop_revoked();
  if (grants_.size() <= slot) grants_.resize(slot + 1);
  // The slot's earlier region is gone, or is now granted in place, but the caller may still read it through
  // the old mapping.
  Grant& grant = grants_[slot];
  if (grant.used_in_place) kept_.push_back(std::move(grant.mapping));
  grant = {.key = message.key,
           .address = message.address,
           .length_bytes = message.length_bytes,
           .access = access,
           .mapping = std::move(*mapping)};
  return absl::OkStatus();
}

void ShmConnection::drop_revoked() {
  for (Grant& grant : grants_) {
    if (!grant.used_in_place && grant.key != 0 && !peer_regions_.live(grant.key)) grant = {};
  }
}

// ---- granting and reaching memory

absl::StatusOr<RemoteDescriptor> ShmConnection::grant(const MemoryRegion& region) {
  return send_grant(region, /*in_place=*/false);
}

absl::StatusOr<RemoteDescriptor> ShmConnection::grant_in_place(const MemoryRegion& region) {
  if (region.access() == Access::kRemoteReadHostWrite) return send_grant(region, /*in_place=*/true);
  return absl::PermissionDeniedError("a region that peers may not write in place cannot be granted so");
}

absl::StatusOr<RemoteDescriptor> ShmConnection::send_grant(const MemoryRegion& region, bool in_place) {
  if (!status_.ok()) return status_;
  const auto* ours = dynamic_cast<const ShmRegion*>(&region);
  if (ours == nullptr || &ours->owner() != hub_.regions.get()) {
    return absl::InvalidArgumentError("the region to be granted belongs to another transport");
  }
  if (region.access() == Access::kLocal) {
    return absl::PermissionDeniedError("a local region cannot be granted to a peer");
  }
  const auto known = granted_.find(ours->key());
  if (known != granted_.end() && !in_place) return known->second;
  const RemoteDescriptor descriptor = {.address = reinterpret_cast<std::uintptr_t>(region.bytes().data()),
                                       .length_bytes = region.bytes().size(),
                                       .key = ours->key()};
  Access access = region.access();
  base::FileDescriptor reader;
  if (access == Access::kRemoteReadHostWrite && !in_place) {
    access = Access::kRemoteRead;
    auto read_only = read_only_descriptor(ours->file());
    if (!read_only.ok()) return read_only.status();
    reader = std::move(*read_only);
  }
  const ControlMessage message = {.kind = ControlKind::kGrant,
                                  .access = static_cast<std::uint32_t>(access),
                                  .key = descriptor.key,
                                  .address = descriptor.address,
                                  .length_bytes = descriptor.length_bytes};
  const int file = reader.valid() ? reader.get() : ours->file().get();
  if (greeting_) {
    base::FileDescriptor kept(::fcntl(file, F_DUPFD_CLOEXEC, 0));  // NOLINT(*-vararg)
    if (!kept.valid())
      return absl::ErrnoToStatus(errno, "no descriptor is left for a region that is granted");
    greeting_->grants.emplace_back(message, std::move(kept));
  } else if (absl::Status status = socket_.send(message, {file, -1, -1}); !status.ok()) {
    if (absl::IsUnavailable(status)) read_control();  // status() is to say so, too
    return absl::Status(status.code(), fmt::format("{}: {}", peer_name(), std::string(status.message())));
  }
  absl::erase_if(granted_, [&](const auto& entry) { return !hub_.regions->table().live(entry.first); });
  granted_.emplace(descriptor.key, descriptor);
  return descriptor;
}

ShmConnection::Grant* ShmConnection::find(std::uint64_t key) {
  const std::uint32_t slot = region_slot(key);
  return slot < grants_.size() && grants_[slot].key == key && key != 0 ? &grants_[slot] : nullptr;
}

std::byte* ShmConnection::locate(const RemoteDescriptor& remote, std::size_t bytes, Access right) {
  Grant* grant = find(remote.key);
  if (grant == nullptr) {
    read_control();  // the peer sent the grant before it could name the region
    grant = find(remote.key);
  }
  if (grant == nullptr || !allows(grant->access, right) || !peer_regions_.live(remote.key)) return nullptr;
  const std::uint64_t offset = remote.address - grant->address;
  const bool within = remote.address >= grant->address && offset <= grant->length_bytes &&
                      bytes <= grant->length_bytes - offset && bytes <= remote.length_bytes;
  return within ? grant->mapping.bytes().data() + offset : nullptr;
}

const std::byte* ShmConnection::mapped(const RemoteDescriptor& remote) {
  const std::byte* place = locate(remote, remote.length_bytes, Access::kRemoteRead);
  if (place != nullptr) find(remote.key)->used_in_place = true;
  return place;
}

std::byte* ShmConnection::mapped_in_place(const RemoteDescriptor& remote) {
  std::byte* place = locate(remote, remote.length_bytes, Access::kRemoteReadHostWrite);
  if (place != nullptr) find(remote.key)->used_in_place = true;
  return place;
}

// ---- posting

std::size_t ShmConnection::do_post(std::span<const WorkRequest> requests) {
  std::size_t taken = 0;
  bool published = false;
  for (const WorkRequest& request : requests) {
    if (!status_.ok() || completions_.size() >= hub_.completion_capacity) break;
    if (taken + kRequestsAhead < requests.size()) prefetch_source(requests[taken + kRequestsAhead]);
    const std::optional<OperationResult> result = carry_out(request, published);
    if (!result) break;
    ++taken;
    if (request.signaled || *result != OperationResult::kOk) completions_.push_back({request.id, *result});
  }
  if (published) ring_peer();
  return taken;
}

std::optional<OperationResult> ShmConnection::carry_out(const WorkRequest& request, bool& published) {
  switch (request.opcode) {
    case Opcode::kRead:
    case Opcode::kWrite:
      return copy(request);
    case Opcode::kWriteNotify: {
      if (const auto refused = check_room(false); refused != OperationResult::kOk) return refused;
      const OperationResult result = copy(request);
      if (result != OperationResult::kOk) return result;
      sender_.notify(request.notification);
      published = true;
      return OperationResult::kOk;
    }
    case Opcode::kSend:
      return send_message(request, published);
  }
  return refuse(OperationResult::kDeviceError, "a request of no known opcode was posted");
}

std::optional<OperationResult> ShmConnection::send_message(const WorkRequest& request, bool& published) {
  if (request.local.size() > hub_.geometry.max_message_bytes) {
    return refuse(OperationResult::kDeviceError,
                  fmt::format("a message of {} bytes was posted to it; at most {} can be",
                              request.local.size(), hub_.geometry.max_message_bytes));
  }
  if (const auto refused = check_room(true); refused != OperationResult::kOk) return refused;
  sender_.message(request.local);
  published = true;
  return OperationResult::kOk;
}

std::optional<OperationResult> ShmConnection::check_room(bool for_message) {
  switch (sender_.room(for_message)) {
    case SendOutcome::kRoom:
      return OperationResult::kOk;
    case SendOutcome::kFull:
      return std::nullopt;
    case SendOutcome::kCorrupt:
      break;
  }
  return refuse(OperationResult::kDeviceError, "it wrote impossible credits to the channel");
}

/// The request is checked when it is carried out. This looks at nothing that it names: any address may be
/// prefetched.
inline void ShmConnection::prefetch_source(const WorkRequest& request) {
  const Grant* const grant = request.opcode == Opcode::kRead ? find(request.remote.key) : nullptr;
  if (grant == nullptr) return;
  const std::uintptr_t source = reinterpret_cast<std::uintptr_t>(grant->mapping.bytes().data()) +
                                (request.remote.address - grant->address);
  const std::size_t bytes = std::min(request.local.size(), kMostAheadBytes);
  for (std::size_t at = 0; at < bytes; at += kLineBytes)
    base::prefetch_to_read(reinterpret_cast<const void*>(source + at));
}

OperationResult ShmConnection::copy(const WorkRequest& request) {
  if (request.local.empty()) return OperationResult::kOk;
  if (request.region == nullptr || !is_inside(request.local, request.region->bytes())) {
    return refuse(OperationResult::kAccessDenied,
                  "a request was posted to it whose local bytes are in no region");
  }
  const bool read = request.opcode == Opcode::kRead;
  const Access right = read ? Access::kRemoteRead : Access::kRemoteWrite;
  std::byte* remote = locate(request.remote, request.local.size(), right);
  if (remote == nullptr && find(request.remote.key) != nullptr && !peer_regions_.live(request.remote.key)) {
    read_control();  // when a process ends, its regions go before its socket does
    if (!status_.ok()) return OperationResult::kPeerGone;
    return refuse(OperationResult::kAccessDenied,
                  "it has given up the memory that a request is for, as a process does that ends");
  }
  if (remote == nullptr) {
    return refuse(
        OperationResult::kAccessDenied,
        fmt::format("{} of {} bytes is not allowed there: no such region, not granted to us, without "
                    "that right, or too short",
                    read ? "reading" : "writing", request.local.size()));
  }
  if (read) {
    transfer(request.local.data(), remote, request.local.size());
  } else {
    transfer(remote, request.local.data(), request.local.size());
  }
  return OperationResult::kOk;
}

// ---- events

std::size_t ShmConnection::poll_completions(std::span<Event> events) {
  std::size_t count = 0;
  for (; count < events.size() && !completions_.empty(); ++count) {
    events[count] = {.kind = Event::Kind::kCompletion,
                     .result = completions_.front().result,
                     .id = completions_.front().id,
                     .connection = this};
    completions_.pop_front();
  }
  return count;
}

std::size_t ShmConnection::poll_channel(std::span<Event> events, std::span<std::byte>& space) {
  std::size_t count = 0;
  while (!deaf_ && count < events.size()) {
    std::uint32_t value = 0;
    const ReceiveOutcome outcome = receiver_.receive(space, value);
    if (outcome == ReceiveOutcome::kNotification) {
      events[count++] = {.kind = Event::Kind::kNotification, .notification = value, .connection = this};
    } else if (outcome == ReceiveOutcome::kMessage) {
      events[count++] = {.kind = Event::Kind::kMessage, .connection = this, .message = space.first(value)};
      space = space.subspan(value);
    } else {
      if (outcome == ReceiveOutcome::kCorrupt) {
        fail(absl::StatusCode::kDataLoss, "it wrote an impossible event to the channel");
      }
      break;
    }
  }
  if (receiver_.release()) ring_peer();
  return count;
}

bool ShmConnection::ended() const {
  return !status_.ok() && !disconnect_raised_ && completions_.empty() && (deaf_ || !receiver_.pending());
}

std::size_t ShmConnection::poll(std::span<Event> events, std::span<std::byte>& space) {
  if (disconnect_raised_) return 0;
  std::size_t count = poll_completions(events);
  count += poll_channel(events.subspan(count), space);
  if (count < events.size() && ended()) {
    disconnect_raised_ = true;
    events[count++] = {
        .kind = Event::Kind::kDisconnected, .result = OperationResult::kPeerGone, .connection = this};
  }
  return count;
}

bool ShmConnection::pending() {
  if (disconnect_raised_) return false;
  return !status_.ok() || receiver_.pending() || !completions_.empty() || sender_.take_unblocked();
}

// ---- the end

OperationResult ShmConnection::refuse(OperationResult result, const std::string& reason) {
  fail(result == OperationResult::kAccessDenied ? absl::StatusCode::kPermissionDenied
                                                : absl::StatusCode::kInternal,
       reason);
  return result;
}

void ShmConnection::fail(absl::StatusCode code, const std::string& reason) {
  deaf_ = true;
  if (status_.ok()) status_ = absl::Status(code, fmt::format("{}: {}", peer_name(), reason));
  hang_up();
}

void ShmConnection::hang_up() {
  if (socket_.fd() < 0) return;
  hub_.sockets.remove(socket_.fd());
  socket_.shutdown();  // closing would not be enough if a fork of this process holds it, too
  socket_ = ControlSocket();
  if (peer_doorbell_.valid()) peer_doorbell_.ring();
}

void ShmConnection::ring_peer() {
  // A peer that has not sent its welcome has not looked at the channel yet, and will look at it.
  if (!peer_doorbell_.valid()) read_control();
  if (peer_doorbell_.valid()) peer_doorbell_.ring();
}

}  // namespace verbena::transport::shm
