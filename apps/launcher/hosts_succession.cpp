#include "apps/launcher/hosts_succession.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "apps/launcher/succession.hpp"
#include "base/printable.hpp"
#include "cluster/stored_configuration.hpp"

namespace verbena::apps {
namespace {

cluster::TimePoint this_moment() {
  return std::chrono::steady_clock::now();
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostsSuccession>> HostsSuccession::make(const RankChains& chains,
                                                                       job::PeerNews& news) {
  base::FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return absl::ErrnoToStatus(errno, "no eventfd");
  return std::unique_ptr<HostsSuccession>(new HostsSuccession(chains, news, std::move(bell)));
}

HostsSuccession::HostsSuccession(const RankChains& chains, job::PeerNews& news, base::FileDescriptor bell)
    : news_(news), bell_(std::move(bell)) {
  for (std::uint32_t server = 0; server < chains.size(); ++server) {
    for (std::uint32_t copy = 0; copy < chains[server].size(); ++copy) {
      processes_[chains[server][copy]] = {.copy = {.server = server, .copy = copy}};
      next_copy_ = std::max(next_copy_, copy + 1);
    }
  }
}

job::PeerNews::Listener HostsSuccession::listener() {
  return {.on_news = {},
          .on_word =
              [this](std::uint32_t rank, std::string_view text) {
                absl::StatusOr<cluster::Word> word = cluster::decode_word(text);
                if (word.ok()) add({.rank = rank, .what = *std::move(word)});
              },
          .on_gone = [this](std::uint32_t rank,
                            const std::string& /*why*/) { add({.rank = rank, .what = Gone{}}); }};
}

void HostsSuccession::begin(const cluster::Configuration& first) {
  std::vector<std::uint32_t> others;
  for (const auto& [rank, process] : processes_) {
    if (rank != 0) others.push_back(rank);
  }
  {
    const std::lock_guard lock(mutex_);
    first_ = first;
  }
  news_.outlive(others);
}

void HostsSuccession::add(Heard heard) {
  {
    const std::lock_guard lock(mutex_);
    heard_.push_back(std::move(heard));
  }
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);
}

void HostsSuccession::add_descriptors(std::vector<pollfd>& wanted) const {
  wanted.push_back({bell_.get(), POLLIN, 0});
}

/// In order, since of one rank a process goes before another one comes. But those who are surely gone come
/// before those of whom that is only thought.
void HostsSuccession::tell(Host& host) {
  take_first();
  if (!has_begun_) return;
  std::uint64_t rings = 0;
  (void)!::read(bell_.get(), &rings, sizeof rings);
  std::vector<Heard> all;
  {
    const std::lock_guard lock(mutex_);
    all = std::exchange(heard_, {});
  }
  std::vector<cluster::Suspicion> suspicions;
  for (const Heard& heard : all) {
    const auto* const word = std::get_if<cluster::Word>(&heard.what);
    const auto* const suspicion = word == nullptr ? nullptr : std::get_if<cluster::Suspicion>(word);
    if (suspicion != nullptr) {
      suspicions.push_back(*suspicion);
    } else {
      take(heard, host);
    }
  }
  for (const cluster::Suspicion& suspicion : suspicions) take_suspicion(suspicion, host);
  admit(host);  // who is gone may have kept another one from joining
}

void HostsSuccession::take_first() {
  if (has_begun_) return;
  std::optional<cluster::Configuration> first;
  {
    const std::lock_guard lock(mutex_);
    first = first_;
  }
  if (!first) return;
  put(cluster::kConfigurationKey, cluster::encode(*first));
  has_begun_ = true;
}

void HostsSuccession::take(const Heard& heard, Host& host) {
  const auto found = processes_.find(heard.rank);
  const auto* const word = std::get_if<cluster::Word>(&heard.what);
  if (found == processes_.end()) {
    // A worker's, that comes late.
    if (word != nullptr && std::holds_alternative<cluster::Arrival>(*word)) tell_again();
    return;
  }
  if (word == nullptr) return host.lose(heard.rank, "is gone: it crashed, was killed, or its host is gone");
  if (const auto* const arrival = std::get_if<cluster::Arrival>(word))
    return welcome(heard.rank, *arrival, host);
  if (std::holds_alternative<cluster::WantsToLeave>(*word)) return host.leave(heard.rank);
  if (!found->second.is_late) return;
  if (const auto* const wish = std::get_if<cluster::WantsToJoin>(word)) {
    let_join(heard.rank, wish->address);
  } else if (const auto* const joined = std::get_if<cluster::HasJoined>(word)) {
    if (joined->address != found->second.address) return;
    put(cluster::kJoinedPrefix + joined->address, "");
  }
}

/// It may be wrong, or late: it never costs the last copy of a server, and says nothing of one that has no
/// place any more.
void HostsSuccession::take_suspicion(const cluster::Suspicion& suspicion, Host& host) {
  const std::optional<ServerCopy> copy = controller_.replaceable_at(suspicion.address, this_moment());
  if (!copy) return;
  if (const std::optional<std::uint32_t> rank = rank_of(*copy)) {
    host.lose(*rank, fmt::format("shows no sign of life ({})", std::string(base::printable(suspicion.why))));
  }
}

std::optional<std::uint32_t> HostsSuccession::rank_of(const ServerCopy& copy) const {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const auto& one) { return one.second.copy == copy; });
  if (found == processes_.end()) return std::nullopt;
  return found->first;
}

