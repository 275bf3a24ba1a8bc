// What servers and workers ask of a model; they never ask for its name. model.hpp has the Rules of each
// model. The notation is that of <verbena/consistency.hpp>; the min clock is that of a lane.
#pragma once

#include <cstdint>
#include <limits>

namespace verbena::consistency {

using Clock = std::int64_t;

/// As a bound on clocks: no bound.
inline constexpr Clock kNoBound = std::numeric_limits<Clock>::max();

/// How long a row that a worker has read may answer its later reads.
enum class CacheRule : std::uint8_t {
  kUntilTooStale,  ///< as long as the bound on reads allows
  kForOneClock,    ///< until the worker's own clock advances
  kNever,          ///< each read reads the server's row
};

struct Rules {
  /// A read at clock c needs m ≥ c − read_bound.
  Clock read_bound = kNoBound;
  /// clock() returns at clock c when m ≥ c − clock_bound.
  Clock clock_bound = kNoBound;
  /// Updates of a clock wait on the server until every worker has finished it, then are applied in the order
  /// of workers: the model says so, or the table's update rule (with_one_step()).
  bool holds_updates_back = false;
  /// The first worker to finish its examples of a clock ends the iteration for all.
  bool ends_early = false;
  /// Held-back updates are means over examples, and are weighted by their examples (weight_of_means.hpp).
  bool weighs_means = false;
  /// The server pushes dirty subscribed rows each time m advances.
  bool pushes_eagerly = false;
  CacheRule cache = CacheRule::kUntilTooStale;
  /// A push travels at once and returns when it is applied; otherwise it travels at clock().
  bool pushes_at_once = false;
  /// v₀ of Vap: the sum of all updates that not every worker sees yet is at most v₀ / √t; 0: no bound.
  double value_bound = 0;

  /// The server tells a worker of applied updates as soon as they are, not at the next clock.
  [[nodiscard]] constexpr bool acknowledges_at_once() const { return pushes_at_once || value_bound > 0; }
  /// The same with updates held back, if `all` that workers push in a clock becomes one step.
  [[nodiscard]] constexpr Rules with_one_step(bool all) const {
    Rules rules = *this;
    rules.holds_updates_back |= all;
    return rules;
  }
  /// The update rule must be addition, because updates are weighted, or their sums are bounded.
  [[nodiscard]] constexpr bool needs_sums() const { return weighs_means || value_bound > 0; }
  /// Workers may be any number of clocks apart.
  [[nodiscard]] constexpr bool lets_workers_drift() const {
    return read_bound == kNoBound && clock_bound == kNoBound;
  }
  friend bool operator==(const Rules&, const Rules&) = default;
};

/// The smallest min clock that a bound allows at `clock`.
constexpr Clock min_clock_needed(Clock bound, Clock clock) {
  return bound >= clock ? 0 : clock - bound;
}

/// The newest clock that a read surely includes, minus the reader's clock: −1 under BSP, −1 … −s−1 under
/// SSP(s) and ESSP(s).
constexpr Clock clock_differential(Clock min_clock, Clock reader_clock) {
  return min_clock - 1 - reader_clock;
}

}  // namespace verbena::consistency
