#include "server/reception.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/return_if_error.hpp"
#include "protocol/log_record.hpp"

namespace verbena::server {

absl::Status Reception::on_hello(Peer& peer, const protocol::Hello& hello) {
  if (peer.is_worker() || peer.hello) return absl::FailedPreconditionError("said hello twice");
  if (peer.is_observer) return absl::FailedPreconditionError("observes, and said hello");
  if (peer.is_copy()) return absl::FailedPreconditionError("follows, and said hello");
  if (must_wait(hello)) {
    peer.hello = hello;
    waiting_.push_back(&peer);
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(check(hello));
  const bool takes_a_place = replaces(hello);
  const absl::StatusOr<Peer*> worker = connect(peer, hello);
  if (!worker.ok()) return worker.status();
  // From here on the newcomer is nobody: its connection is the worker's.
  const absl::Status status = takes_a_place ? job_.chain.take({.worker = *worker, .control = hello})
                                            : welcome(**worker, hello.is_back);
  if (!status.ok()) host_.reject(**worker, status);
  return absl::OkStatus();
}

/// As long as it cannot be said yet what this server has of the worker.
bool Reception::must_wait(const protocol::Hello& hello) {
  const bool is_replicated = job_.chain.is_replicated();
  if (is_replicated && hello.configuration > job_.chain.configuration()) return true;
  if (hello.worker >= job_.workers.size() || job_.workers[hello.worker] == nullptr) return false;
  Peer& known = *job_.workers[hello.worker];
  // Nothing may come from the process before it after this. Where nobody is replaced, it is refused at once.
  // Nor may anything come over the connection before this one.
  const bool takes_its_place = job_.options.replaces_workers && replaces(hello);
  const bool is_back = may_be_back(hello) && hello.incarnation == known.incarnation;
  if ((takes_its_place || is_back) && known.connection != nullptr) {
    if (!check_claims(hello).ok()) return false;  // it is refused
    // Over memory that both map, only the end of the process before it ends the connection. One that is
    // stopped has been silent for long: all that it has said was heard.
    const bool is_stopped = takes_its_place && known.absence.is_suspected;
    if (job_.transport.connections_may_break() || is_stopped) host_.break_with(known);
    return true;
  }
  // It reads here what workers were told of elsewhere, others perhaps, if it is new.
  if (job_.chain.serves() && !job_.chain.has_caught_up()) return true;
  // What this copy has and others have not yet, may be lost with it. The worker has to keep that, and cannot
  // once the welcome has told that it is here.
  return is_replicated && hello.is_back &&
         (known.messages_counted < known.messages || !host_.has_loaded_tables_of(known));
}

/// It was a worker of this copy before.
bool Reception::may_be_back(const protocol::Hello& hello) const {
  if (!hello.is_back || !host_.waits_for_connections()) return false;
  const Peer* const known = job_.workers[hello.worker];
  return known == nullptr || known->pid == 0 || known->pid == hello.pid;
}

/// Of all that have come as this worker, also if it does not count here yet: one before it may be alive, and
/// come back.
std::uint32_t Reception::newest_incarnation(std::uint32_t worker) const {
  const Peer* const known = job_.workers[worker];
  std::uint32_t newest = known == nullptr ? 0 : std::max(known->incarnation, known->comes_as);
  for (const Peer* const peer : waiting_) {
    if (peer->hello && peer->hello->worker == worker) newest = std::max(newest, peer->hello->incarnation);
  }
  return newest;
}

bool Reception::replaces(const protocol::Hello& hello) const {
  if (hello.worker >= job_.workers.size()) return false;
  const Peer* const known = job_.workers[hello.worker];
  return hello.incarnation > (known == nullptr ? 0 : known->incarnation);
}

void Reception::take_waiting() {
  for (Peer* const peer : std::exchange(waiting_, {})) {
    const std::optional<protocol::Hello> hello = std::exchange(peer->hello, std::nullopt);
    if (peer->closed || peer->refused) continue;
    if (const absl::Status status = on_hello(*peer, *hello); !status.ok()) host_.reject(*peer, status);
  }
}

/// Whatever there is of the worker already.
absl::Status Reception::check_claims(const protocol::Hello& hello) const {
  const ServerOptions& options = job_.options;
  const Chain& chain = job_.chain;
  if (hello.workers != options.workers || hello.servers != options.servers || hello.server != options.rank) {
    return absl::InvalidArgumentError(
        fmt::format("this is server {} of {} in a job of {} workers, but worker {} believes in server {} of "
                    "{} and {} workers",
                    options.rank, options.servers, options.workers, hello.worker, hello.server, hello.servers,
                    hello.workers));
  }
  if (!chain.serves() || hello.configuration > chain.configuration()) {
    return absl::FailedPreconditionError(
        fmt::format("this copy of server {} does not serve in configuration {}, worker {} comes in {}",
                    options.rank, chain.configuration(), hello.worker, hello.configuration));
  }
  if (hello.incarnation > 0 && !options.replaces_workers) {
    return absl::FailedPreconditionError(
        fmt::format("process {} takes the place of worker {} in a job that waits for nobody to do so",
                    hello.pid, hello.worker));
  }
  const Peer* const known = job_.workers[hello.worker];
  if (hello.incarnation < newest_incarnation(hello.worker)) {
    return absl::FailedPreconditionError(
        fmt::format("another process has taken the place of worker {} (pid {})", hello.worker, hello.pid));
  }
  if (known != nullptr && known->left && replaces(hello)) {
    return absl::FailedPreconditionError(fmt::format(
        "worker {} has left the job: nobody is to take its place (pid {})", hello.worker, hello.pid));
  }
  if (hello.inbox_bytes < protocol::kMinRingBytes || hello.inbox_bytes > protocol::kMaxRingBytes ||
      hello.push_ring.length_bytes < protocol::kMinRingBytes ||
      hello.push_ring.length_bytes > protocol::kMaxRingBytes) {
    return absl::InvalidArgumentError(fmt::format(
        "worker {} asks for rings of {} and {} bytes, expected {} to {}", hello.worker, hello.inbox_bytes,
        hello.push_ring.length_bytes, protocol::kMinRingBytes, protocol::kMaxRingBytes));
  }
  if (chain.is_replicated() && protocol::max_bulk_bytes(hello.inbox_bytes) > protocol::kMaxLoggedBytes) {
    return absl::InvalidArgumentError(fmt::format(
        "worker {} asks for an inbox of {} bytes; servers with copies take messages of {} at most",
        hello.worker, hello.inbox_bytes, protocol::kMaxLoggedBytes));
  }
  return absl::OkStatus();
}

absl::Status Reception::check(const protocol::Hello& hello) const {
  RETURN_IF_ERROR(check_claims(hello));
  const Chain& chain = job_.chain;
  const Peer* const known = job_.workers[hello.worker];
  const bool may_come = known == nullptr || replaces(hello) ||
                        (chain.is_replicated() && (known->messages == 0 || hello.is_back)) ||
                        may_be_back(hello);
  if (!may_come || (known != nullptr && known->connection != nullptr)) {
    return absl::AlreadyExistsError(fmt::format(
        "worker {} is connected already: refused a second one (pid {})", hello.worker, hello.pid));
  }
  return absl::OkStatus();
}

/// Returns the worker, whose connection the newcomer's is now. If that fails, it leaves no trace.
absl::StatusOr<Peer*> Reception::connect(Peer& newcomer, const protocol::Hello& hello) {
  transport::Transport& transport = job_.transport;
  transport::Connection& connection = *newcomer.connection;
  const auto push_ring = hello.push_ring.as<transport::RemoteDescriptor>();
  auto inbox = transport::RingReceiver::create(transport, connection, hello.inbox_bytes);
  if (!inbox.ok()) return inbox.status();
  const auto heartbeat = job_.heartbeat.grant(connection);
  if (!heartbeat.ok()) return heartbeat.status();
  const auto clock_board = grant_clock_board(newcomer);
  if (!clock_board.ok()) return clock_board.status();
  const std::chrono::milliseconds silence(job_.options.silence_timeout_ms);
  auto watch = std::make_unique<transport::HeartbeatWatch>(
      transport, transport::HeartbeatWatch::Bounds{.silence = silence});
  RETURN_IF_ERROR(watch->watch(connection, hello.heartbeat.as<transport::RemoteDescriptor>()));
  const bool reads_in_place = connection.mapped(hello.heartbeat.as<transport::RemoteDescriptor>()) != nullptr;
  Peer* const known = job_.workers[hello.worker];
  if (known != nullptr && known->pushes != nullptr) {
    const auto give_back = [this](std::uint32_t lane, PushBuffer* buffer) { host_.give_back(lane, buffer); };
    RETURN_IF_ERROR(known->pushes->reconnect(transport, connection, push_ring, give_back));
  } else {
    auto pushes = PushChannel::create(transport, connection, push_ring, job_.lanes);
    if (!pushes.ok()) return pushes.status();
    (known == nullptr ? newcomer : *known).pushes = *std::move(pushes);
  }
  Peer& peer = place_of(newcomer, hello.worker);
  peer.inbox = std::move(*inbox);
  peer.watch = std::move(watch);
  peer.inbox->set_credit(hello.inbox_credit.as<transport::RemoteDescriptor>());
  peer.connection->set_peer_name(fmt::format("worker {} (pid {})", hello.worker, hello.pid));
  peer.worker = hello.worker;
  peer.pid = hello.pid;
  peer.node = hello.node;
  peer.comes_as = hello.incarnation;
  peer.welcome =
      protocol::Welcome{.pid = static_cast<std::uint32_t>(::getpid()),
                        .lanes = job_.lanes,
                        .inbox = protocol::Descriptor::of(peer.inbox->descriptor()),
                        .push_credit = protocol::Descriptor::of(peer.pushes->ring().credit_descriptor()),
                        .heartbeat = protocol::Descriptor::of(*heartbeat),
                        .clock_board = *clock_board,
                        .reads_in_place = reads_in_place,
                        .restores_rows = job_.options.backup_every_ms > 0};
  return &peer;
}

/// A worker that was known has its place already, with what is known of it.
Peer& Reception::place_of(Peer& newcomer, std::uint32_t worker) {
  if (job_.workers[worker] == nullptr) job_.workers[worker] = &newcomer;
  Peer& place = *job_.workers[worker];
  if (&place == &newcomer) return place;
  place.connection = std::move(newcomer.connection);
  place.connection->user_data = reinterpret_cast<std::uintptr_t>(&place);
  place.closed = place.refused = place.owes_credit = false;
  place.control = {};
  host_.forget_nobodies();
  return place;
}

absl::Status Reception::replace(const WorkerMessage& record, const protocol::Hello& hello) {
  Peer& worker = *record.worker;
  if (hello.worker != worker.worker || hello.incarnation < worker.incarnation)
    return absl::InvalidArgumentError("the log has a worker that takes no place");
  // It may have said so to the copy that served before, too: then that record has come first.
  const bool is_known = hello.incarnation == worker.incarnation;
  if (!is_known) {
    worker.begin_anew(hello.incarnation);
    host_.replaced(worker);
  }
  // Perhaps that of yet another one is to count after it.
  const bool is_here = !record.is_forwarded && worker.comes_as == hello.incarnation;
  return is_here ? welcome(worker, is_known) : absl::OkStatus();
}

absl::Status Reception::welcome(Peer& peer, bool is_back) {
  if (peer.connection == nullptr || peer.closed || !peer.welcome)
    return absl::OkStatus();  // it is gone again
  peer.welcome->messages = peer.messages;
  peer.welcome->clock = peer.clock;
  host_.reply(peer, *std::exchange(peer.welcome, std::nullopt));
  return host_.welcomed(peer, is_back);
}

absl::StatusOr<protocol::Descriptor> Reception::grant_clock_board(Peer& peer) const {
  if (job_.clock_board == nullptr) return protocol::Descriptor{};
  const auto granted = peer.connection->grant_in_place(*job_.clock_board);
  if (!granted.ok()) return granted.status();
  return protocol::Descriptor::of(granted->slice(0, protocol::ClockBoard::bytes_for(job_.options.workers)));
}

}  // namespace verbena::server