/// Of the server that the one before it was a copy of, which lacks one.
void HostsSuccession::welcome(std::uint32_t rank, const cluster::Arrival& arrival, Host& host) {
  if (rank == 0) return;
  Process& process = processes_[rank];
  process = {.copy = {.server = process.copy.server, .copy = next_copy_++}, .is_late = true, .address = {}};
  host.welcome(rank, {.name = fmt::format("copy {} of server {} (rank {}, pid {} on {})", process.copy.copy,
                                          process.copy.server, rank, arrival.pid,
                                          std::string(base::printable(arrival.host))),
                      .server = true,
                      .of_server = process.copy.server,
                      .pid = arrival.pid,
                      .copy = process.copy.copy});
}

void HostsSuccession::let_join(std::uint32_t rank, const std::string& address) {
  Process& process = processes_[rank];
  if (!process.address.empty()) return;
  process.address = address;
  if (controller_.knows(address)) {
    // By chance, it has the port of one that has died: by its address it would be taken for that one.
    news_.dismiss(rank, fmt::format("another process has been at its address before ({}): start it again",
                                    std::string(base::printable(address))));
    return;
  }
  put(fmt::format("{}{}/{}", cluster::kNewcomersPrefix, process.copy.server, process.copy.copy), address);
}

void HostsSuccession::put(const std::string& key, const std::string& value) {
  // What is too long stays out: then nothing comes of it.
  state_
      .execute(cluster::Transaction{.conditions = {}, .puts = {{.key = key, .value = value}}, .deletes = {}},
               this_moment())
      .IgnoreError();
}

void HostsSuccession::admit(Host& host) {
  const std::vector<ServerCopy> joined = controller_.take_joined(this_moment());
  tell_newest();
  for (const ServerCopy& copy : joined) {
    if (const std::optional<std::uint32_t> rank = rank_of(copy)) host.note_joined(*rank);
  }
}

void HostsSuccession::tell_newest() {
  const std::optional<cluster::Configuration> newest = controller_.newest(this_moment());
  if (!newest || newest->number <= told_number_) return;
  told_number_ = newest->number;
  news_.tell(cluster::encode(*newest));
}

/// To one that has heard of none. The others know that they have it.
void HostsSuccession::tell_again() {
  if (const auto newest = controller_.newest(this_moment())) news_.tell(cluster::encode(*newest));
}

absl::StatusOr<std::string> HostsSuccession::go_on_without(std::uint32_t rank, const std::string& why) {
  take_first();
  if (rank == 0) return absl::FailedPreconditionError("it leads the run");
  const auto found = processes_.find(rank);
  if (found == processes_.end()) return absl::FailedPreconditionError("it is no server");
  const Process& process = found->second;
  const absl::StatusOr<cluster::Configuration> next = controller_.remove(process.copy, this_moment());
  // One that is late may not have said yet that it wants to join.
  const bool was_in_none = absl::IsFailedPrecondition(next.status()) && process.is_late;
  if (!next.ok() && !was_in_none) return next.status();
  news_.dismiss(rank, why);
  tell_newest();
  return next.ok() ? what_follows(*next, process.copy.server) : std::string("it was no copy yet");
}

absl::StatusOr<std::string> HostsSuccession::let_leave(std::uint32_t rank) {
  const auto found = processes_.find(rank);
  if (rank == 0 || found == processes_.end()) return absl::FailedPreconditionError("the run needs it");
  const ServerCopy& its = found->second.copy;
  const auto may_leave = controller_.may_leave(its.server, its.copy, this_moment());
  if (!may_leave.ok()) return may_leave.status();
  const absl::StatusOr<cluster::Configuration> next = controller_.remove(its, this_moment());
  if (!next.ok()) return next.status();
  news_.release(rank);
  tell_newest();
  return what_follows(*next, its.server);
}

bool HostsSuccession::is_being_joined(std::uint32_t server) {
  return controller_.is_being_joined(server, this_moment());
}

std::optional<HostsSuccession::Chains> HostsSuccession::chains() {
  take_first();
  const std::optional<cluster::Controller::Chains> known = controller_.chains(this_moment());
  if (!known) return std::nullopt;
  Chains chains{.number = known->number, .servers = {}};
  for (const std::vector<ServerCopy>& copies : known->servers) {
    auto& server = chains.servers.emplace_back();
    for (const ServerCopy& copy : copies) {
      if (const std::optional<std::uint32_t> rank = rank_of(copy))
        server.push_back({.copy = copy.copy, .rank = *rank});
    }
  }
  return chains;
}

}  // namespace verbena::apps
