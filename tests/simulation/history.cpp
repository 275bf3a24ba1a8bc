#include "tests/simulation/history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "consistency/model.hpp"

namespace verbena::simulation {
namespace {

/// Within this time everybody has heard of the end of an iteration, if nobody pauses.
constexpr auto kEndOfIterationTime = std::chrono::milliseconds(20);

/// It takes a server to look at all rows of its node, and another one to hear of it, at most.
constexpr auto kUntilImageIsThere = std::chrono::milliseconds(2);

Iterations::Options iteration_options(const Scenario& scenario) {
  const bool end_early =
      std::any_of(scenario.tables.begin(), scenario.tables.end(),
                  [](const TableShape& table) { return consistency::rules_of(table.model).ends_early; });
  Iterations::Options options{.mini_batch = scenario.mini_batch, .end_early = end_early, .news_time = {}};
  // The news wait until the place of a server that tells them is taken, or the way to it is mended.
  if (scenario.scheduler.pause_probability == 0 && !scenario.has_configurations() &&
      !scenario.network.connections_may_break)
    options.news_time = kEndOfIterationTime;
  return options;
}

}  // namespace

History::History(const Scenario& scenario)
    : virtual_time_(scenario.virtual_time),
      has_row_tables_(!scenario.row_tables.empty()),
      ledger_(scenario.tables, scenario.workers, scenario.spares),
      row_ledger_(scenario.row_tables, scenario.workers + scenario.spares),
      iterations_(scenario.examples, iteration_options(scenario)) {
  if (scenario.backup_every_ms > 0) {
    nodes_ = scenario.nodes;
    const std::chrono::nanoseconds oldest =
        std::chrono::milliseconds(scenario.backup_every_ms) + kUntilImageIsThere;
    ledger_.let_rows_come_back(oldest.count());
  }
  for (const TableShape& table : scenario.tables) {
    auto& numbers = shared_.emplace_back();
    if (table.shared)
      numbers.resize(table.rows, linearizability::NumberHistory(table.digits(scenario.workers)));
  }
}

std::optional<std::string> History::hear(const Event& event, TimePoint now) {
  ++events_;
  ledger_.set_time(std::chrono::nanoseconds(now.time_since_epoch()).count());
  return std::visit([&](const auto& one) { return hear_one(one, now); }, event);
}

History::Wrong History::hear_one(const PushBegins& event, TimePoint /*now*/) {
  if (has_row_tables_) {
    row_ledger_.push(event.worker, event.table, event.key, event.delta);
    return {};
  }
  ledger_.push(event.worker, event.table, event.key, event.delta, event.last);
  if (!shared_[event.table].empty() && event.last != 0)
    shared_[event.table][event.key].begin_push(event.worker, events_);
  return {};
}

History::Wrong History::hear_one(const PushEnded& event, TimePoint /*now*/) {
  for (const Key key : event.keys) {
    if (has_row_tables_) {
      row_ledger_.end_push(event.worker, event.table, key);
      continue;
    }
    ledger_.end_push(event.worker, event.table, key);
    if (!shared_[event.table].empty()) shared_[event.table][key].end_pushes(event.worker, events_);
  }
  return {};
}

History::Wrong History::hear_one(const PullBegins& event, TimePoint /*now*/) {
  if (has_row_tables_) {
    row_ledger_.begin(event.worker, event.pull, event.table, event.keys);
    return {};
  }
  BegunPull& pull = pulls_[{event.worker, event.pull}];
  pull.when = events_;
  for (const Key key : event.keys) pull.floors.push_back(ledger_.floor(event.worker, event.table, key));
  return {};
}

History::Wrong History::hear_one(const PullEnded& event, TimePoint /*now*/) {
  const auto begun = pulls_.extract({event.worker, event.pull});
  if (begun.empty() || begun.mapped().floors.size() != event.keys.size())
    return "a pull ended that had not begun";
  const std::size_t width = event.rows.size() / event.keys.size();
  for (std::size_t i = 0; i < event.keys.size(); ++i) {
    const Read read{.reader = event.worker,
                    .table = event.table,
                    .clock = event.clock,
                    .barrier_clock = event.barrier_clock,
                    .claimed = event.claimed,
                    .floor = begun.mapped().floors[i],
                    .monotone = event.monotone,
                    .in_order = virtual_time_};
    const std::span row = std::span(event.rows).subspan(i * width, width);
    if (auto wrong = ledger_.check(read, event.keys[i], row)) return wrong;
    if (!shared_[event.table].empty())
      shared_[event.table][event.keys[i]].add_pull(event.worker, begun.mapped().when, events_, row.back());
  }
  return {};
}

History::Wrong History::hear_one(const ClockBegins& event, TimePoint /*now*/) {
  ledger_.finish_clock(event.worker);
  row_ledger_.finish_clock(event.worker);
  return {};
}

History::Wrong History::hear_one(const ClockEnded& event, TimePoint /*now*/) {
  return ledger_.end_clock(event.worker, event.clock);
}

History::Wrong History::hear_one(const ExamplesAsked& event, TimePoint now) {
  iterations_.ask(event.worker, event.clock, now);
  return {};
}

History::Wrong History::hear_one(const ExamplesTaken& event, TimePoint now) {
  if (Wrong wrong = iterations_.check(event.worker, {event.first, event.last}, now)) return wrong;
  ledger_.set_examples(event.worker, event.clock, iterations_.counts(event.worker, event.clock));
  return {};
}

History::Wrong History::hear_one(const TableAtTheEnd& event, TimePoint /*now*/) {
  const std::uint64_t rows = ledger_.shapes()[event.table].rows;
  const auto begun = pulls_.extract({event.worker, event.pull});
  if (begun.empty() || begun.mapped().floors.size() != rows) return "a last pull ended that had not begun";
  const std::size_t width = event.rows.size() / rows;
  for (Key key = 0; key < rows; ++key) {
    if (std::find(event.lost.begin(), event.lost.end(), key) != event.lost.end()) continue;
    const std::span row = std::span(event.rows).subspan(key * width, width);
    if (auto wrong = ledger_.check_final(event.table, key, begun.mapped().floors[key], row)) return wrong;
    if (!shared_[event.table].empty())
      shared_[event.table][key].add_pull(event.worker, begun.mapped().when, events_, row.back());
  }
  return {};
}

History::Wrong History::hear_one(const WorkerLeaves& event, TimePoint /*now*/) {
  ledger_.leave(event.worker);
  row_ledger_.leave(event.worker);
  return {};
}

History::Wrong History::hear_one(const Complaint& event, TimePoint /*now*/) {
  return event.what;
}

History::Wrong History::hear_one(const Death& event, TimePoint /*now*/) {
  ledger_.expect_losses();
  for (std::uint32_t worker = 0; worker < nodes_.size(); ++worker) {
    if (nodes_[worker] == event.victim) ledger_.kill(worker);
  }
  return {};
}

History::Wrong History::hear_one(const UpdatesSent& event, TimePoint /*now*/) {
  row_ledger_.send(event.worker, event.table);
  return {};
}

History::Wrong History::hear_one(const RowsMarked& event, TimePoint /*now*/) {
  row_ledger_.mark(event.worker, event.table, event.keys);
  return {};
}

History::Wrong History::hear_one(const BarrierBegins& event, TimePoint /*now*/) {
  row_ledger_.begin_barrier(event.worker);
  return {};
}

History::Wrong History::hear_one(const RowsFound& event, TimePoint /*now*/) {
  return row_ledger_.end(event.read, event.keys, event.rows);
}

History::Wrong History::hear_one(const Replacement& event, TimePoint /*now*/) {
  ledger_.replace(event.former, event.worker, event.clock);
  return {};
}

std::optional<std::string> History::check_the_end() const {
  for (std::size_t table = 0; table < shared_.size(); ++table) {
    for (std::size_t key = 0; key < shared_[table].size(); ++key) {
      const std::optional<std::string> wrong = shared_[table][key].violation();
      if (wrong)
        return fmt::format("key {} of table {}, times being numbers of events: {}", key, table, *wrong);
    }
  }
  return row_ledger_.check_the_end();
}

}  // namespace verbena::simulation
