#include "job/network_rendezvous.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/listening_process.hpp"
#include "base/return_if_error.hpp"
#include "cluster/etcd_store.hpp"
#include "job/json_line.hpp"
#include "job/meeting/entry_keeper.hpp"
#include "job/meeting/guest.hpp"
#include "job/meeting/hearing.hpp"
#include "job/meeting/host.hpp"
#include "job/meeting/leader_entry.hpp"
#include "job/meeting/leader_search.hpp"
#include "job/meeting/messages.hpp"
#include "job/meeting/shared_end.hpp"
#include "job/meeting/talk.hpp"
#include "job/meeting/wire.hpp"
#include "transport/refusal.hpp"
#include "transport/socket_address.hpp"
#include "transport/tcp/tcp_transport.hpp"

namespace verbena::job {
namespace {

using std::chrono::milliseconds;

const transport::HostPort kAnywhere = {.host = "::", .port = 0};
constexpr auto kQuickLook = milliseconds(200);  // whether another rank 0 is there
constexpr auto kLongLook = milliseconds(2000);

/// At all addresses of this host, unless it alone is meant: its own name may mean a loopback address here,
/// and another one elsewhere.
absl::Status listen_at(transport::Transport& transport, transport::HostPort place) {
  const bool is_this_host_alone =
      place.host == "localhost" || place.host == "::1" || place.host.starts_with("127.");
  if (is_this_host_alone) return transport.listen("tcp:" + to_string(place));
  place.host = "::";  // IPv4, too
  const absl::Status listens = transport.listen("tcp:" + to_string(place));
  if (listens.ok() || absl::IsAlreadyExists(listens)) return listens;
  place.host = "0.0.0.0";  // there is no IPv6
  return transport.listen("tcp:" + to_string(place));
}

/// Mostly it is the rank 0 before this one, which still runs, or is stopped.
absl::Status someone_else_is_rank_0(const transport::HostPort& place) {
  const auto other = base::process_that_listens_at(place.port);
  const std::string who =
      other ? fmt::format("process {}{}", other->pid, other->is_stopped ? ", which is stopped," : "")
            : std::string("another process");
  const std::string how = other ? fmt::format("kill {}{}", other->is_stopped ? "-9 " : "", other->pid)
                                : fmt::format("ss -tlnp 'sport = :{}' says which it is", place.port);
  return absl::AlreadyExistsError(
      fmt::format("tcp:{}: {} listens there already: if that is the rank 0 in whose place this one comes, "
                  "end it first ({}); if it is another job's, expected a port that nobody listens at",
                  to_string(place), who, how));
}

/// Why the others may not find rank 0, which listens on this host, at the place that they were told; empty:
/// they will. A place of another host may lead here all the same, as where a router passes on what it gets.
std::string doubt_about(const transport::HostPort& place) {
  const auto addresses = transport::resolve_all({.host = place.host, .port = 0}, to_string(place));
  if (!addresses.ok()) return std::string(addresses.status().message());
  if (std::ranges::any_of(*addresses, transport::is_of_this_host)) return {};
  return fmt::format("{}: this is no address of the host that rank 0 runs on", to_string(place));
}

/// The address of this host that the others know it by, most likely: all of them reach etcd.
std::string own_host(const EtcdPlace& etcd) {
  for (const std::string_view endpoint : etcd.etcd.endpoints) {
    const auto place = transport::parse_host_port(endpoint.substr(endpoint.find("//") + 2));
    if (!place.ok()) continue;
    const auto addresses = transport::resolve_all(*place, endpoint);
    if (!addresses.ok()) continue;
    for (const sockaddr_storage& each : *addresses) {
      // Where each host has a member of its own, this one says nothing.
      if (std::string own = transport::own_address_towards(each); !own.empty()) return own;
    }
  }
  const absl::StatusOr<std::string> own = transport::own_address();
  return own.ok() ? *own : "127.0.0.1";
}

/// Whether rank 0 of that entry is there. It is asked over connections of their own.
bool lives(const LeaderEntry& entry, const transport::TcpOptions& options) {
  const auto transport = transport::make_tcp_transport(options);
  if (!transport.ok()) return false;
  // A host that answers and has nobody there says so at once; another one may be slow.
  auto found = connect_to(entry, **transport, std::chrono::steady_clock::now() + kQuickLook);
  if (absl::IsDeadlineExceeded(found.status()) && !transport::is_refusal(found.status()))
    found = connect_to(entry, **transport, std::chrono::steady_clock::now() + kLongLook);
  return found.ok();
}

/// Rank 0, which listens already, says in etcd where.
absl::StatusOr<std::unique_ptr<EntryKeeper>> make_entry(const EtcdPlace& etcd, std::string mark,
                                                        const transport::Transport& transport,
                                                        const transport::TcpOptions& options,
                                                        milliseconds patience,
                                                        const Rendezvous::Stopped& stopped) {
  const std::string listens_at = transport.listening_address();
  auto place = transport::parse_host_port(std::string_view(listens_at).substr(listens_at.find(':') + 1));
  if (!place.ok()) return place.status();
  place->host = own_host(etcd);
  return EntryKeeper::make(
      etcd, {.place = *std::move(place), .mark = std::move(mark)},
      [options](const LeaderEntry& entry) { return lives(entry, options); }, patience, stopped);
}

}  // namespace

/// All that it is made of; each needs those before it.
struct NetworkRendezvous::Parts {
  Parts(const Options& options, std::unique_ptr<transport::Transport> made)
      : transport(std::move(made)),
        end(options.grace, options.end, options.show),
        hearing(options.size, end) {}

