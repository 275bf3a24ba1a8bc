// What the workers of a job do, and those who know all of it and check it. An event is plain data: it can be
// heard at once, or be written down and heard later.
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
#include "tests/simulation/scenario.hpp"

namespace verbena::simulation {

/// Of one key; noted before the push itself.
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
  std::uint64_t pull = 0;  ///< tells those of a worker apart
  std::uint32_t table = 0;
  std::vector<Key> keys;
};
/// Fields as in Read.
struct PullEnded {
  std::uint32_t worker = 0;
  std::uint64_t pull = 0;
  std::uint32_t table = 0;
  consistency::Clock clock = 0;
  consistency::Clock barrier_clock = 0;
  consistency::Clock claimed = 0;  ///< 0: nothing
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
/// All rows of a table when all workers have ended their pushes but those whose node is dead, [rows, width].
/// Ends a pull of all keys.
struct TableAtTheEnd {
  std::uint32_t worker = 0;
  std::uint64_t pull = 0;
  std::uint32_t table = 0;
  std::vector<double> rows;
  std::vector<Key> lost;  ///< rows that are not to be had
};
/// Noted before the session ends.
struct WorkerLeaves {
  std::uint32_t worker = 0;
};
/// Of a worker or node, now, in a job that goes on. Of what anybody has pushed, what has not ended may never
/// be applied.
struct Death {
  std::uint32_t victim = 0;
};
/// What a worker sees by itself to be wrong.
struct Complaint {
  std::string what;
};

using Event = std::variant<PushBegins, PushEnded, PullBegins, PullEnded, ClockBegins, ClockEnded,
                           ExamplesAsked, ExamplesTaken, TableAtTheEnd, WorkerLeaves, Complaint, Death>;

class History {
 public:
  explicit History(const Scenario& scenario);

  /// What is wrong with it; nothing if it is as promised. Events are heard in an order that agrees with time:
  /// one that was noted before another began comes first.
  std::optional<std::string> hear(const Event& event, TimePoint now);

  /// What is wrong with all of it, where that shows only at the end.
  [[nodiscard]] std::optional<std::string> check_the_end() const;

  [[nodiscard]] std::uint64_t numbers_checked() const { return ledger_.numbers_checked(); }
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

  struct BegunPull {
    linearizability::Time when = 0;
    std::vector<Floor> floors;  ///< what it must hold, by key
  };

  const bool virtual_time_;
  Ledger ledger_;
  Iterations iterations_;
  std::map<std::pair<std::uint32_t, std::uint64_t>, BegunPull> pulls_;  ///< under way, by worker and pull
  linearizability::Time events_ = 0;                                    ///< heard so far
  /// Of the last column, by table and key, where all workers share it.
  std::vector<std::vector<linearizability::NumberHistory>> shared_;
};

}  // namespace verbena::simulation
