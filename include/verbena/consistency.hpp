// The consistency models that a table can choose, and what each promises. docs/consistency.md says when to
// take which.
//
// Notation: c is the reader's clock, the number of iterations it has finished; an update u made at clock t
// carries t = t(u). The min clock m says that all updates of clocks < m, from every worker, are applied.
// R(c) is what a read at clock c sees. In every model a worker sees its own updates at once
// (read-my-writes): own ⊆ R(c), if the table's rule is addition. With another rule
// (<verbena/update_rule.hpp>) they are like those of others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace verbena {

/// Bulk synchronous parallel (Valiant, CACM'90). A read sees exactly the updates of all finished clocks, and
/// the reader's own, but nothing that another worker does in the current clock. The server adds the updates
/// of a clock when all workers have finished it, in the order of workers and pushes, so that two runs are
/// equal bit for bit. All workers wait for the slowest one at each clock().
///
///   R(c) = { u : t(u) < c } ∪ own,   m = c at each read
struct Bsp {
  friend bool operator==(const Bsp&, const Bsp&) = default;
};

/// How the updates of a table depend on the examples that they were made from.
enum class Updates : std::uint8_t {
  kSums,   ///< sums with a term for each example: gradients added up, counts
  kMeans,  ///< divided by the number of examples: mean gradients, models to be averaged
};

/// A-BSP, advanced bulk synchronous (Wang et al., Middleware'18). As BSP: a read at clock c sees exactly the
/// updates of clocks < c, and the reader's own. In addition, the iteration of a clock ends for all workers
/// when the first worker has finished its examples: each worker finishes its mini-batch and pushes what it
/// has; the examples that it has left over come first in its next iteration (<verbena/data_cursor.hpp>). No
/// worker waits for a straggler's full pass. If all workers finish in time, the results equal those of BSP
/// bit for bit.
///
/// Updates that are sums over examples have the right weight, however many examples they hold. Updates that
/// are means do not: a mean over a tenth of the examples is pushed as large as a mean over all of them. So,
/// in a clock in which worker p has processed n_p of its D_p examples, its means are multiplied by
///
///   w_p = (n_p / Σn) / (D_p / ΣD),   where the sums are over all workers that took examples in this clock.
///
/// If all workers have processed all their examples, w_p is 1 and nothing is multiplied.
struct ABsp {
  Updates updates = Updates::kSums;
  friend bool operator==(const ABsp&, const ABsp&) = default;
};

/// Stale synchronous parallel (Ho et al., NIPS'13). A read sees all updates except perhaps those of the last
/// `staleness` clocks and of the current one; of these it sees what happens to be there. A worker that is
/// more than `staleness` clocks ahead of the slowest one waits in its read. A row that was read once answers
/// later reads as long as that bound allows.
///
///   { u : t(u) ≤ c − s − 1 } ∪ own ⊆ R(c),   m ≥ c − s
struct Ssp {
  std::uint32_t staleness = 1;
  friend bool operator==(const Ssp&, const Ssp&) = default;
};

/// Eager stale synchronous parallel (Dai et al., AAAI'15). The promise is that of SSP. In addition, a worker
/// that has read a row is subscribed to it: each time the min clock advances, the server writes the rows that
/// have changed into the subscribers' caches, first the rows, then the clock. Reads are nearly always local
/// and fresh, and the bound seldom makes a worker wait.
///
///   { u : t(u) ≤ c − s − 1 } ∪ own ⊆ R(c),   m ≥ c − s;   c − 1 − m is mostly 0
struct Essp {
  std::uint32_t staleness = 1;
  friend bool operator==(const Essp&, const Essp&) = default;
};

