#include "tests/simulation/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace verbena::simulation {

using consistency::Clock;

namespace {

/// As a table of that type adds.
double add(protocol::ValueType type, double a, double b) {
  if (type == protocol::ValueType::kFloat) return static_cast<float>(a) + static_cast<float>(b);
  return a + b;
}

/// How many of the pushes are of clocks below `clock`.
template <class Pushes>
std::size_t count_below(const Pushes& pushes, Clock clock) {
  return static_cast<std::size_t>(std::partition_point(pushes.begin(), pushes.end(),
                                                       [&](const auto& push) { return push.clock < clock; }) -
                                  pushes.begin());
}

}  // namespace

Ledger::Ledger(std::vector<TableShape> tables, std::uint32_t workers)
    : shapes_(std::move(tables)), workers_(workers), finished_(workers, 0) {
  for (const TableShape& shape : shapes_) {
    assert(!shape.ordered || consistency::holds_updates_back(shape.model));
    Table& table = tables_.emplace_back();
    table.histories.resize(shape.rows * workers);
    if (shape.ordered) table.ordered.resize(shape.rows * workers);
    table.seen.resize(shape.rows * workers * workers * shape.copies);
  }
}

void Ledger::push(std::uint32_t worker, std::uint32_t table, std::uint64_t key, std::int64_t delta,
                  double ordered) {
  const std::size_t at = key * workers_ + worker;
  std::vector<Push>& history = tables_[table].histories[at];
  const Clock clock = finished_[worker];
  history.push_back({clock, (history.empty() ? 0 : history.back().sum) + delta});
  if (!shapes_[table].ordered) return;
  std::vector<OrderedUpdate>& updates = tables_[table].ordered[at];
  if (!updates.empty() && updates.back().clock == clock) {
    updates.back().value = add(shapes_[table].type, updates.back().value, ordered);
  } else {
    updates.push_back({clock, ordered});
  }
}

std::optional<std::string> Ledger::check(const Read& read, std::uint64_t key, std::span<const double> row) {
  const TableShape& shape = shapes_[read.table];
  const auto wrong = [&](const std::string& what) {
    return fmt::format("worker {} at clock {} reads key {} of table {} ({}): {}", read.reader, read.clock,
                       key, read.table, consistency::to_string(shape.model), what);
  };
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    for (std::uint32_t copy = 0; copy < shape.copies; ++copy) {
      ++numbers_checked_;
      if (auto what = check_column(read, key, worker, row[worker * shape.copies + copy], copy))
        return wrong(*what);
    }
  }
  if (!shape.ordered) return std::nullopt;
  // Its own updates of this clock the reader adds in an order that nobody promises.
  const std::vector<OrderedUpdate>& own = tables_[read.table].ordered[key * workers_ + read.reader];
  if (!own.empty() && own.back().clock == read.clock) return std::nullopt;
  if (const double sum = ordered_sum(read.table, key, read.clock); row.back() != sum)
    return wrong(fmt::format("the sum is {:a}, in the order of clocks and workers {:a}", row.back(), sum));
  return std::nullopt;
}

std::optional<std::string> Ledger::check_column(const Read& read, std::uint64_t key, std::uint32_t worker,
                                                double number, std::uint32_t copy) {
  const std::vector<Push>& history = tables_[read.table].histories[key * workers_ + worker];
  // The pushes that the number holds.
  const double factor = copy + 1;
  const auto found = std::lower_bound(
      history.begin(), history.end(), number,
      [&](const Push& push, double value) { return factor * static_cast<double>(push.sum) < value; });
  const bool is_sum =
      number == 0 || (found != history.end() && factor * static_cast<double>(found->sum) == number);
  if (!is_sum) {
    return fmt::format("{} is no sum of first updates of worker {} (copy {}), which has made {} of sum {}",
                       number, worker, copy, history.size(), history.empty() ? 0 : history.back().sum);
  }
  const std::size_t held = number == 0 ? 0 : static_cast<std::size_t>(found - history.begin()) + 1;
  // Each number by itself: others of the row may be older or newer.
  std::size_t& seen =
      tables_[read.table]
          .seen[((key * workers_ + read.reader) * workers_ + worker) * shapes_[read.table].copies + copy];
  if (worker == read.reader) {
    if (held >= read.own_before) return std::nullopt;
    return fmt::format("holds {} of the reader's own {} updates", held, read.own_before);
  }
  if (held > 0 && held < history.size() && history[held].clock == history[held - 1].clock) {
    return fmt::format("holds a part of the updates of clock {} of worker {}", history[held].clock, worker);
  }
  const consistency::ConsistencyModel& model = shapes_[read.table].model;
  const Clock promised = std::max({read.clock - static_cast<Clock>(consistency::staleness(model)),
                                   read.barrier_clock, read.claimed.value_or(0)});
  const Clock allowed =
      consistency::holds_updates_back(model) ? std::min(read.clock, finished_[worker]) : finished_[worker];
  if (held < count_below(history, promised)) {
    return fmt::format("holds {} updates of worker {}, {} were made at clocks below {}{}", held, worker,
                       count_below(history, promised), promised,
                       promised == read.claimed ? " (which the table counts as seen)" : "");
  }
  if (allowed != kAll && held > count_below(history, allowed)) {
    return fmt::format("holds {} updates of worker {}, only {} were made at clocks below {}", held, worker,
                       count_below(history, allowed), allowed);
  }
  if (read.monotone && held < seen)
    return fmt::format("holds {} updates of worker {}, an earlier read {}", held, worker, seen);
  seen = std::max(seen, held);
  return std::nullopt;
}

double Ledger::ordered_sum(std::uint32_t table, std::uint64_t key, Clock below) const {
  double sum = 0;
  std::vector<std::size_t> next(workers_, 0);
  const auto updates = [&](std::uint32_t worker) -> const std::vector<OrderedUpdate>& {
    return tables_[table].ordered[key * workers_ + worker];
  };
  for (;;) {
    Clock oldest = below;
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      if (next[worker] < updates(worker).size())
        oldest = std::min(oldest, updates(worker)[next[worker]].clock);
    }
    if (oldest == below) return sum;
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      if (next[worker] == updates(worker).size() || updates(worker)[next[worker]].clock != oldest) continue;
      sum = add(shapes_[table].type, sum, updates(worker)[next[worker]++].value);
    }
  }
}

std::optional<std::string> Ledger::check_final(std::uint32_t table, std::uint64_t key,
                                               std::span<const double> row) {
  const TableShape& shape = shapes_[table];
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    const std::vector<Push>& history = tables_[table].histories[key * workers_ + worker];
    for (std::uint32_t copy = 0; copy < shape.copies; ++copy) {
      const double expected = history.empty() ? 0 : static_cast<double>(history.back().sum) * (copy + 1);
      if (row[worker * shape.copies + copy] == expected) continue;
      return fmt::format("at the end key {} of table {} holds {} of worker {}, which has pushed {}", key,
                         table, row[worker * shape.copies + copy], worker, expected);
    }
  }
  return std::nullopt;
}

}  // namespace verbena::simulation
