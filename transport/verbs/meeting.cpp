#include "transport/verbs/meeting.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/return_if_error.hpp"
#include "transport/refusal.hpp"
#include "transport/socket_address.hpp"
#include "transport/verbs/errors.hpp"

namespace verbena::transport::verbs {

namespace {

constexpr int kResolveTimeoutMs = 2000;
constexpr auto kAttemptPause = std::chrono::milliseconds(5);
constexpr auto kLongestAttemptPause = std::chrono::milliseconds(200);

}  // namespace

Meeting::Meeting(const Hub& hub, QueuePair& queue_pair, ManagerUser& user, Role role)
    : hub_(hub), queue_pair_(queue_pair), user_(user), role_(role), attempt_pause_(kAttemptPause) {}

absl::Status Meeting::tick(TimePoint now, const std::string& peer) {
  if (now >= deadline_) {
    auto error = absl::DeadlineExceededError(
        fmt::format("{}: nobody has accepted connections there in time{}{}", connects() ? address_ : peer,
                    obstacle_.empty() ? "" : ": ", obstacle_));
    if (is_refused_) mark_refusal(error);
    return error;
  }
  if (connects() && queue_pair_.id() == nullptr && now >= next_attempt_) return start_attempt();
  return absl::OkStatus();
}

// ---- the connector

absl::Status Meeting::seek(std::string address, const sockaddr_storage& destination, TimePoint deadline) {
  address_ = std::move(address);
  destination_ = destination;
  deadline_ = deadline;
  return start_attempt();
}

void Meeting::prepare_opening() {
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

absl::Status Meeting::start_attempt() {
  if (const int error = queue_pair_.create_id(hub_.channel, user_); error != 0) {
    return errno_status(error, fmt::format("{}: no identifier of the connection manager", address_));
  }
  // Connect from the device's own address if it is known: with two devices in one network the system would
  // choose one.
  sockaddr_storage source{};
  sockaddr* from = nullptr;
  auto& to = reinterpret_cast<sockaddr&>(destination_);
  if (!hub_.device.address().empty() && !is_loopback(to)) {
    const auto own = resolve({.host = hub_.device.address(), .port = 0}, hub_.device.address());
    if (own.ok() && own->ss_family == to.sa_family) {
      source = *own;
      from = reinterpret_cast<sockaddr*>(&source);
    }
  }
  if (hub_.device.api().resolve_addr(queue_pair_.id(), from, &to, kResolveTimeoutMs) != 0) {
    abandon(errno_text(errno, "its host cannot be reached"));
  }
  return absl::OkStatus();
}

void Meeting::abandon(std::string obstacle) {
  obstacle_ = std::move(obstacle);
  is_refused_ = false;
  asked_at_.reset();
  queue_pair_.destroy();
  queue_pair_.destroy_id();
  next_attempt_ = clock_now() + attempt_pause_;
  attempt_pause_ = std::min<Duration>(2 * attempt_pause_, kLongestAttemptPause);
}

absl::Status Meeting::seek_route() {
  const rdma_cm_id& id = *queue_pair_.id();
  if (!hub_.device.is(id)) {
    return absl::FailedPreconditionError(
        fmt::format("{}: the way there leads through device {} port {}, but {} port {} is in use; choose "
                    "the device by the option",
                    address_, id.verbs->device->name, id.port_num, hub_.device.name(), hub_.device.port()));
  }
  if (hub_.device.api().resolve_route(queue_pair_.id(), kResolveTimeoutMs) != 0) {
    abandon(errno_text(errno, "there is no route to its host"));
  }
  return absl::OkStatus();
}

absl::Status Meeting::ask() {
  if (!answers_) {
    const auto nonce = fresh_nonce();
    if (!nonce.ok()) return nonce.status();
    std::copy_n(nonce->begin(), opening_.nonce.size(), opening_.nonce.begin());
  }
  prepare_opening();
  rdma_conn_param param = queue_pair_.parameters(std::as_bytes(std::span(&opening_, 1)));
  if (hub_.device.api().connect(queue_pair_.id(), &param) != 0) {
    const int error = errno;
    return errno_status(error, fmt::format("{}: no connection can be asked for", address_));
  }
  asked_at_ = clock_now();
  return absl::OkStatus();
}

absl::StatusOr<Welcome> Meeting::take_answer(const ManagerEvent& event, const std::string& peer) const {
  const std::optional<Welcome> theirs = read_welcome(event.private_data);
  if (!theirs) {
    return absl::FailedPreconditionError(
        fmt::format("{}: who listens there is not of this program's version", address_));
  }
  if (!is_signed(*theirs, opening_, hub_.options.secret.get())) {
    return absl::PermissionDeniedError(
        fmt::format("{}: who listens there does not have this job's secret", address_));
  }
  if (theirs->max_message_bytes != hub_.options.max_message_bytes) {
    return absl::FailedPreconditionError(fmt::format("{}: its options differ: max_message_bytes {}; here {}",
                                                     peer, theirs->max_message_bytes,
                                                     hub_.options.max_message_bytes));
  }
  return *theirs;
}

absl::Status Meeting::take_refusal(const ManagerEvent& event) {
  const std::optional<Refusal> refusal = read_refusal(event.private_data);
  if (!refusal) {
    abandon("nobody of this program's version listens there");
    is_refused_ = true;
    return absl::OkStatus();
  }
  const bool has_secret = hub_.options.secret != nullptr;
  if (refusal->has_secret != 0 && !has_secret) {
    return absl::PermissionDeniedError(fmt::format(
        "{}: who listens there is of a job that has a secret, and this process was given none", address_));
  }
  if (refusal->has_secret == 0 && has_secret) {
    return absl::PermissionDeniedError(fmt::format(
        "{}: who listens there was given no secret, and so cannot be of this process's job", address_));
  }
  switch (refusal->reason) {
    case Refusal::kChallenge:
      return take_challenge(*refusal);
    case Refusal::kNoProof:
      return absl::PermissionDeniedError(fmt::format(
          "{}: who listens there has another secret than this process: it is of another job", address_));
    case Refusal::kOptions:
      return absl::FailedPreconditionError(
          fmt::format("{}: its options differ: max_message_bytes {}; here {}", address_,
                      refusal->max_message_bytes, hub_.options.max_message_bytes));
    default:
      return absl::FailedPreconditionError(
          fmt::format("{}: it refused the connection; its log says why", address_));
  }
}

/// Asks again at once, with the answer to the challenge.
absl::Status Meeting::take_challenge(const Refusal& challenge) {
  if ((opening_.flags & Opening::kAnswers) != 0) {
    abandon("it challenges without end");
    return absl::OkStatus();
  }
  abandon("it has not let this process in");
  opening_.challenge = challenge.challenge;
  answers_ = true;
  return start_attempt();
}

// ---- the acceptor

void Meeting::expect(const Opening& opening, TimePoint deadline) {
  opening_ = opening;
  deadline_ = deadline;
}

absl::Status Meeting::answer(const ManagerEvent& request, const std::string& peer) {
  Welcome welcome{.immediate = hub_.device.iwarp() ? 0U : 1U,
                  .receives = hub_.device.receive_depth(),
                  .max_message_bytes = hub_.options.max_message_bytes,
                  .process = static_cast<std::uint32_t>(::getpid()),
                  .neighbours = hub_.neighbours.name()};
  sign(welcome, opening_, hub_.options.secret.get());
  rdma_conn_param param = queue_pair_.parameters(std::as_bytes(std::span(&welcome, 1)));
  param.responder_resources = std::min(param.responder_resources, request.responder_resources);
  param.initiator_depth = std::min(param.initiator_depth, request.initiator_depth);
  if (hub_.device.api().accept(queue_pair_.id(), &param) != 0) {
    const int error = errno;
    return errno_status(error, fmt::format("{} cannot be accepted", peer));
  }
  return absl::OkStatus();
}

}  // namespace verbena::transport::verbs
