// How rank 0 of a job on several hosts moves workers to a host that joins it, or from one that leaves
// (docs/elasticity.md). What moves is a process with its workers: another process reads what they need, and
// only then the one that has been them steps aside, at the end of an iteration. The new one gets its rank,
// and is from then on as one that comes in the place of one that has died (hosts_replacement.hpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "apps/launcher/leader.hpp"
#include "apps/launcher/shares.hpp"
#include "base/own_time.hpp"
#include "cluster/store_state.hpp"
#include "cluster/word.hpp"
#include "job/peer_news.hpp"

namespace verbena::apps {

/// A process's host.
struct HostOfRank {
  std::string machine;  ///< equal for two processes if they share one
  std::string name;     ///< for people
};

/// Thread safety: none; belongs to its HostsSuccession.
class MovingWorkers {
 public:
  using Successor = Leader::Survival::Successor;
  struct Options {
    std::uint32_t first_rank = 0;  ///< of the workers' processes, which come last
    std::string why_they_stay;     ///< for people; empty: they can be replaced
    /// From the order to start a process until it has come.
    std::chrono::milliseconds patience_with_start{15'000};
    /// Until one that has got its place says so, which it does at once.
    std::chrono::milliseconds patience_with_arrival{10'000};
  };
  /// `hosts`: of all ranks of the job's beginning.
  MovingWorkers(Options options, const std::vector<HostOfRank>& hosts, job::PeerNews& news);

  [[nodiscard]] bool has(std::uint32_t rank) const { return places_.contains(rank); }
  [[nodiscard]] std::size_t count() const { return places_.size(); }
  [[nodiscard]] const std::string& why_they_stay() const { return options_.why_they_stay; }
  /// Of one that was there before this rank 0.
  void set_host(std::uint32_t rank, HostOfRank host) { places_.at(rank).host = std::move(host); }

  /// A host has joined, which is to take so many processes; nullopt: an even share, and all whose places are
  /// free. How many it will.
  std::size_t plan(const HostOfRank& to, std::optional<std::uint32_t> at_most);
  /// A process was added that is to become one with workers, since that was asked for, or as the first of its
  /// host's plan. False: it is not.
  bool welcome(std::uint32_t newcomer, const cluster::Arrival& arrival);
  /// It has read what it needs.
  void note_read(std::uint32_t newcomer);
  /// A process has come as that rank, in the place of the one before.
  void note_arrival(std::uint32_t rank, const cluster::Arrival& arrival);
  /// The place of that rank is free: its process has stepped aside, or is gone. `hosts`: as for let_leave().
  /// Whoever is to have it gets it in go_on().
  Successor note_free(std::uint32_t rank, bool has_stepped_aside, const std::vector<HostOfRank>& hosts);
  /// The process of that rank has finished an iteration.
  void note_work(std::uint32_t rank);
  /// A process is gone that was added.
  void lose(std::uint32_t newcomer);
  /// The process of that rank is to end. UNAVAILABLE: another one is to take its place. Otherwise why none
  /// will. `hosts`: those with a process that could start one, and none that is to end.
  absl::Status let_leave(std::uint32_t rank, const std::vector<HostOfRank>& hosts);
  /// No place is to be taken any more, but those that are free; or, `is_over`, none at all.
  void end(bool is_over);

  /// Begins moves that have their turn, gives places that are free to those who wait for them, and gives up
  /// moves for which no process has come. `starter`: the rank of a process on that machine that can start
  /// another one; nullopt: none is left.
  void go_on(const std::function<std::optional<std::uint32_t>(const std::string& machine)>& starter,
             const std::vector<HostOfRank>& hosts);
  /// go_on() has something to begin.
  [[nodiscard]] bool is_to_go_on() const;
  /// Of those on a machine, one that can start another process.
  [[nodiscard]] std::optional<std::uint32_t> starter_on(const std::string& machine) const;
  /// Of all that are there.
  [[nodiscard]] std::vector<HostOfRank> hosts() const;
  /// On which a process is to end.
  [[nodiscard]] std::set<std::string> machines_that_leave() const;
  /// For people, that nobody has been shown yet.
  std::vector<std::string> take_lines() { return std::exchange(lines_, {}); }
  /// Ranks whose free places are to be kept as long again as when they became free.
  std::vector<std::uint32_t> take_kept() { return std::exchange(kept_, {}); }
  [[nodiscard]] std::vector<std::string> moves() const;

 private:
  /// The process that has a rank.
  struct Place {
    HostOfRank host;
    bool is_free = false;
    bool is_owed = false;  ///< it is free, and nobody starts another process if this rank 0 does not
    bool leaves = false;   ///< it is to end
    /// The plan by which it has come, as long as it has not finished an iteration: it may turn out that no
    /// process can be these workers there.
    std::optional<std::uint32_t> came_by;
    // Since its process has finished an iteration, or has been asked to end:
    std::uint32_t failures = 0;       ///< moves from it that have come to nothing
    std::set<std::string> failed_on;  ///< machines
  };
  struct Move {
    enum class State : std::uint8_t {
      kWaits,      ///< for its turn
      kStarts,     ///< another process is to come
      kReads,      ///< it has
      kHandsOver,  ///< and has read; the one before it is to step aside
      kTakes,      ///< the place is free, and given to it; it has still to say so
    };
    std::uint32_t plan = 0;  ///< those of one come one after the other
    std::uint32_t rank = 0;
    HostOfRank to;
    State state = State::kWaits;
    std::uint32_t newcomer = 0;              ///< the rank of the process that comes; not while it waits
    std::int64_t pid = 0;                    ///< of that process, once it has come
    base::OwnTime::TimePoint deadline = {};  ///< of one that starts, or takes its place
  };

  /// It reads, or waits for its place.
  [[nodiscard]] static bool is_there(const Move& move) {
    return move.state == Move::State::kReads || move.state == Move::State::kHandsOver;
  }
  [[nodiscard]] Move* move_from(std::uint32_t rank);
  [[nodiscard]] Move* move_by(std::uint32_t newcomer);
  [[nodiscard]] std::vector<Holding> holdings() const;
  [[nodiscard]] bool has_turn(const Move& move) const;
  absl::Status begin_elsewhere(std::uint32_t rank, const std::vector<HostOfRank>& hosts);
  void begin_again_if_owed(std::uint32_t rank, const std::vector<HostOfRank>& hosts);
  void start(Move& move, std::uint32_t starter);
  void give_place(Move& move);
  void give_up_overdue();
  void fail_newcomer(std::uint32_t rank);
  static void count_failure(Place& place, const std::string& machine);
  void fail(std::size_t index, const std::string& why);
  void forget(const Move& move);
  [[nodiscard]] std::string name_of(const Move& move) const;

  const Options options_;
  job::PeerNews& news_;
  /// At the last go_on(). While rank 0 is stopped, or doubts, nobody hears what it orders.
  base::OwnTime time_{std::chrono::steady_clock::now()};
  std::map<std::uint32_t, Place> places_;  ///< by rank
  std::vector<Move> moves_;                ///< under way, and to come
  std::uint32_t next_plan_ = 0;
  bool is_over_ = false;
  std::vector<std::string> lines_;
  std::vector<std::uint32_t> kept_;
};

}  // namespace verbena::apps