/// Bounded delay (Li et al., OSDI'14, section 3.4). A clock is a task: everything that all workers pull and
/// push in it. A task starts only when all tasks more than `delay` before it have finished, that is, when all
/// their updates are applied: the wait is in clock(), and no read waits for other workers. Within a clock,
/// operations run concurrently, except for the dependencies that they name (OperationOptions::after in
/// <verbena/table.hpp>). With delay 0 the tasks run one after the other, but without BSP's order of sums.
///
///   { u : t(u) ≤ c − τ − 1 } ∪ own ⊆ R(c),   m ≥ c − τ when clock c begins
struct BoundedDelay {
  std::uint32_t delay = 1;
  friend bool operator==(const BoundedDelay&, const BoundedDelay&) = default;
};

/// Asynchronous parallel, also "eventual" (Li et al., OSDI'14) or Hogwild. A read sees what the server has
/// when the row is first read in a clock. No worker ever waits for another one, and nothing bounds how old
/// the values are that a read sees; the only promise is that updates arrive.
///
///   own ⊆ R(c)
///
/// Rows of a dynamic table are read where they lie or, if intents have made a replica of a row, in the
/// replica. How old a replica may be is bounded, so that a slow server delays no worker, and no replica stays
/// old for ever: with K = kMostClocksBehind, an update of clock t is applied when its worker begins clock t +
/// 2K + 1, and a read at clock c sees all that was applied when its worker began clock c − K.
struct Asp {
  /// For replicas of dynamic tables. Most replicas are one clock behind. The bound is larger because a clock
  /// may be short, and a server busy.
  static constexpr std::int64_t kMostClocksBehind = 8;
  friend bool operator==(const Asp&, const Asp&) = default;
};

/// Sequential consistency for each key (Lamport 1979; the promise of Lapse, VLDB'20, for synchronous
/// operations). A push has been applied when it returns, and a pull reads the server's row: for each number
/// of a row there is one order of all pushes and pulls that every worker agrees with, and an operation that
/// began after another had ended comes after it in this order (that is, each number is linearizable). The
/// model promises nothing about clocks. Each push costs a round trip.
///
/// Not so for rows of dynamic tables that come back from images after their node has died
/// (ServerOptions::backup_every_ms): pushes of the last milliseconds before, which had ended, may be missing
/// from then on.
///
///   u ended before the read began ⇒ u ∈ R;   R₁ ⊆ R₂ or R₂ ⊆ R₁ for any two reads of a number
struct Sequential {
  friend bool operator==(const Sequential&, const Sequential&) = default;
};

/// Value-bounded asynchronous parallel (Wei et al., SoCC'15; Dai et al., AAAI'15). In every coordinate the
/// sum of all updates that not all workers can see yet is at most v₀ / √t, where t counts the iterations from
/// 1. A read reads the server's row, so all workers see an update once it is applied, and the worker that
/// produces updates can keep the bound alone: each of P workers keeps its own sum below v₀ / (P √t). A push
/// that would exceed this waits until the worker's updates are applied; so does clock(), because the bound
/// shrinks. No worker waits for another worker's clock.
///
///   | Σ { u : u pushed, not seen by all } | ≤ v₀ / √t   in every coordinate, whenever anyone reads
struct Vap {
  double value_bound = 1;  ///< v₀ > 0, finite
  friend bool operator==(const Vap&, const Vap&) = default;
};

using ConsistencyModel = std::variant<Bsp, ABsp, Ssp, Essp, BoundedDelay, Asp, Sequential, Vap>;

/// The largest staleness and delay. A worker that may be a million clocks ahead is in effect not bounded; a
/// larger number is surely a mistake.
inline constexpr std::uint32_t kMaxStaleness = 1'000'000;

/// Reads "bsp", "a-bsp", "a-bsp:means", "ssp:2", "essp:2", "bounded-delay:2" (without the number: 1), "asp",
/// "sequential", "vap:0.5". INVALID_ARGUMENT says what was expected.
absl::StatusOr<ConsistencyModel> parse_consistency(std::string_view text);
/// The inverse, with the number; exact.
std::string to_string(const ConsistencyModel& model);

}  // namespace verbena
