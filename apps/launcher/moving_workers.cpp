#include "apps/launcher/moving_workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/printable.hpp"
#include "cluster/order.hpp"

namespace verbena::apps {
namespace {

/// From the order to start a process until it has come.
constexpr auto kPatienceWithReader = std::chrono::seconds(15);
constexpr std::uint32_t kMostFailures = 3;

cluster::TimePoint time_of_moves() {
  return std::chrono::steady_clock::now();
}

std::string shown_host(const HostOfRank& host) {
  return std::string(base::printable(host.name));
}

}  // namespace

MovingWorkers::MovingWorkers(Options options, const std::vector<HostOfRank>& hosts, job::PeerNews& news)
    : options_(std::move(options)), news_(news) {
  for (std::uint32_t rank = options_.first_rank; rank < hosts.size(); ++rank)
    places_[rank] = {.host = hosts[rank]};
}

MovingWorkers::Move* MovingWorkers::move_from(std::uint32_t rank) {
  const auto found =
      std::find_if(moves_.begin(), moves_.end(), [&](const Move& move) { return move.rank == rank; });
  return found == moves_.end() ? nullptr : &*found;
}

MovingWorkers::Move* MovingWorkers::move_by(std::uint32_t newcomer) {
  const auto found = std::find_if(moves_.begin(), moves_.end(), [&](const Move& move) {
    return move.state != Move::State::kWaits && move.newcomer == newcomer;
  });
  return found == moves_.end() ? nullptr : &*found;
}

/// Of each process, where it is when the moves have ended. Each is a "server" without copies of its own.
std::vector<Holding> MovingWorkers::holdings() const {
  std::vector<Holding> all;
  for (const auto& [rank, place] : places_) {
    const auto moves = std::find_if(moves_.begin(), moves_.end(),
                                    [&, its = rank](const Move& move) { return move.rank == its; });
    const bool stays = moves == moves_.end();
    all.push_back({.server = rank,
                   .rank = rank,
                   .host = stays ? place.host.machine : moves->to.machine,
                   .can_move = stays && !place.is_free && !place.leaves});
  }
  return all;
}

std::size_t MovingWorkers::plan(const HostOfRank& to, std::optional<std::uint32_t> at_most) {
  if (!options_.why_they_stay.empty()) return 0;
  const std::uint32_t plan = next_plan_++;
  const std::size_t before = moves_.size();
  // First those that the run waits for.
  for (const auto& [rank, place] : places_) {
    if (!place.is_free || move_from(rank) != nullptr || at_most == 0U) continue;
    moves_.push_back({.plan = plan, .rank = rank, .to = to});
    if (at_most) --*at_most;
  }
  const std::vector<Transfer> transfers = share_of(to.machine, holdings(), /*copies=*/1, at_most);
  for (const Transfer& transfer : transfers)
    moves_.push_back({.plan = plan, .rank = transfer.server, .to = to});
  return moves_.size() - before;
}

bool MovingWorkers::welcome(std::uint32_t newcomer, const cluster::Arrival& arrival) {
  Move* move = move_by(newcomer);
  if (move == nullptr) {
    const auto first = std::find_if(moves_.begin(), moves_.end(), [&](const Move& each) {
      return has_turn(each) && each.to.machine == arrival.machine;
    });
    if (first == moves_.end()) return false;
    move = &*first;
  }
  move->state = Move::State::kReads;
  move->newcomer = newcomer;
  move->pid = arrival.pid;
  move->to = {.machine = arrival.machine, .name = arrival.host};
  const Place& place = places_.at(move->rank);
  if (!place.leaves && !place.is_free) lines_.push_back(fmt::format("{} begins", name_of(*move)));
  news_.tell_one(newcomer, cluster::encode(cluster::BecomesWorkers{move->rank}));
  if (place.is_free) give_place(*move);
  return true;
}

void MovingWorkers::note_read(std::uint32_t newcomer) {
  Move* const move = move_by(newcomer);
  if (move == nullptr || move->state != Move::State::kReads) return;
  move->state = Move::State::kHandsOver;
  news_.tell_one(move->rank, cluster::encode(cluster::StepsAside{}));
}

/// Whether it has read or not: nobody else is there.
void MovingWorkers::give_place(Move& move) {
  move.state = Move::State::kTakes;
  news_.give_place(move.newcomer, move.rank);
}

void MovingWorkers::note_free(std::uint32_t rank) {
  const auto place = places_.find(rank);
  if (place == places_.end()) return;
  place->second.is_free = true;
  Move* const move = move_from(rank);
  const bool has_come =
      move != nullptr && (move->state == Move::State::kReads || move->state == Move::State::kHandsOver);
  if (has_come) give_place(*move);
}

void MovingWorkers::note_arrival(std::uint32_t rank, const cluster::Arrival& arrival) {
  const auto place = places_.find(rank);
  if (place == places_.end()) return;
  place->second = {.host = {.machine = arrival.machine, .name = arrival.host}};
  Move* const move = move_from(rank);
  if (move == nullptr) return;
  // Another one may have been quicker.
  if (move->state != Move::State::kTakes || move->pid != arrival.pid) forget(*move);
  std::erase_if(moves_, [&](const Move& one) { return one.rank == rank; });
}

/// The process that was to take a place is not needed any more.
void MovingWorkers::forget(const Move& move) {
  const bool is_there = move.state == Move::State::kReads || move.state == Move::State::kHandsOver;
  if (!is_there) return;
  news_.tell_one(move.newcomer, cluster::encode(cluster::IsNotNeeded{"no worker is to move any more"}));
  news_.release(move.newcomer);  // it ends by itself
}

void MovingWorkers::lose(std::uint32_t rank) {
  for (std::size_t i = moves_.size(); i-- > 0;) {
    const Move& move = moves_[i];
    const bool has_come = move.state != Move::State::kWaits && move.state != Move::State::kStarts;
    const bool is_gone =
        has_come && (move.newcomer == rank || (move.rank == rank && move.state == Move::State::kTakes));
    if (is_gone) fail(i, "the process there is gone before it had the workers' place");
  }
}

void MovingWorkers::fail(std::size_t index, const std::string& why) {
  const Move move = moves_[index];
  lines_.push_back(fmt::format("{} comes to nothing: {}", name_of(move), why));
  ++places_.at(move.rank).failures;
  moves_.erase(moves_.begin() + static_cast<std::ptrdiff_t>(index));
  if (move.state == Move::State::kHandsOver) news_.tell_one(move.rank, cluster::encode(cluster::Stays{}));
}

absl::Status MovingWorkers::let_leave(std::uint32_t rank, const std::vector<HostOfRank>& hosts) {
  Place& place = places_.at(rank);
  if (!std::exchange(place.leaves, true)) place.failures = 0;  // of hosts that have joined since it came
  if (!options_.why_they_stay.empty()) return absl::FailedPreconditionError(options_.why_they_stay);
  const absl::Status is_under_way = absl::UnavailableError("another process is to take its place");
  if (move_from(rank) != nullptr) return is_under_way;
  if (place.failures >= kMostFailures)
    return absl::FailedPreconditionError(
        fmt::format("{} attempts to let another process take its place have failed", place.failures));
  if (absl::Status begun = begin_elsewhere(rank, hosts); !begun.ok()) return begun;
  lines_.push_back(fmt::format("{} begins, as its process is to end", name_of(moves_.back())));
  return is_under_way;
}

/// On the host with the fewest workers: another one, as long as there are others.
absl::Status MovingWorkers::begin_elsewhere(std::uint32_t rank, const std::vector<HostOfRank>& hosts) {
  const Place& place = places_.at(rank);
  std::map<std::string, std::size_t> loads;
  for (const Holding& holding : holdings()) ++loads[holding.host];
  const HostOfRank* best = nullptr;
  for (const HostOfRank& host : hosts) {
    const bool is_fit = host.machine != place.host.machine;
    if (is_fit && (best == nullptr || loads[host.machine] < loads[best->machine])) best = &host;
  }
  if (best == nullptr && place.is_free) best = hosts.empty() ? nullptr : &hosts.front();
  if (best == nullptr)
    return absl::FailedPreconditionError("there is no other host with processes that could take its place");
  moves_.push_back({.plan = next_plan_++, .rank = rank, .to = *best});
  return absl::OkStatus();
}

void MovingWorkers::end(bool is_over) {
  std::erase_if(moves_, [&](const Move& move) {
    const bool goes_on = move.state == Move::State::kHandsOver || move.state == Move::State::kTakes ||
                         places_.at(move.rank).is_free;
    if (goes_on && !is_over) return false;
    forget(move);
    return true;
  });
}

void MovingWorkers::go_on(
    const std::function<std::optional<std::uint32_t>(const std::string& machine)>& starter,
    const std::vector<HostOfRank>& hosts) {
  for (std::size_t i = moves_.size(); i-- > 0;) {
    if (moves_[i].state == Move::State::kStarts && time_of_moves() >= moves_[i].deadline)
      fail(i, "the process that was to be started there has not come");
  }
  // One has stepped aside for a process that is gone since: nobody else would start another one.
  for (const auto& [rank, place] : places_) {
    const bool was_moved = place.failures > 0 && place.failures < kMostFailures;
    if (place.is_free && was_moved && move_from(rank) == nullptr) begin_elsewhere(rank, hosts).IgnoreError();
  }
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    Move& move = moves_[i];
    if (!has_turn(move)) continue;
    const std::optional<std::uint32_t> who = starter(move.to.machine);
    if (!who) {
      fail(i--, "no process is left there that could start another one");
      continue;
    }
    move.state = Move::State::kStarts;
    move.newcomer = news_.keep_place();
    move.deadline = time_of_moves() + kPatienceWithReader;
    news_.tell_one(*who, cluster::encode(cluster::StartsAnother{move.newcomer}));
  }
}