  void start(std::unique_ptr<MeetingRole> made, std::uint32_t size) {
    role = std::move(made);
    talk.emplace(size, *transport, *role, hearing, end).start();
  }

  const std::unique_ptr<transport::Transport> transport;
  SharedEnd end;
  Hearing hearing;
  std::unique_ptr<MeetingRole> role;
  std::optional<Talk> talk;
  std::unique_ptr<EntryKeeper> entry;  ///< of rank 0, if it is found by etcd
};

absl::StatusOr<std::unique_ptr<NetworkRendezvous>> NetworkRendezvous::join(const Options& options,
                                                                           milliseconds patience,
                                                                           const Stopped& stopped) {
  // What it needs is there, or will not come.
  if (options.etcd) RETURN_IF_ERROR(cluster::EtcdStore::create(options.etcd->etcd).status());
  const transport::TcpOptions tcp = {
      .secret = options.secret, .tls = options.tls, .max_message_bytes = Wire::kMessageBytes};
  absl::StatusOr<std::unique_ptr<transport::Transport>> made = transport::make_tcp_transport(tcp);
  if (!made.ok()) return made.status();
  auto parts = std::make_unique<Parts>(options, *std::move(made));
  transport::Transport& transport = *parts->transport;
  if (options.rank == 0 && !options.joins) {
    const transport::HostPort place = options.etcd ? kAnywhere : options.place;
    const absl::Status listens = listen_at(transport, place);
    if (absl::IsAlreadyExists(listens)) return someone_else_is_rank_0(place);
    if (!listens.ok()) return listens;
    const std::string mark = fresh_name();
    parts->start(std::make_unique<MeetingHost>(options, transport, mark, parts->hearing, parts->end),
                 options.size);
    if (options.etcd) {
      // Who is led here by it is answered already.
      auto entry = make_entry(*options.etcd, mark, transport, tcp, patience, stopped);
      if (!entry.ok()) {
        parts->talk->leave();
        return entry.status();
      }
      parts->entry = *std::move(entry);
    }
  } else {
    auto leader = connect_to_leader(transport, options, patience, stopped);
    if (!leader.ok()) return leader.status();
    parts->start(
        std::make_unique<MeetingGuest>(options, transport, *std::move(leader), parts->hearing, parts->end),
        options.size);
  }
  absl::StatusOr<std::uint32_t> rank = options.rank;
  if (options.joins) rank = parts->talk->wait_for_place(patience, stopped);
  if (!rank.ok()) {
    parts->talk->leave();
    return rank.status();
  }
  std::unique_ptr<NetworkRendezvous> joined(new NetworkRendezvous(options, *rank, std::move(parts)));
  if (*rank == 0 && !options.etcd) {
    // Beside the rest: the system may ask servers of names that do not answer.
    joined->doubting_.begin([place = options.place] {
      if (const std::string doubt = doubt_about(place); !doubt.empty())
        spdlog::warn("the other processes may not find rank 0: {}", doubt);
      return absl::OkStatus();
    });
  }
  return joined;
}

NetworkRendezvous::NetworkRendezvous(const Options& options, std::uint32_t rank, std::unique_ptr<Parts> parts)
    : PeerRendezvous(rank, options.size), secret_(options.secret), parts_(std::move(parts)) {}

NetworkRendezvous::~NetworkRendezvous() {
  parts_->entry.reset();  // nobody is to come any more
  parts_->talk->leave();
}

absl::Status NetworkRendezvous::put(const std::string& key, const std::string& value) {
  parts_->talk->say(FenceNotes::put_line(key, value));
  return absl::OkStatus();
}

absl::Status NetworkRendezvous::fence(milliseconds patience, const Stopped& stopped) {
  return parts_->talk->fence(patience, stopped);
}

absl::StatusOr<std::string> NetworkRendezvous::get(std::uint32_t rank, const std::string& key) {
  return parts_->talk->with_lock([&] { return parts_->hearing.notes().get(rank, key); });
}

bool NetworkRendezvous::ends_this_process() const {
  return parts_->end.ends_this_process();
}

std::uint32_t NetworkRendezvous::incarnation() const {
  return parts_->talk->with_lock([&] { return parts_->hearing.incarnation(); });
}

void NetworkRendezvous::abort(int /*exit_status*/, const std::string& why) {
  parts_->talk->say(line_of({{says::kAbort, fmt::format("rank {}: {}", rank(), why)}}));
  parts_->talk->wait_until_said();
}

// ---- PeerNews

void NetworkRendezvous::listen(Listener listener) {
  parts_->talk->with_lock([&] {
    parts_->hearing.listen(std::move(listener));
    parts_->role->on_listen();
  });
}

void NetworkRendezvous::outlive(const std::vector<std::uint32_t>& ranks) {
  parts_->talk->ask([&role = *parts_->role, ranks] { role.outlive(ranks); });
}

void NetworkRendezvous::outlive_leader(milliseconds patience) {
  parts_->talk->with_lock([&] { parts_->role->outlive_leader(patience); });
}

std::vector<PeerNews::Returned> NetworkRendezvous::returned() {
  return parts_->talk->with_lock([&] { return parts_->role->returned(); });
}

void NetworkRendezvous::tell(const std::string& news) {
  parts_->talk->ask([&role = *parts_->role, news] { role.tell(news); });
}

void NetworkRendezvous::tell_one(std::uint32_t rank, const std::string& news) {
  parts_->talk->ask([&role = *parts_->role, rank, news] { role.tell_one(rank, news); });
}

std::uint32_t NetworkRendezvous::keep_place() {
  return parts_->talk->with_lock([&] { return parts_->role->keep_place(); });
}

PeerNews::Standing NetworkRendezvous::standing() {
  return parts_->talk->with_lock([&] { return parts_->role->standing(); });
}

void NetworkRendezvous::give_place(std::uint32_t added, std::uint32_t rank) {
  parts_->talk->ask([&role = *parts_->role, added, rank] { role.give_place(added, rank); });
}

void NetworkRendezvous::say(const std::string& word) {
  parts_->talk->say(line_of({{says::kWord, word}}));
}

void NetworkRendezvous::dismiss(std::uint32_t rank, const std::string& why) {
  parts_->talk->ask([&role = *parts_->role, rank, why] { role.dismiss(rank, why); });
}

void NetworkRendezvous::release(std::uint32_t rank) {
  parts_->talk->ask([&role = *parts_->role, rank] { role.release(rank); });
}

}  // namespace verbena::job
