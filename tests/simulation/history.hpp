// The events of a job's workers, and the class that hears and checks all of them. An event is plain data: it
// can be checked at once, or recorded and checked later.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "consistency/rules.hpp"
#include "tests/linearizability/number_history.hpp"
#include "tests/simulation/iterations.hpp"
#include "tests/simulation/ledger.hpp"
#include "tests/simulation/row_ledger.hpp"
#include "tests/simulation/scenario.hpp"

namespace verbena::simulation {

/// A push to one key; noted before the push itself.
struct PushBegins {
  std::uint32_t worker = 0;
  std::uint32_t table = 0;
  Key key = 0;
  std::int64_t delta = 0;
  double last = 0;  ///< to the last column, if the table has one
};
struct PushEnded {
  std::uint32_t worker = 0;
  std::uint32_t table = 0;
  std::vector<Key> keys;
};
struct PullBegins {
  std::uint32_t worker = 0;
  std::uint64_t pull = 0;  ///< tells the pulls of a worker apart
  std::uint32_t table = 0;
  std::vector<Key> keys;
};
/// The fields are those of Read.
struct PullEnded {
  std::uint32_t worker = 0;
  std::uint64_t pull = 0;
  std::uint32_t table = 0;
  consistency::Clock clock = 0;
  consistency::Clock barrier_clock = 0;
  consistency::Clock claimed = 0;  ///< 0: the read claims nothing
  bool monotone = true;
  std::vector<Key> keys;
  std::vector<double> rows;  ///< [keys.size(), width]
};
/// Noted before Session::clock().
struct ClockBegins {
  std::uint32_t worker = 0;
};
struct ClockEnded {
  std::uint32_t worker = 0;
  consistency::Clock clock = 0;  ///< the one that begins
};
/// Noted before DataCursor::next().
struct ExamplesAsked {
  std::uint32_t worker = 0;
  consistency::Clock clock = 0;
};
struct ExamplesTaken {
  std::uint32_t worker = 0;
  consistency::Clock clock = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};
/// All rows of a table, [rows, width], when all workers have ended their pushes, except those whose node is
/// dead. Ends a pull of all keys.
struct TableAtTheEnd {
  std::uint32_t worker = 0;
  std::uint64_t pull = 0;
  std::uint32_t table = 0;
  std::vector<double> rows;
  std::vector<Key> lost;  ///< keys of the rows that are lost
};
/// Noted before the session ends.
struct WorkerLeaves {
  std::uint32_t worker = 0;
};
/// A worker or node dies now, in a job that goes on. Anybody's pushes that have not ended may never be
/// applied.
struct Death {
  std::uint32_t victim = 0;
};

/// A process has taken a worker's place, and begins at this clock what the one before it had not finished.
/// Both are workers of the history.
struct Replacement {
  std::uint32_t former = 0;
  std::uint32_t worker = 0;
  consistency::Clock clock = 0;
};

// Of row tables (row_ledger.hpp), whose reads begin with PullBegins.

/// All that the worker has pushed to the table travels now; noted before.
struct UpdatesSent {
  std::uint32_t worker = 0;
  std::uint32_t table = 0;
};
/// A function that sets marks is about to be called.
struct RowsMarked {
  std::uint32_t worker = 0;
  std::uint32_t table = 0;
  std::vector<Key> keys;
};
/// Noted before the ClockBegins of a barrier.
struct BarrierBegins {
  std::uint32_t worker = 0;
};
struct RowsFound {
  RowRead read;
  std::vector<Key> keys;
  std::vector<double> rows;  ///< [keys.size(), width]
};

/// Something wrong that a worker has found itself.
struct Complaint {
  std::string what;
};

using Event = std::variant<PushBegins, PushEnded, PullBegins, PullEnded, ClockBegins, ClockEnded,
                           ExamplesAsked, ExamplesTaken, TableAtTheEnd, WorkerLeaves, Complaint, Death,
                           UpdatesSent, RowsMarked, BarrierBegins, RowsFound, Replacement>;

class History {
 public:
  explicit History(const Scenario& scenario);

  /// Returns what is wrong with the event; nullopt if nothing is. REQUIRES: an order of events that agrees
  /// with time: one that was noted before another began comes first.
  std::optional<std::string> hear(const Event& event, TimePoint now);

  /// Returns what is wrong with the whole history and shows only at the end; nullopt if nothing is.
  [[nodiscard]] std::optional<std::string> check_the_end() const;

  [[nodiscard]] std::uint64_t numbers_checked() const {
    return ledger_.numbers_checked() + row_ledger_.numbers_checked();
  }
  [[nodiscard]] std::uint64_t ended_early() const { return iterations_.ended_early(); }

 private:
  using Wrong = std::optional<std::string>;
  Wrong hear_one(const PushBegins& event, TimePoint now);
  Wrong hear_one(const PushEnded& event, TimePoint now);
  Wrong hear_one(const PullBegins& event, TimePoint now);
  Wrong hear_one(const PullEnded& event, TimePoint now);
  Wrong hear_one(const ClockBegins& event, TimePoint now);
  Wrong hear_one(const ClockEnded& event, TimePoint now);
  Wrong hear_one(const ExamplesAsked& event, TimePoint now);
  Wrong hear_one(const ExamplesTaken& event, TimePoint now);
  Wrong hear_one(const TableAtTheEnd& event, TimePoint now);
  Wrong hear_one(const WorkerLeaves& event, TimePoint now);
  Wrong hear_one(const Complaint& event, TimePoint now);
  Wrong hear_one(const Death& event, TimePoint now);
  Wrong hear_one(const UpdatesSent& event, TimePoint now);
  Wrong hear_one(const RowsMarked& event, TimePoint now);
  Wrong hear_one(const BarrierBegins& event, TimePoint now);
  Wrong hear_one(const RowsFound& event, TimePoint now);
  Wrong hear_one(const Replacement& event, TimePoint now);

  struct BegunPull {
    linearizability::Time when = 0;
    std::vector<Floor> floors;  ///< what each row must hold, by place in the pull
  };

  const bool virtual_time_;
  const bool has_row_tables_;         ///< and no others
  std::vector<std::uint32_t> nodes_;  ///< by worker, if rows come back when nodes die
  Ledger ledger_;
  RowLedger row_ledger_;
  Iterations iterations_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, BegunPull> pulls_;  ///< under way, by worker and pull
  linearizability::Time events_ = 0;                                    ///< heard so far
  /// The histories of last columns that all workers share, by table and key.
  std::vector<std::vector<linearizability::NumberHistory>> shared_;
};

}  // namespace verbena::simulation
