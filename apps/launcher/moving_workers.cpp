#include "apps/launcher/moving_workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "base/printable.hpp"
#include "cluster/order.hpp"

namespace verbena::apps {
namespace {

constexpr std::uint32_t kMostFailures = 3;

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
  if (is_over_ || !options_.why_they_stay.empty()) return 0;
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
  if (is_over_) return false;
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
  move.deadline = time_.now() + options_.patience_with_arrival;
  news_.give_place(move.newcomer, move.rank);
}

/// The place is not given yet: whoever leads the run has still to say that the one before has none any more.
MovingWorkers::Successor MovingWorkers::note_free(std::uint32_t rank, bool has_stepped_aside,
                                                  const std::vector<HostOfRank>& hosts) {
  const auto found = places_.find(rank);
  if (found == places_.end()) return Successor::kNobody;
  Place& place = found->second;
  place.is_free = true;
  place.is_owed = has_stepped_aside || place.came_by.has_value();
  if (place.came_by) fail_newcomer(rank);
  begin_again_if_owed(rank, hosts);
  const Move* const move = move_from(rank);
  if (move == nullptr) return Successor::kNobody;
  return is_there(*move) ? Successor::kIsThere : Successor::kIsStarted;
}

/// What has come to that host has failed there: no other worker is to try it.
void MovingWorkers::fail_newcomer(std::uint32_t rank) {
  Place& place = places_.at(rank);
  const std::uint32_t plan = *std::exchange(place.came_by, std::nullopt);
  count_failure(place, place.host.machine);
  std::erase_if(moves_, [&](const Move& move) {
    const bool would_follow =
        move.plan == plan && move.state == Move::State::kWaits && !places_.at(move.rank).is_free;
    if (would_follow)
      lines_.push_back(fmt::format("{} comes to nothing: worker {}, which has moved there, has failed",
                                   name_of(move), rank - options_.first_rank));
    return would_follow;
  });
}

void MovingWorkers::count_failure(Place& place, const std::string& machine) {
  ++place.failures;
  place.failed_on.insert(machine);
}

void MovingWorkers::note_work(std::uint32_t rank) {
  const auto found = places_.find(rank);
  if (found == places_.end()) return;
  found->second.came_by.reset();
  found->second.failures = 0;
  found->second.failed_on.clear();
}

void MovingWorkers::note_arrival(std::uint32_t rank, const cluster::Arrival& arrival) {
  const auto found = places_.find(rank);
  if (found == places_.end()) return;
  Place& place = found->second;
  place = {.host = {.machine = arrival.machine, .name = arrival.host},
           .failures = place.failures,
           .failed_on = std::move(place.failed_on)};
  const Move* const move = move_from(rank);
  if (move == nullptr) return;
  // Another one may have been quicker.
  const bool is_the_newcomer = move->pid == arrival.pid && move->to.machine == arrival.machine;
  if (move->state == Move::State::kTakes && is_the_newcomer) {
    place.came_by = move->plan;
  } else {
    forget(*move);
  }
  std::erase_if(moves_, [&](const Move& one) { return one.rank == rank; });
}

/// The process that was to take a place is not needed any more.
void MovingWorkers::forget(const Move& move) {
  if (!is_there(move)) return;
  news_.tell_one(move.newcomer, cluster::encode(cluster::IsNotNeeded{"no worker is to move any more"}));
  news_.release(move.newcomer);  // it ends by itself
}

/// One that has got its place has its rank. When a process of that rank is gone then, it may be the one
/// before it, of which that is heard only now: so the one that has got the place is waited for
/// (give_up_overdue()).
void MovingWorkers::lose(std::uint32_t newcomer) {
  for (std::size_t i = moves_.size(); i-- > 0;) {
    const Move& move = moves_[i];
    const bool has_come = is_there(move) || move.state == Move::State::kTakes;
    if (has_come && move.newcomer == newcomer)
      fail(i, "the process there is gone before it had the workers' place");
  }
}

void MovingWorkers::give_up_overdue() {
  for (std::size_t i = moves_.size(); i-- > 0;) {
    const Move& move = moves_[i];
    if (time_.now() < move.deadline) continue;
    if (move.state == Move::State::kStarts) {
      fail(i, "the process that was to be started there has not come");
    } else if (move.state == Move::State::kTakes) {
      // It may be stopped, and go on one day.
      news_.dismiss(move.rank, "it has not said in time that it has the workers' place");
      fail(i, "the process there has got the workers' place, and has not said so");
    }
  }
}

void MovingWorkers::fail(std::size_t index, const std::string& why) {
  const Move move = moves_[index];
  moves_.erase(moves_.begin() + static_cast<std::ptrdiff_t>(index));
  Place& place = places_.at(move.rank);
  count_failure(place, move.to.machine);
  const bool is_last = place.is_free && place.failures >= kMostFailures;
  lines_.push_back(fmt::format(
      "{} comes to nothing: {}{}", name_of(move), why,
      is_last ? ". No further process is started: start one in its place, with the same command line" : ""));
  if (place.is_free) {
    place.is_owed = true;
    kept_.push_back(move.rank);
  } else if (move.state == Move::State::kHandsOver) {
    news_.tell_one(move.rank, cluster::encode(cluster::Stays{}));
  }
}

absl::Status MovingWorkers::let_leave(std::uint32_t rank, const std::vector<HostOfRank>& hosts) {
  Place& place = places_.at(rank);
  const bool is_asked_first = !std::exchange(place.leaves, true);
  if (is_asked_first && !place.came_by) place.failures = 0;  // of hosts that have joined since it came
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

/// On the host with the fewest workers: another one, as long as there are others, and if there are any on
/// which no attempt has failed, one of those.
absl::Status MovingWorkers::begin_elsewhere(std::uint32_t rank, const std::vector<HostOfRank>& hosts) {
  const Place& place = places_.at(rank);
  std::map<std::string, std::size_t> loads;
  for (const Holding& holding : holdings()) ++loads[holding.host];
  const auto cost = [&](const HostOfRank& host) {
    return std::tuple(host.machine == place.host.machine, place.failed_on.contains(host.machine),
                      loads[host.machine]);
  };
  const HostOfRank* best = nullptr;
  for (const HostOfRank& host : hosts) {
    const bool is_fit = place.is_free || host.machine != place.host.machine;
    if (is_fit && (best == nullptr || cost(host) < cost(*best))) best = &host;
  }
  if (best == nullptr)
    return absl::FailedPreconditionError("there is no other host with processes that could take its place");
  moves_.push_back({.plan = next_plan_++, .rank = rank, .to = *best});
  return absl::OkStatus();
}

void MovingWorkers::begin_again_if_owed(std::uint32_t rank, const std::vector<HostOfRank>& hosts) {
  const Place& place = places_.at(rank);
  const bool is_owed = place.is_free && place.is_owed && place.failures < kMostFailures;
  if (!is_over_ && is_owed && move_from(rank) == nullptr) begin_elsewhere(rank, hosts).IgnoreError();
}

void MovingWorkers::end(bool is_over) {
  is_over_ |= is_over;
  std::erase_if(moves_, [&](const Move& move) {
    const bool goes_on = move.state == Move::State::kHandsOver || move.state == Move::State::kTakes ||
                         places_.at(move.rank).is_free;
    if (goes_on && !is_over) return false;
    forget(move);
    // It would try for a while to reach whoever leads the run.
    if (move.state == Move::State::kTakes) news_.dismiss(move.rank, "the run ends");
    return true;
  });
}

void MovingWorkers::go_on(
    const std::function<std::optional<std::uint32_t>(const std::string& machine)>& starter,
    const std::vector<HostOfRank>& hosts) {
  if (is_over_) return;
  time_.look(std::chrono::steady_clock::now());
  give_up_overdue();
  for (const auto& [rank, place] : places_) begin_again_if_owed(rank, hosts);
  for (Move& move : moves_) {
    if (is_there(move) && places_.at(move.rank).is_free) give_place(move);
  }
  for (std::size_t i = 0; i < moves_.size(); ++i) {
    if (!has_turn(moves_[i])) continue;
    if (const std::optional<std::uint32_t> who = starter(moves_[i].to.machine)) {
      start(moves_[i], *who);
    } else {
      fail(i--, "no process is left there that could start another one");
    }
  }
}

void MovingWorkers::start(Move& move, std::uint32_t starter) {
  move.state = Move::State::kStarts;
  move.newcomer = news_.keep_place();
  move.deadline = time_.now() + options_.patience_with_start;
  news_.tell_one(starter, cluster::encode(cluster::StartsAnother{move.newcomer}));
  if (places_.at(move.rank).is_free) kept_.push_back(move.rank);
}

/// It waits, and no other one of its plan comes before it, nor has one that has come to show that it can work
/// there. But a place that is free has no time to lose, and others cannot work before somebody has it.
bool MovingWorkers::has_turn(const Move& move) const {
  if (move.state != Move::State::kWaits) return false;
  if (places_.at(move.rank).is_free) return true;
  const auto first =
      std::find_if(moves_.begin(), moves_.end(), [&](const Move& other) { return other.plan == move.plan; });
  const bool has_newcomer = std::any_of(places_.begin(), places_.end(),
                                        [&](const auto& one) { return one.second.came_by == move.plan; });
  return &*first == &move && !has_newcomer;
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
