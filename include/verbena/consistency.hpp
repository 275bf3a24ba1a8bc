// The consistency models that a table can choose, and what each promises. docs/consistency.md says when to
// take which.
//
// Notation: c is the reader's clock, the number of iterations it has finished; an update u made at clock t
// carries t = t(u). The min clock m says that all updates of clocks < m, from every worker, are applied.
// R(c) is what a read at clock c sees. In every model a worker sees its own updates at once
// (read-my-writes): own ⊆ R(c).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace verbena {

/// Bulk synchronous parallel (Valiant, CACM'90). A read sees exactly the updates of all finished clocks, and
/// the reader's own: nothing that another worker does in the running clock. The server adds the updates of a
/// clock when all have finished it, in the order of workers and pushes, so that two runs are equal bit for
/// bit. All wait for the slowest at each clock().
///
///   R(c) = { u : t(u) < c } ∪ own,   m = c at each read
struct Bsp {
  friend bool operator==(const Bsp&, const Bsp&) = default;
};

/// What the updates of a table are, of the examples that they were made from.
enum class Updates : std::uint8_t {
  kSums,   ///< a term for each example: gradients added up, counts
  kMeans,  ///< divided by the number of examples: mean gradients, models to be averaged
};

/// A-BSP, advanced bulk synchronous (Wang et al., Middleware'18). As BSP: a read at clock c sees exactly the
/// updates of clocks < c, and the reader's own. Besides, the iteration of a clock ends for all when the first
/// worker has finished its examples: each finishes its mini-batch and pushes what it has; the examples that
/// it left come first in its next iteration (<verbena/data_cursor.hpp>). No one waits for a straggler's full
/// pass. Where all finish in time, every bit is BSP's.
///
/// Updates that are sums over examples weigh what they should however many examples they hold. Those that are
/// means do not: a mean over a tenth of the examples is pushed as large as one over all of them. So worker
/// p's means of a clock in which it has processed n_p of its D_p examples are multiplied by
///
///   w_p = (n_p / Σn) / (D_p / ΣD),   the sums over all workers that took examples in this clock,
///
/// which is 1, and nothing is multiplied, where all have processed all.
struct ABsp {
  Updates updates = Updates::kSums;
  friend bool operator==(const ABsp&, const ABsp&) = default;
};

/// Stale synchronous parallel (Ho et al., NIPS'13). A read sees all updates but maybe those of the last
/// `staleness` clocks and of the running one, of which it sees what happens to be there. A worker more than
/// `staleness` clocks ahead of the slowest waits, in its read. What was read answers later reads as long as
/// that bound allows.
///
///   { u : t(u) ≤ c − s − 1 } ∪ own ⊆ R(c),   m ≥ c − s
struct Ssp {
  std::uint32_t staleness = 1;
  friend bool operator==(const Ssp&, const Ssp&) = default;
};

/// Eager stale synchronous parallel (Dai et al., AAAI'15). The promise of SSP; besides, whoever has read a
/// row has subscribed to it, and each time the min clock advances the server writes the rows that have
/// changed into the subscribers' caches, rows first, then the clock. Reads are nearly always local and fresh,
/// and the bound seldom makes anybody wait.
///
///   { u : t(u) ≤ c − s − 1 } ∪ own ⊆ R(c),   m ≥ c − s;   c − 1 − m is mostly 0
struct Essp {
  std::uint32_t staleness = 1;
  friend bool operator==(const Essp&, const Essp&) = default;
};

/// Bounded delay (Li et al., OSDI'14, section 3.4). A clock is a task: what all workers pull and push in it.
/// A task starts only when all tasks more than `delay` before it have finished, that is, when all their
/// updates are applied: the wait is in clock(), and no read waits for other workers. Within a clock
/// operations run side by side but for the dependencies that they name (OperationOptions::after in
/// <verbena/table.hpp>). Delay 0 is one task after the other, without BSP's order of sums.
///
///   { u : t(u) ≤ c − τ − 1 } ∪ own ⊆ R(c),   m ≥ c − τ when clock c begins
struct BoundedDelay {
  std::uint32_t delay = 1;
  friend bool operator==(const BoundedDelay&, const BoundedDelay&) = default;
};

/// Asynchronous parallel, also "eventual" (Li et al., OSDI'14) or Hogwild. A read sees what the server has
/// when the row is first read in a clock; nobody ever waits for another worker, and nothing bounds how old
/// what it sees is, but that updates arrive.
///
///   own ⊆ R(c)
///
/// Of a dynamic table rows are read where they lie, or, where intents have made a replica of one, in the
/// replica. Those have a bound, so that no server needs to be quick and none may be forgotten: with K =
/// kMostClocksBehind, an update of clock t is applied when its worker begins clock t + 2K + 1, and a read at
/// clock c sees all that was applied when its worker began clock c − K.
struct Asp {
  /// Of replicas of dynamic tables. Those of rows that are told clock by clock are mostly one clock behind; a
  /// clock may be short, and a server busy.
  static constexpr std::int64_t kMostClocksBehind = 8;
  friend bool operator==(const Asp&, const Asp&) = default;
};

/// Sequential consistency for each key (Lamport 1979; the promise of Lapse, VLDB'20, for synchronous
/// operations). A push has been applied when it returns, and a pull reads the server's row: for each number
/// of a row there is one order of all pushes and pulls that every worker agrees with, and an operation that
/// began after another had ended comes after it (that is, each number is linearizable). Nothing is said of
/// clocks; each push costs a round trip.
///
///   u ended before the read began ⇒ u ∈ R;   R₁ ⊆ R₂ or R₂ ⊆ R₁ for any two reads of a number
struct Sequential {
  friend bool operator==(const Sequential&, const Sequential&) = default;
};

/// Value-bounded asynchronous parallel (Wei et al., SoCC'15; Dai et al., AAAI'15). In every coordinate the
/// sum of all updates that not all workers can see yet is at most v₀ / √t, t counting the iterations from 1.
/// A read is of the server's row, so that an update is seen by all once it is applied, and the producer alone
/// can keep the bound: each of P workers keeps its own sum below v₀ / (P √t). A push that would exceed it
/// waits until its updates are applied; so does clock(), since the bound shrinks. Nobody waits for another
/// worker's clock.
///
///   | Σ { u : u pushed, not seen by all } | ≤ v₀ / √t   in every coordinate, whenever anyone reads
struct Vap {
  double value_bound = 1;  ///< v₀ > 0, finite
  friend bool operator==(const Vap&, const Vap&) = default;
};

using ConsistencyModel = std::variant<Bsp, ABsp, Ssp, Essp, BoundedDelay, Asp, Sequential, Vap>;

/// The largest staleness and delay. A worker a million clocks ahead is not bounded by anything; such a number
/// is a slip of the hand.
inline constexpr std::uint32_t kMaxStaleness = 1'000'000;

/// Reads "bsp", "a-bsp", "a-bsp:means", "ssp:2", "essp:2", "bounded-delay:2" (the number may be left out: 1),
/// "asp", "sequential", "vap:0.5". INVALID_ARGUMENT says what was expected.
absl::StatusOr<ConsistencyModel> parse_consistency(std::string_view text);
/// The inverse, with the number; exact.
std::string to_string(const ConsistencyModel& model);

}  // namespace verbena