/// It waits, and no other one of its plan comes before it.
bool MovingWorkers::has_turn(const Move& move) const {
  if (move.state != Move::State::kWaits) return false;
  const auto first =
      std::find_if(moves_.begin(), moves_.end(), [&](const Move& other) { return other.plan == move.plan; });
  return &*first == &move;
}

bool MovingWorkers::is_to_go_on() const {
  return std::any_of(moves_.begin(), moves_.end(), [this](const Move& move) { return has_turn(move); });
}

std::optional<std::uint32_t> MovingWorkers::starter_on(const std::string& machine) const {
  for (const auto& [rank, place] : places_) {
    if (!place.is_free && !place.leaves && place.host.machine == machine) return rank;
  }
  return std::nullopt;
}

std::vector<HostOfRank> MovingWorkers::hosts() const {
  std::vector<HostOfRank> all;
  for (const auto& [rank, place] : places_) {
    if (!place.is_free) all.push_back(place.host);
  }
  return all;
}

std::set<std::string> MovingWorkers::machines_that_leave() const {
  std::set<std::string> all;
  for (const auto& [rank, place] : places_) {
    if (place.leaves && !place.is_free) all.insert(place.host.machine);
  }
  return all;
}

std::string MovingWorkers::name_of(const Move& move) const {
  return fmt::format("the move of worker {} from {} to {}", move.rank - options_.first_rank,
                     shown_host(places_.at(move.rank).host), shown_host(move.to));
}

std::vector<std::string> MovingWorkers::moves() const {
  std::vector<std::string> all;
  for (const Move& move : moves_) {
    const char* what = "waits for its turn";
    if (move.state == Move::State::kStarts) what = "starts a process";
    if (move.state == Move::State::kReads) what = "reads its data";
    if (move.state == Move::State::kHandsOver) what = "waits for the end of an iteration";
    if (move.state == Move::State::kTakes) what = "takes its place";
    all.push_back(fmt::format("{} {}", name_of(move), what));
  }
  return all;
}

}  // namespace verbena::apps
