#include "apps/launcher/hosts_succession.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <set>
#include <utility>

#include "apps/launcher/succession.hpp"
#include "base/printable.hpp"
#include "cluster/order.hpp"
#include "cluster/stored_configuration.hpp"

namespace verbena::apps {
namespace {

/// From the order to start a process until it has come.
constexpr auto kPatienceWithStart = std::chrono::seconds(15);

/// The rank 0 before this one may have made configurations of which nobody is left who knows them. They were
/// not so many, in the seconds in which it can have led those who did not come to this one.
constexpr std::uint64_t kNumbersLeftOut = 1000;
/// So long after rank 0 was stopped what is heard may have been said meanwhile.
constexpr auto kWordsOfAStop = std::chrono::seconds(5);
/// Of a process of which nobody knows which copy it was.
constexpr std::uint32_t kNoCopy = UINT32_MAX;

/// Servers and their copies have the first ranks.
std::uint32_t rank_of_first_worker(const RankChains& chains) {
  std::size_t processes = 0;
  for (const std::vector<std::uint32_t>& chain : chains) processes += chain.size();
  return static_cast<std::uint32_t>(processes);
}

cluster::TimePoint this_moment() {
  return std::chrono::steady_clock::now();
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostsSuccession>> HostsSuccession::make(const RankChains& chains,
                                                                       const std::vector<HostOfRank>& hosts,
                                                                       job::PeerNews& news,
                                                                       const std::string& why_workers_stay) {
  base::FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return absl::ErrnoToStatus(errno, "no eventfd");
  return std::unique_ptr<HostsSuccession>(
      new HostsSuccession(chains, hosts, news, why_workers_stay, std::move(bell)));
}

HostsSuccession::HostsSuccession(const RankChains& chains, const std::vector<HostOfRank>& hosts,
                                 job::PeerNews& news, const std::string& why_workers_stay,
                                 base::FileDescriptor bell)
    : news_(news),
      beginning_(static_cast<std::uint32_t>(hosts.size())),
      bell_(std::move(bell)),
      workers_({.first_rank = rank_of_first_worker(chains), .why_they_stay = why_workers_stay}, hosts, news) {
  for (std::uint32_t server = 0; server < chains.size(); ++server) {
    for (std::uint32_t copy = 0; copy < chains[server].size(); ++copy) {
      const std::uint32_t rank = chains[server][copy];
      processes_[rank] = {.copy = {.server = server, .copy = copy}, .host = hosts[rank]};
      next_copy_ = std::max(next_copy_, copy + 1);
      copies_ = std::max(copies_, copy + 1);
    }
  }
}

absl::StatusOr<std::unique_ptr<HostsSuccession>> HostsSuccession::take_over(
    const RankChains& chains, const std::vector<HostOfRank>& hosts, job::PeerNews& news,
    const std::vector<Survivor>& survivors, cluster::Configuration newest,
    const std::string& why_workers_stay) {
  absl::StatusOr<std::unique_ptr<HostsSuccession>> made = make(chains, hosts, news, why_workers_stay);
  if (!made.ok()) return made.status();
  if (absl::Status taken = (*made)->take_over_from(survivors, std::move(newest)); !taken.ok()) return taken;
  return made;
}

absl::Status HostsSuccession::take_over_from(const std::vector<Survivor>& survivors,
                                             cluster::Configuration newest) {
  for (auto& [rank, process] : processes_) {
    process.is_gone = true;
    process.copy.copy = kNoCopy;
  }
  // Who was joining has lost the one that had let it in, and begins anew.
  for (const Survivor& one : survivors) {
    if (workers_.has(one.rank)) workers_.set_host(one.rank, one.host);
    if (one.rank < beginning_) continue;
    Process& process = processes_[one.rank];
    process = {.copy = {.server = 0, .copy = kNoCopy}, .host = one.host, .is_gone = true};
    const auto joins = std::find(newest.joining.begin(), newest.joining.end(), one.address);
    if (!one.address.empty() && joins != newest.joining.end())
      process.copy.server = static_cast<std::uint32_t>(joins - newest.joining.begin());
  }
  newest.joining.clear();
  newest.number += kNumbersLeftOut;
  std::vector<ServerCopy> lost;
  for (std::uint32_t server = 0; server < newest.servers.size(); ++server) {
    for (std::uint32_t copy = 0; copy < newest.servers[server].size(); ++copy) {
      const auto its = std::find_if(survivors.begin(), survivors.end(), [&](const Survivor& one) {
        return one.address == newest.servers[server][copy];
      });
      if (its == survivors.end()) {
        lost.push_back({.server = server, .copy = copy});
      } else {
        processes_[its->rank] = {
            .copy = {.server = server, .copy = copy}, .host = its->host, .address = its->address};
      }
      next_copy_ = std::max(next_copy_, copy + 1);
    }
  }
  put(cluster::kConfigurationKey, cluster::encode(newest));
  has_begun_ = true;
  told_number_ = 0;
  for (const ServerCopy& copy : lost) {
    const absl::StatusOr<cluster::Configuration> next = controller_.remove(copy, this_moment());
    if (!next.ok()) return next.status();
    lines_.push_back(fmt::format("{} of server {} was lost with rank 0, or while nobody led the run: {}",
                                 copy.copy == 0 ? "the process" : fmt::format("copy {}", copy.copy),
                                 copy.server, what_follows(*next, copy.server)));
  }
  return absl::OkStatus();
}

void HostsSuccession::go_on() {
  std::vector<std::uint32_t> others;
  for (const auto& [rank, process] : processes_) {
    if (rank != 0) others.push_back(rank);
  }
  news_.outlive(others);
  for (const auto& [rank, process] : processes_) {
    if (process.is_gone && rank != 0) news_.dismiss(rank, "the run goes on without it");
  }
  tell_newest();
  ring();
}

std::optional<cluster::Controller::Copy> HostsSuccession::copy_of(std::uint32_t rank) const {
  const auto found = processes_.find(rank);
  if (found == processes_.end() || found->second.is_gone) return std::nullopt;
  return found->second.copy;
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
  ring();
}

void HostsSuccession::ring() {
  const std::uint64_t one = 1;
  (void)!::write(bell_.get(), &one, sizeof one);
}

HostsSuccession::Leads HostsSuccession::leads() {
  const job::PeerNews::Standing standing = news_.standing();
  doubted_at_ = standing.doubted_at;
  return standing.leads;
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
  go_on_with_moves(host);
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
  const auto* const word = std::get_if<cluster::Word>(&heard.what);
  if (word != nullptr && std::holds_alternative<cluster::Arrival>(*word))
    return arrive(heard.rank, std::get<cluster::Arrival>(*word), host);
  if (word == nullptr) workers_.lose(heard.rank);
  if (word != nullptr && std::holds_alternative<cluster::HasRead>(*word))
    return workers_.note_read(heard.rank);
  const bool wants_to_leave = word != nullptr && std::holds_alternative<cluster::WantsToLeave>(*word);
  if (workers_.has(heard.rank) && wants_to_leave) return host.leave(heard.rank);
  const auto found = processes_.find(heard.rank);
  if (found == processes_.end()) return;
  if (word == nullptr) return host.lose(heard.rank, "is gone: it crashed, was killed, or its host is gone");
  if (wants_to_leave) return host.leave(heard.rank);
  if (!found->second.is_late) return;
  if (const auto* const wish = std::get_if<cluster::WantsToJoin>(word)) {
    let_join(heard.rank, wish->address);
  } else if (const auto* const joined = std::get_if<cluster::HasJoined>(word)) {
    if (joined->address != found->second.address) return;
    put(cluster::kJoinedPrefix + joined->address, "");
  }
}

/// It may be wrong, or late: it never costs the last copy of a server, and says nothing of one that has no
/// place any more; nor of this process while it was stopped, for whoever has said that sees it beat again.
void HostsSuccession::take_suspicion(const cluster::Suspicion& suspicion, Host& host) {
  const std::optional<ServerCopy> copy = controller_.replaceable_at(suspicion.address, this_moment());
  if (!copy) return;
  if (const std::optional<std::uint32_t> rank = rank_of(*copy)) {
    if (*rank == 0 && this_moment() < doubted_at_ + kWordsOfAStop) return;
    host.lose(*rank, fmt::format("shows no sign of life ({})", std::string(base::printable(suspicion.why))));
  }
}

std::optional<std::uint32_t> HostsSuccession::rank_of(const ServerCopy& copy) const {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [&](const auto& one) { return one.second.copy == copy; });
  if (found == processes_.end()) return std::nullopt;
  return found->first;
}

/// It comes because rank 0 has asked for it, in the place of one that is gone, or because somebody has added
/// it.
void HostsSuccession::arrive(std::uint32_t rank, const cluster::Arrival& arrival, Host& host) {
  if (workers_.has(rank)) {
    workers_.note_arrival(rank, arrival);
    return tell_again();
  }
  const auto known = processes_.find(rank);
  if (known != processes_.end() && !known->second.is_gone) return;
  Move* move = move_of(rank);
  // One that was started again with its own rank, of a server, can only become one.
  const auto becomes_workers = [&] { return rank >= beginning_ && workers_.welcome(rank, arrival); };
  if (move == nullptr && becomes_workers()) return tell_again();
  if (move == nullptr) move = plan_for(rank, arrival, host);
  if (move == nullptr && becomes_workers()) return tell_again();
  if (move == nullptr) {
    news_.tell_one(rank, cluster::encode(cluster::IsNotNeeded{
                             "no server lacks a copy, and no host has two more than this one would have, of "
                             "servers or of workers that can move"}));
    news_.release(rank);  // it ends by itself
    return;
  }
  move->state = Move::State::kJoins;
  move->rank = rank;
  move->to = {.machine = arrival.machine, .name = arrival.host};
  const std::uint32_t server = move->server;
  if (move->replaces && !processes_[*move->replaces].leaves)
    host.show(fmt::format("{} begins", name_of(*move)));
  welcome(rank, arrival, server, host);
  news_.tell_one(rank, cluster::encode(cluster::BecomesCopy{server}));
}

void HostsSuccession::welcome(std::uint32_t rank, const cluster::Arrival& arrival, std::uint32_t server,
                              Host& host) {
  Process& process = processes_[rank];
  process = {.copy = {.server = server, .copy = next_copy_++},
             .host = {.machine = arrival.machine, .name = arrival.host},
             .is_late = true};
  host.welcome(rank,
               {.name = fmt::format("copy {} of server {} (rank {}, pid {} on {})", process.copy.copy, server,
                                    rank, arrival.pid, std::string(base::printable(arrival.host))),
                .server = true,
                .of_server = server,
                .pid = arrival.pid,
                .copy = process.copy.copy,
                .host = std::string(base::printable(arrival.host))});
}

// ---- moves

/// What every process has, or will have when the moves have ended that are under way or to come.
std::vector<Holding> HostsSuccession::holdings() {
  std::vector<Holding> all;
  const std::optional<cluster::Controller::Chains> known = controller_.chains(this_moment());
  if (!known) return all;
  std::set<std::uint32_t> replaced;
  for (const Move& move : moves_) {
    if (move.replaces) replaced.insert(*move.replaces);
  }
  for (const std::vector<ServerCopy>& chain : known->servers) {
    bool serves = true;
    for (const ServerCopy& copy : chain) {
      const std::optional<std::uint32_t> rank = rank_of(copy);
      if (!rank || replaced.contains(*rank)) continue;
      const Process& process = processes_[*rank];
      all.push_back({.server = copy.server,
                     .rank = *rank,
                     .host = process.host.machine,
                     .can_move = *rank != 0 && !process.leaves,
                     .serves = std::exchange(serves, false)});
    }
  }
  for (const Move& move : moves_) {
    const bool serves = std::none_of(all.begin(), all.end(),
                                     [&](const Holding& holding) { return holding.server == move.server; });
    all.push_back({.server = move.server,
                   .rank = move.rank,
                   .host = move.to.machine,
                   .can_move = false,
                   .serves = serves});
  }
  return all;
}

void HostsSuccession::add_moves(const std::vector<Transfer>& transfers, const HostOfRank& to) {
  const std::uint32_t plan = next_plan_++;
  for (const Transfer& transfer : transfers)
    moves_.push_back({.plan = plan, .server = transfer.server, .replaces = transfer.replaces, .to = to});
}

/// What a process is to do that nobody has asked for, as the first of its host's plan; nullptr: nothing.
HostsSuccession::Move* HostsSuccession::plan_for(std::uint32_t rank, const cluster::Arrival& arrival,
                                                 Host& host) {
  const std::vector<Holding> all = holdings();
  const HostOfRank to{.machine = arrival.machine, .name = arrival.host};
  std::vector<Transfer> transfers;
  if (const auto before = processes_.find(rank); before != processes_.end()) {
    // It comes in the place of one that is gone.
    const std::uint32_t server = before->second.copy.server;
    const auto copies = std::count_if(all.begin(), all.end(),
                                      [&](const Holding& holding) { return holding.server == server; });
    if (static_cast<std::uint32_t>(copies) < copies_) {
      transfers = {{.server = server, .replaces = std::nullopt}};
    } else {  // another one has its server by now
      transfers = share_of(arrival.machine, all, copies_, std::nullopt);
      if (transfers.size() > 1) transfers.resize(1);
    }
  } else {
    transfers = share_of(arrival.machine, all, copies_, arrival.takes);
    const std::size_t workers = workers_.plan(to, arrival.takes_workers);
    const std::string& why_they_stay = workers_.why_they_stay();
    host.show(
        fmt::format("{} joins, with {} of {} servers and copies{}",
                    std::string(base::printable(arrival.host)), transfers.size(), all.size(),
                    why_they_stay.empty()
                        ? fmt::format(", and {} of {} processes with workers", workers, workers_.count())
                        : fmt::format("; the workers stay where they are: {}", why_they_stay)));
  }
  if (transfers.empty()) return nullptr;
  add_moves(transfers, to);
  return &moves_[moves_.size() - transfers.size()];
}

HostsSuccession::Move* HostsSuccession::move_of(std::uint32_t newcomer) {
  const auto found = std::find_if(moves_.begin(), moves_.end(), [&](const Move& move) {
    return move.state != Move::State::kWaits && move.rank == newcomer;
  });
  return found == moves_.end() ? nullptr : &*found;
}

bool HostsSuccession::is_being_moved(std::uint32_t server) const {
  return std::any_of(moves_.begin(), moves_.end(), [&](const Move& move) { return move.server == server; });
}

/// Of the processes of a host, one that can start another; nullopt: none is left.
std::optional<std::uint32_t> HostsSuccession::starter_on(const std::string& machine) const {
  for (const auto& [rank, process] : processes_) {
    if (!process.is_gone && !process.leaves && process.host.machine == machine) return rank;
  }
  return workers_.starter_on(machine);
}

std::vector<HostOfRank> HostsSuccession::hosts_with_starters() const {
  std::vector<HostOfRank> all = workers_.hosts();
  for (const auto& [rank, process] : processes_) {
    if (!process.is_gone) all.push_back(process.host);
  }
  const std::set<std::string> leaving = machines_that_leave();
  std::erase_if(all, [&](const HostOfRank& host) { return leaving.contains(host.machine); });
  return all;
}

std::set<std::string> HostsSuccession::machines_that_leave() const {
  std::set<std::string> all = workers_.machines_that_leave();
  for (const auto& [rank, process] : processes_) {
    if (process.leaves && !process.is_gone) all.insert(process.host.machine);
  }
  return all;
}

std::string HostsSuccession::name_of(const Move& move) const {
  const std::string to(base::printable(move.to.name));
  if (!move.replaces) return fmt::format("another copy of server {} on {}", move.server, to);
  const Process& from = processes_.at(*move.replaces);
  return fmt::format("the move of {} from {} to {}",
                     from.copy.copy == 0 ? fmt::format("server {}", move.server)
                                         : fmt::format("copy {} of server {}", from.copy.copy, move.server),
                     std::string(base::printable(from.host.name)), to);
}

/// Begins those that have their turn, and gives up those for which no process has come.
void HostsSuccession::go_on_with_moves(Host& host) {
  time_.look(this_moment());
  for (std::size_t i = moves_.size(); i-- > 0;) {
    if (moves_[i].state == Move::State::kStarts && time_.now() >= moves_[i].deadline)
      fail_move(i, "the process that was to be started there has not come");
  }
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    Move& move = moves_[i];
    const bool has_turn = std::none_of(moves_.begin(), moves_.begin() + static_cast<std::ptrdiff_t>(i),
                                       [&](const Move& before) { return before.plan == move.plan; });
    if (move.state != Move::State::kWaits || !has_turn) continue;
    const std::optional<std::uint32_t> starter = starter_on(move.to.machine);
    if (!starter) {
      fail_move(i--, "no process is left there that could start another one");
      continue;
    }
    move.state = Move::State::kStarts;
    move.rank = news_.keep_place();
    move.deadline = time_.now() + kPatienceWithStart;
    news_.tell_one(*starter, cluster::encode(cluster::StartsAnother{move.rank}));
  }
  workers_.go_on([this](const std::string& machine) { return starter_on(machine); }, hosts_with_starters());
  for (const std::string& line : std::exchange(lines_, {})) host.show(line);
  for (const std::uint32_t rank : workers_.take_kept()) host.keep_place(rank);
  for (const std::string& line : workers_.take_lines()) host.show(line);
}

HostsSuccession::Successor HostsSuccession::note_free(std::uint32_t rank, bool has_stepped_aside) {
  const Successor successor = workers_.note_free(rank, has_stepped_aside, hosts_with_starters());
  ring();  // for go_on_with_moves()
  return successor;
}

void HostsSuccession::note_work(std::uint32_t rank) {
  workers_.note_work(rank);
  ring();  // the next one of its plan has its turn
}

void HostsSuccession::end_moves_of_workers(bool is_over) {
  workers_.end(is_over);
}

/// It has all that the others have: now another one may go.
void HostsSuccession::finish_move(std::uint32_t newcomer, Host& host) {
  const Move* const found = move_of(newcomer);
  if (found == nullptr) return;
  const Move move = *found;
  std::erase_if(moves_,
                [&](const Move& one) { return one.state != Move::State::kWaits && one.rank == newcomer; });
  if (!move.replaces) return;
  const ServerCopy its = processes_[*move.replaces].copy;
  const absl::StatusOr<ServerCopy> may_leave = controller_.may_leave(its.server, its.copy, this_moment());
  if (!may_leave.ok()) return;  // the newcomer is gone again
  const absl::StatusOr<std::string> next = leave_out(*move.replaces);
  if (next.ok()) {
    host.step_aside(*move.replaces,
                    fmt::format("steps aside for copy {} on {}: {}", processes_[newcomer].copy.copy,
                                std::string(base::printable(move.to.name)), *next));
  }
}

/// A process is gone: what it was to have it will not have, and it needs no place any more.
void HostsSuccession::cancel_moves_of(std::uint32_t gone) {
  for (std::size_t i = moves_.size(); i-- > 0;) {
    if (moves_[i].replaces == gone) {
      moves_[i].replaces.reset();  // its server lacks a copy now
    } else if (moves_[i].state == Move::State::kJoins && moves_[i].rank == gone) {
      fail_move(i, "the process there is gone before it had what the others have");
    }
  }
}

void HostsSuccession::fail_move(std::size_t index, const std::string& why) {
  const Move& move = moves_[index];
  const bool is_told = !move.replaces && move.state == Move::State::kJoins;  // that it has not joined
  if (!is_told) lines_.push_back(fmt::format("{} comes to nothing: {}", name_of(move), why));
  if (move.replaces) ++processes_[*move.replaces].refusals;
  moves_.erase(moves_.begin() + static_cast<std::ptrdiff_t>(index));
}

std::vector<std::string> HostsSuccession::moves() {
  std::vector<std::string> all;
  for (const Move& move : moves_) {
    all.push_back(fmt::format("{} {}", name_of(move),
                              move.state == Move::State::kWaits    ? "waits for its turn"
                              : move.state == Move::State::kStarts ? "starts a process"
                                                                   : "copies"));
  }
  const std::vector<std::string> of_workers = workers_.moves();
  all.insert(all.end(), of_workers.begin(), of_workers.end());
  return all;
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
    const std::optional<std::uint32_t> rank = rank_of(copy);
    if (!rank) continue;
    host.note_joined(*rank);
    finish_move(*rank, host);
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
  const auto found = processes_.find(rank);
  if (found == processes_.end()) return absl::FailedPreconditionError("it is no server");
  const Process& process = found->second;
  // The server of one that has taken over came later, and may end before it.
  if (rank == 0 && !process.is_late) return absl::FailedPreconditionError("it leads the run");
  const absl::StatusOr<cluster::Configuration> next = controller_.remove(process.copy, this_moment());
  // One that is late may not have said yet that it wants to join.
  const bool was_in_none = absl::IsFailedPrecondition(next.status()) && process.is_late;
  if (!next.ok() && !was_in_none) return next.status();
  processes_[rank].is_gone = true;
  news_.dismiss(rank, why);
  tell_newest();
  cancel_moves_of(rank);
  return next.ok() ? what_follows(*next, process.copy.server) : std::string("it was no copy yet");
}

absl::StatusOr<std::string> HostsSuccession::let_leave(std::uint32_t rank) {
  if (workers_.has(rank)) {
    const absl::Status why_not = workers_.let_leave(rank, hosts_with_starters());
    if (workers_.is_to_go_on()) ring();  // for go_on_with_moves()
    return why_not;
  }
  const auto found = processes_.find(rank);
  if (rank == 0 || found == processes_.end()) return absl::FailedPreconditionError("the run needs it");
  found->second.leaves = true;
  const ServerCopy its = found->second.copy;
  const auto may_leave = controller_.may_leave(its.server, its.copy, this_moment());
  if (may_leave.ok()) return leave_out(rank);
  if (!has_begun_ || !absl::IsFailedPrecondition(may_leave.status())) return may_leave.status();
  return begin_refuge(rank, may_leave.status());
}

/// It ends by itself when it hears of the configuration.
absl::StatusOr<std::string> HostsSuccession::leave_out(std::uint32_t rank) {
  Process& process = processes_[rank];
  const absl::StatusOr<cluster::Configuration> next = controller_.remove(process.copy, this_moment());
  if (!next.ok()) return next.status();
  process.is_gone = true;
  news_.tell_one(rank, cluster::encode(cluster::StepsAside{}));  // before it hears of the configuration
  news_.release(rank);
  tell_newest();
  cancel_moves_of(rank);
  return what_follows(*next, process.copy.server);
}

/// A process that is to end is the only one that has all of its server: another one is made.
absl::Status HostsSuccession::begin_refuge(std::uint32_t rank, const absl::Status& why) {
  constexpr std::uint32_t kMostAttempts = 3;
  const Process& process = processes_[rank];
  const absl::Status is_under_way = absl::UnavailableError("another copy is being made");
  if (is_being_moved(process.copy.server)) return is_under_way;
  if (process.refusals >= kMostAttempts) return why;
  const std::vector<Holding> all = holdings();
  const auto refuge = refuge_of({.server = process.copy.server, .rank = rank, .host = process.host.machine},
                                all, machines_that_leave());
  if (!refuge) {
    return absl::FailedPreconditionError(fmt::format(
        "{}, and there is no other host with servers that could take its place", std::string(why.message())));
  }
  const std::optional<std::uint32_t> starter = starter_on(*refuge);
  if (!starter) return why;
  add_moves({{.server = process.copy.server, .replaces = rank}}, processes_[*starter].host);
  lines_.push_back(fmt::format("{} begins, as its process is to end", name_of(moves_.back())));
  ring();  // for go_on_with_moves()
  return is_under_way;
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
