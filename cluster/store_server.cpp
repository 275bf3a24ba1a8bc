#include "cluster/store_server.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cluster/unix_socket.hpp"

namespace verbena::cluster {
namespace {

/// What waits to be sent to a client before it is heard no further, or told of no more events. Its memory is
/// bounded by this and one answer.
constexpr std::size_t kEnoughUnsentBytes = 1 << 20;
/// Of one client, in one poll().
constexpr std::size_t kEnoughReadBytes = 256 << 10;
constexpr std::size_t kAcceptedAtOnce = 64;

}  // namespace

bool StoreServer::Client::is_heard() const {
  return stream.unsent_bytes() < kEnoughUnsentBytes;
}

absl::StatusOr<std::unique_ptr<StoreServer>> StoreServer::listen(
    const std::string& name, std::shared_ptr<const transport::Secret> secret, StoreState& state) {
  absl::StatusOr<base::FileDescriptor> listener = listen_at_name(name);
  if (!listener.ok()) return listener.status();
  return std::unique_ptr<StoreServer>(new StoreServer(*std::move(listener), std::move(secret), state));
}

void StoreServer::add_descriptors(std::vector<pollfd>& wanted) const {
  if (clients_.size() < kMostClients) wanted.push_back({listener_.get(), POLLIN, 0});
  for (const Client& client : clients_) {
    const int in = client.is_heard() ? POLLIN : 0;
    const int out = client.stream.unsent_bytes() > 0 ? POLLOUT : 0;
    wanted.push_back({client.stream.descriptor(), static_cast<short>(in | out), 0});
  }
}

TimePoint StoreServer::next_poll() const {
  TimePoint next = state_.next_expiry();
  for (const Client& client : clients_) {
    if (!client.is_proved) next = std::min(next, client.deadline);
    if (!client.is_heard()) continue;
    if (client.stream.has_whole_frame()) return TimePoint::min();
    for (const auto& [id, watch] : client.watches) {
      if (watch.next <= state_.revision()) return TimePoint::min();
    }
  }
  return next;
}

void StoreServer::poll(TimePoint now) {
  state_.advance(now);
  accept(now);
  for (auto client = clients_.begin(); client != clients_.end();)
    client = hear(*client, now) ? std::next(client) : clients_.erase(client);
  // After all have been heard: what one has changed others are told now.
  for (auto client = clients_.begin(); client != clients_.end();) {
    tell_watches(*client);
    client = client->stream.write() ? std::next(client) : clients_.erase(client);
  }
}

void StoreServer::accept(TimePoint now) {
  for (std::size_t i = 0; i < kAcceptedAtOnce && clients_.size() < kMostClients; ++i) {
    base::FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const auto is_stranger = [](const Client& client) { return !client.is_proved; };
    const auto strangers = std::count_if(clients_.begin(), clients_.end(), is_stranger);
    const bool no_descriptor = !socket.valid() && (errno == EMFILE || errno == ENFILE);
    if (!socket.valid() && !no_descriptor) return;
    if (socket.valid() && !is_of_this_user(socket)) {
      refusals_.note(now, "it is of another user");
      continue;
    }
    if (static_cast<std::size_t>(strangers) >= kMostStrangers || (no_descriptor && strangers > 0)) {
      // The oldest: a process of the job proves itself at once.
      clients_.erase(std::find_if(clients_.begin(), clients_.end(), is_stranger));
      refusals_.note(now, "too many come to the store and do not prove that they are of the job");
    }
    if (no_descriptor) {
      refusals_.note(now, "no descriptor is left for the store's clients");
      return;
    }
    clients_.emplace_back();
    clients_.back().stream = FrameStream(std::move(socket));
    clients_.back().deadline = now + kStrangerPatience;
  }
}

bool StoreServer::hear(Client& client, TimePoint now) {
  if (!client.is_heard()) return true;
  // Of a stranger one frame: another limit holds for what comes after its proof.
  const bool open = client.stream.read(client.is_proved ? kMostClientFrameBytes : kMostStrangerFrameBytes,
                                       client.is_proved ? kEnoughReadBytes : 1, [&](std::string_view frame) {
                                         const bool good = client.is_proved ? hear_client(client, frame, now)
                                                                            : hear_stranger(client, frame);
                                         if (!good) refusals_.note(now, "it is no client of the store");
                                         return good;
                                       });
  return open && (client.is_proved || now < client.deadline);
}

bool StoreServer::hear_stranger(Client& client, std::string_view frame) {
  if (client.is_challenged) {
    const std::optional<transport::Proof> proof = decode_proof(frame);
    client.is_proved =
        proof && transport::is_proof(*proof, secret_.get(), kStoreClientRole, {client.theirs, client.ours});
    return client.is_proved;
  }
  const std::optional<Greeting> greeting = decode_greeting(frame);
  const absl::StatusOr<transport::Nonce> nonce = transport::fresh_nonce();
  if (!greeting || !nonce.ok()) return false;
  client.is_challenged = true;
  client.theirs = greeting->nonce;
  client.ours = *nonce;
  client.stream.add(
      encode(Challenge{.nonce = client.ours,
                       .proof = transport::prove(secret_.get(), kStoreRole, {client.theirs, client.ours})}));
  return true;
}

bool StoreServer::hear_client(Client& client, std::string_view frame, TimePoint now) {
  const std::optional<ClientMessage> message = decode_client_message(frame);
  if (!message) return false;
  if (const auto* ask = std::get_if<Ask>(&*message)) {
    const absl::Status status = check(ask->what);
    client.stream.add(encode(Answered{
        ask->request, status.ok() ? state_.execute(ask->what, now) : absl::StatusOr<Answer>(status)}));
  } else if (const auto* begin = std::get_if<BeginWatch>(&*message)) {
    if (!check_watch(begin->prefix, begin->from).ok() || client.watches.size() >= kMostWatches ||
        !client.watches.try_emplace(begin->watch, Watch{.prefix = begin->prefix, .next = begin->from})
             .second) {
      return false;
    }
  } else {
    client.watches.erase(std::get<EndWatch>(*message).watch);
  }
  return true;
}

void StoreServer::tell_watches(Client& client) {
  for (auto each = client.watches.begin(); each != client.watches.end() && client.is_heard();) {
    auto& [id, watch] = *each;
    absl::StatusOr<StoreState::Events> found = state_.events(watch.prefix, watch.next, kEnoughUnsentBytes);
    if (!found.ok()) {
      client.stream.add(encode(Happened{id, found.status()}));
      each = client.watches.erase(each);
      continue;
    }
    if (!found->events.empty()) client.stream.add(encode(Happened{id, std::move(found->events)}));
    watch.next = found->next;
    ++each;
  }
}

}  // namespace verbena::cluster
