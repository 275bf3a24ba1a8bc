// How rank 0 of a job on several hosts moves workers to a host that joins it, or from one that leaves
// (docs/elasticity.md). What moves is a process with its workers: another process reads what they need, and
// only then the one that has been them steps aside, at the end of an iteration. The new one gets its rank,
// and is from then on as one that comes in the place of one that has died (hosts_replacement.hpp).
#pragma once

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
#include "apps/launcher/shares.hpp"
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
  struct Options {
    std::uint32_t first_rank = 0;  ///< of the workers' processes, which come last
    std::string why_they_stay;     ///< for people; empty: they can be replaced
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
  /// The place of that rank is free: its process has stepped aside, or is gone.
  void note_free(std::uint32_t rank);
  /// A process is gone: one that was to take a place, or one with workers.
  void lose(std::uint32_t rank);
  /// The process of that rank is to end. UNAVAILABLE: another one is to take its place. Otherwise why none
  /// will. `hosts`: those with a process that could start one, and none that is to end.
  absl::Status let_leave(std::uint32_t rank, const std::vector<HostOfRank>& hosts);
  /// No place is to be taken any more, but those that are free; or, `is_over`, none at all.
  void end(bool is_over);

  /// Begins moves that have their turn, and gives up those for which no process has come. `starter`: the rank
  /// of a process on that machine that can start another one; nullopt: none is left.
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
  [[nodiscard]] std::vector<std::string> moves() const;

 private:
  /// The process that has a rank.
  struct Place {
    HostOfRank host;
    bool is_free = false;
    bool leaves = false;         ///< it is to end
    std::uint32_t failures = 0;  ///< moves from it that have come to nothing
  };
  struct Move {
    enum class State : std::uint8_t {
      kWaits,      ///< for its turn
      kStarts,     ///< another process is to come
      kReads,      ///< it has
      kHandsOver,  ///< and has read; the one before it is to step aside
      kTakes,      ///< the place is free, and given to it
    };
    std::uint32_t plan = 0;  ///< those of one come one after the other
    std::uint32_t rank = 0;
    HostOfRank to;
    State state = State::kWaits;
    std::uint32_t newcomer = 0;        ///< the rank of the process that comes; not while it waits
    std::int64_t pid = 0;              ///< of that process, once it has come
    cluster::TimePoint deadline = {};  ///< of one that starts
  };

  [[nodiscard]] Move* move_from(std::uint32_t rank);
  [[nodiscard]] Move* move_by(std::uint32_t newcomer);
  [[nodiscard]] std::vector<Holding> holdings() const;
  [[nodiscard]] bool has_turn(const Move& move) const;
  absl::Status begin_elsewhere(std::uint32_t rank, const std::vector<HostOfRank>& hosts);
  void give_place(Move& move);
  void fail(std::size_t index, const std::string& why);
  void forget(const Move& move);
  [[nodiscard]] std::string name_of(const Move& move) const;

  const Options options_;
  job::PeerNews& news_;
  std::map<std::uint32_t, Place> places_;  ///< by rank
  std::vector<Move> moves_;                ///< under way, and to come
  std::uint32_t next_plan_ = 0;
  std::vector<std::string> lines_;
};

}  // namespace verbena::apps
