#include "tests/simulation/ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "consistency/in_transit_bound.hpp"
#include "consistency/weight_of_means.hpp"

namespace verbena::simulation {

using consistency::Clock;

namespace {

/// The sum, rounded as in a table of that type.
double add(ValueType type, double a, double b) {
  if (type == ValueType::kFloat) return static_cast<float>(a) + static_cast<float>(b);
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

linearizability::Digits TableShape::digits(std::uint32_t workers) const {
  switch (type) {
    case ValueType::kFloat:
      return {workers, 24};
    case ValueType::kInt32:
      return {workers, 31};
    default:
      return {workers, 53};
  }
}

Ledger::Ledger(std::vector<TableShape> tables, std::uint32_t at_a_time, std::uint32_t spares)
    : shapes_(std::move(tables)),
      at_a_time_(at_a_time),
      workers_(at_a_time + spares),
      formers_(workers_),
      starts_(workers_),
      replaced_(workers_),
      is_dead_(workers_, false),
      finished_(workers_, 0),
      clocks_(workers_, 0),
      clocks_known_(workers_),
      examples_(workers_) {
  const std::uint32_t workers = workers_;
  for (const TableShape& shape : shapes_) {
    assert(!shape.ordered || consistency::rules_of(shape.model).holds_updates_back);
    Table& table = tables_.emplace_back();
    table.histories.resize(shape.rows * workers);
    if (shape.ordered) table.ordered.resize(shape.rows * workers);
    table.seen.resize(shape.rows * workers * workers * shape.copies);
    table.ended.resize(shape.rows * workers);
    table.seen_by_anybody.resize(shape.rows * workers * shape.copies);
  }
}

void Ledger::end_push(std::uint32_t worker, std::uint32_t table, std::uint64_t key) {
  const std::size_t at = key * workers_ + worker;
  std::vector<Push>& history = tables_[table].histories[at];
  for (std::size_t i = tables_[table].ended[at]; i < history.size(); ++i) history[i].ended_at = now_;
  tables_[table].ended[at] = history.size();
}

void Ledger::expect_losses() {
  expects_losses_ = true;
  if (!oldest_image_) return;
  for (std::size_t table = 0; table < tables_.size(); ++table) {
    // Nobody knows when a push has been applied that nobody waits for.
    const std::int64_t oldest = shapes_[table].may_be_replicated() ? INT64_MIN : now_ - *oldest_image_;
    for (std::vector<Push>& history : tables_[table].histories) {
      for (Push& push : history) push.may_be_missing |= push.ended_at > oldest;
    }
  }
}

std::optional<Ledger::Range> Ledger::range_if_back(std::uint32_t table, std::uint64_t key,
                                                   std::uint32_t worker, std::size_t ended) const {
  const std::vector<Push>& history = tables_[table].histories[key * workers_ + worker];
  if (std::none_of(history.begin(), history.end(), [](const Push& push) { return push.may_be_missing; }))
    return std::nullopt;
  Range range;
  if (shapes_[table].may_be_replicated()) ended = 0;  // as above
  for (std::size_t i = 0; i < history.size(); ++i) {
    const std::int64_t delta = history[i].sum - (i == 0 ? 0 : history[i - 1].sum);
    range.most += delta;
    if (i < ended && !history[i].may_be_missing) range.least += delta;
  }
  return range;
}

std::optional<std::string> Ledger::end_clock(std::uint32_t worker, Clock clock) {
  clocks_[worker] = clock;
  Clock slowest = kAll;
  for (std::uint32_t one = 0; one < workers_; ++one) {
    if (!is_away(one)) slowest = std::min(slowest, finished_[one]);
  }
  for (const TableShape& shape : shapes_) {
    const Clock needed = consistency::min_clock_needed(consistency::rules_of(shape.model).clock_bound, clock);
    if (slowest < needed) {
      return fmt::format("worker {} begins clock {} while another has finished {} clocks: {} allows {}",
                         worker, clock, slowest, to_string(shape.model), needed);
    }
  }
  return std::nullopt;
}

Floor Ledger::floor(std::uint32_t reader, std::uint32_t table, std::uint64_t key) const {
  const Table& of = tables_[table];
  const TableShape& shape = shapes_[table];
  const consistency::Rules rules = consistency::rules_of(shape.model);
  Floor floor{.own = of.histories[key * workers_ + reader].size(), .seen = {}, .pushes = {}, .sums = {}};
  const std::size_t columns = std::size_t{workers_} * shape.copies;
  const auto seen = of.seen.begin() + static_cast<std::ptrdiff_t>((key * workers_ + reader) * columns);
  floor.seen.assign(seen, seen + static_cast<std::ptrdiff_t>(columns));
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    const std::size_t at = key * workers_ + worker;
    const std::size_t ended = of.ended[at];
    for (std::uint32_t copy = 0; rules.pushes_at_once && copy < shape.copies; ++copy)
      floor.pushes.push_back(std::max(ended, of.seen_by_anybody[at * shape.copies + copy]));
    if (shape.may_be_replicated()) {
      // Nobody waits for these pushes: those that were on their way to somebody who has died may be missing,
      // and all of their worker after them.
      const std::size_t applied =
          expects_losses_ ? 0 : count_below(of.histories[at], applied_before(reader, worker));
      floor.pushes.insert(floor.pushes.end(), shape.copies, applied);
    }
    if (rules.value_bound > 0) {
      floor.sums.push_back(
          {.pushed = ended == 0 ? 0 : of.histories[at][ended - 1].sum,
           .may_miss = consistency::in_transit_bound(rules.value_bound, at_a_time_, clocks_[worker])});
    }
  }
  return floor;
}

/// In a table with replicas, the reader must see the updates of `worker` of clocks below this.
Clock Ledger::applied_before(std::uint32_t reader, std::uint32_t worker) const {
  constexpr Clock kBehind = Asp::kMostClocksBehind;
  const Clock read_after = clocks_[reader] - kBehind;
  if (read_after < 1) return 0;
  return clocks_known_[reader][static_cast<std::size_t>(read_after) - 1][worker] - 2 * kBehind;
}

void Ledger::push(std::uint32_t worker, std::uint32_t table, std::uint64_t key, std::int64_t delta,
                  double ordered) {
  const std::size_t at = key * workers_ + worker;
  std::vector<Push>& history = tables_[table].histories[at];
  const Clock clock = finished_[worker];
  history.push_back({.clock = clock,
                     .sum = (history.empty() ? 0 : history.back().sum) + delta,
                     .may_be_missing = is_dead_[worker]});
  if (!shapes_[table].ordered) return;
  std::vector<OrderedUpdate>& updates = tables_[table].ordered[at];
  if (!updates.empty() && updates.back().clock == clock) {
    updates.back().value = add(shapes_[table].type, updates.back().value, ordered);
  } else {
    updates.push_back({clock, ordered});
  }
}

std::optional<std::string> Ledger::check(const Read& read, std::uint64_t key, std::span<const double> row) {
  if (is_dead_[read.reader]) return std::nullopt;
  const TableShape& shape = shapes_[read.table];
  const auto wrong = [&](const std::string& what) {
    return fmt::format("worker {} at clock {} reads key {} of table {} ({}): {}", read.reader, read.clock,
                       key, read.table, to_string(shape.model), what);
  };
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    for (std::uint32_t copy = 0; copy < shape.copies; ++copy) {
      ++numbers_checked_;
      if (consistency::rules_of(shape.model).weighs_means) {
        if (auto what = check_weighted_column(read, key, worker, row[worker * shape.copies + copy], copy))
          return wrong(*what);
        continue;
      }
      if (auto what = check_column(read, key, worker, row[worker * shape.copies + copy], copy))
        return wrong(*what);
    }
  }
  if (!shape.ordered) return std::nullopt;
  // The reader adds its own updates of this clock in an order that is not promised.
  const std::vector<OrderedUpdate>& own = tables_[read.table].ordered[key * workers_ + read.reader];
  if (!own.empty() && own.back().clock == read.clock) return std::nullopt;
  if (const double sum = ordered_sum(read.table, key, read.clock); row.back() != sum)
    return wrong(fmt::format("the sum is {:a}, in the order of clocks and workers {:a}", row.back(), sum));
  return std::nullopt;
}

void Ledger::replace(std::uint32_t former, std::uint32_t spare, Clock clock) {
  replaced_[former] = starts_[spare] = clock;
  formers_[spare] = former;
  finished_[spare] = clocks_[spare] = clock;
}

/// Those in whose place it is have finished clocks below this one, at some server.
Clock Ledger::finished_before(std::uint32_t worker) const {
  Clock newest = 0;
  for (auto former = formers_[worker]; former; former = formers_[*former])
    newest = std::max(newest, finished_[*former]);
  return newest;
}

/// From which clock on updates of a worker may be in a row: before, there are those of the one whose place it
/// has taken, which may have finished some clocks at some servers and not at others.
std::vector<Clock> Ledger::possible_starts(std::uint32_t worker) const {
  if (!starts_[worker]) return {0};
  std::vector<Clock> clocks;
  for (Clock clock = *starts_[worker]; clock <= finished_before(worker); ++clock) clocks.push_back(clock);
  return clocks;
}

std::int64_t Ledger::sum_below(std::uint32_t table, std::uint64_t key, std::uint32_t worker,
                               Clock clock) const {
  const std::vector<Push>& history = tables_[table].histories[key * workers_ + worker];
  const std::size_t count = count_below(history, clock);
  return count == 0 ? 0 : history[count - 1].sum;
}

std::optional<std::string> Ledger::check_column(const Read& read, std::uint64_t key, std::uint32_t worker,
                                                double number, std::uint32_t copy) {
  std::optional<std::string> wrong;
  for (const Clock start : possible_starts(worker)) {
    const auto before = static_cast<double>(sum_below(read.table, key, worker, start) * (copy + 1));
    std::optional<std::string> other = check_column_from(read, key, worker, number + before, copy, start);
    if (!other) return std::nullopt;
    if (!wrong) wrong = std::move(other);
  }
  return wrong;
}

/// Of each clock, a row holds what one of the two processes that were the worker has pushed; or of a model
/// that applies updates as they come, also what has come of the first one, which had not finished the clock.
bool Ledger::is_replaced_well(std::uint32_t table, std::uint64_t key, std::uint32_t worker,
                              std::span<const double> row) const {
  const TableShape& shape = shapes_[table];
  const bool is_exact = consistency::rules_of(shape.model).holds_updates_back;
  const std::uint32_t former = *formers_[worker];
  for (std::uint32_t copy = 0; copy < shape.copies; ++copy) {
    const auto of = [&](std::uint32_t one, Clock clock) {
      return static_cast<double>(sum_below(table, key, one, clock) * (copy + 1));
    };
    const double number = row[worker * shape.copies + copy];
    double of_former = row[former * shape.copies + copy];
    // What the former itself has not pushed since the one before it had.
    const std::vector<Clock> starts_of_former = possible_starts(former);
    bool is_well = false;
    for (const Clock start : possible_starts(worker)) {
      const double rest = of(worker, kAll) - of(worker, start);
      for (const Clock first : starts_of_former) {
        const double needed = of(former, start) - of(former, std::min(first, start));
        is_well |=
            (replaced_[worker] || number == rest) && (is_exact ? of_former == needed : of_former >= needed);
      }
    }
    if (!is_well) return false;
  }
  return true;
}

/// `number`: with all that the worker has pushed in clocks below `start`, which is not there.
std::optional<std::string> Ledger::check_column_from(const Read& read, std::uint64_t key,
                                                     std::uint32_t worker, double number, std::uint32_t copy,
                                                     Clock start) {
  const std::vector<Push>& history = tables_[read.table].histories[key * workers_ + worker];
  // The pushes that the number holds.
  const double factor = copy + 1;
  const std::size_t ended = worker == read.reader ? read.floor.own
                            : read.floor.pushes.empty()
                                ? 0
                                : read.floor.pushes[worker * shapes_[read.table].copies + copy];
  if (const std::optional<Range> range = range_if_back(read.table, key, worker, ended)) {
    if (number >= factor * static_cast<double>(range->least) &&
        number <= factor * static_cast<double>(range->most)) {
      return std::nullopt;
    }
    return fmt::format(
        "{} is not {} to {} times {}, which worker {} has pushed, but for what a node that died "
        "may have had alone",
        number, range->least, range->most, factor, worker);
  }
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
  // Each number is checked by itself: the other numbers of the row may be older or newer.
  const std::uint32_t copies = shapes_[read.table].copies;
  std::size_t& seen_by_anybody =
      tables_[read.table].seen_by_anybody[(key * workers_ + worker) * copies + copy];
  seen_by_anybody = std::max(seen_by_anybody, held);
  if (worker == read.reader) {
    if (held >= read.floor.own) return std::nullopt;
    return fmt::format("holds {} of the reader's own {} updates", held, read.floor.own);
  }
  const ConsistencyModel& model = shapes_[read.table].model;
  const consistency::Rules rules = consistency::rules_of(model);
  if (!read.floor.pushes.empty() && held < read.floor.pushes[worker * copies + copy]) {
    return fmt::format("holds {} updates of worker {}, {} had ended or been read when the pull began", held,
                       worker, read.floor.pushes[worker * copies + copy]);
  }
  if (!read.floor.sums.empty()) {
    const Floor::Sum& sum = read.floor.sums[worker];
    if (const double missing = factor * static_cast<double>(sum.pushed) - number; missing > sum.may_miss)
      return fmt::format("misses {} of worker {}, {} is allowed", missing, worker, sum.may_miss);
  }
  // In all other cases a row's updates of one clock are sent as one, at its end.
  const TableShape& shape = shapes_[read.table];
  const bool within_a_clock = rules.acknowledges_at_once() || shape.shipped_ahead || shape.moves;
  if (!within_a_clock && held > 0 && held < history.size() &&
      history[held].clock == history[held - 1].clock) {
    return fmt::format("holds a part of the updates of clock {} of worker {}", history[held].clock, worker);
  }
  Clock promised = std::max({consistency::min_clock_needed(rules.read_bound, read.clock), read.barrier_clock,
                             read.claimed.value_or(0)});
  if (replaced_[worker]) promised = std::min(promised, *replaced_[worker]);
  // Who does a clock again that some servers have of the process before it may find others' updates of it.
  const bool does_again = read.clock < finished_before(read.reader);
  const Clock allowed = within_a_clock                            ? kAll
                        : rules.holds_updates_back && !does_again ? std::min(read.clock, finished_[worker])
                                                                  : finished_[worker];
  // If somebody has died, only pushes that had ended must be there (checked above): the dead worker may seem
  // to be at an earlier clock.
  if (!expects_losses_ && held < count_below(history, promised)) {
    return fmt::format("holds {} updates of worker {}, {} were made at clocks below {}{}", held, worker,
                       count_below(history, promised), promised,
                       promised == read.claimed ? " (which the table counts as seen)" : "");
  }
  if (allowed != kAll && held > count_below(history, std::max(allowed, start))) {
    return fmt::format("holds {} updates of worker {}, only {} were made at clocks below {}", held, worker,
                       count_below(history, allowed), allowed);
  }
  std::size_t& seen =
      tables_[read.table].seen[((key * workers_ + read.reader) * workers_ + worker) * copies + copy];
  const std::size_t earlier = read.in_order ? seen : read.floor.seen[worker * copies + copy];
  if (read.monotone && held < earlier)
    return fmt::format("holds {} updates of worker {}, an earlier read {}", held, worker, earlier);
  seen = std::max(seen, held);
  return std::nullopt;
}

double Ledger::weighted(std::uint32_t table, std::uint32_t worker, Clock clock, double update) const {
  if (!consistency::rules_of(shapes_[table].model).weighs_means) return update;
  const auto counts_of = [&](std::uint32_t one) {
    const auto found = examples_[one].find(clock);
    return found == examples_[one].end() ? consistency::ExampleCounts{} : found->second;
  };
  consistency::ExampleCounts all;
  for (std::uint32_t one = 0; one < workers_; ++one) all += counts_of(one);
  const double product = update * consistency::weight_of_means(counts_of(worker), all);
  return shapes_[table].type == ValueType::kFloat ? static_cast<float>(product) : product;
}

double Ledger::weighted_sum(std::uint32_t table, std::uint64_t key, std::uint32_t worker, std::uint32_t copy,
                            Clock below) const {
  const std::vector<Push>& history = tables_[table].histories[key * workers_ + worker];
  double sum = 0;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < history.size() && history[i].clock < below; ++i) {
    // The updates of a clock are added up before they are sent.
    if (i + 1 < history.size() && history[i + 1].clock == history[i].clock) continue;
    const auto update = static_cast<double>((history[i].sum - before) * (copy + 1));
    sum = add(shapes_[table].type, sum, weighted(table, worker, history[i].clock, update));
    before = history[i].sum;
  }
  return sum;
}

std::optional<std::string> Ledger::check_weighted_column(const Read& read, std::uint64_t key,
                                                         std::uint32_t worker, double number,
                                                         std::uint32_t copy) const {
  constexpr double kRounding = 1e-4;  // for sums of some floats in any order
  const double settled = weighted_sum(read.table, key, worker, copy, read.clock);
  // The reader sees its own updates of this clock without weights.
  const std::vector<Push>& history = tables_[read.table].histories[key * workers_ + worker];
  const std::size_t before = count_below(history, read.clock);
  const auto sum_of = [&](std::size_t pushes) {
    const std::int64_t earlier = before == 0 ? 0 : history[before - 1].sum;
    return pushes <= before ? 0.0 : static_cast<double>((history[pushes - 1].sum - earlier) * (copy + 1));
  };
  const bool own = worker == read.reader && history.size() > before;
  const double least = settled + (own ? sum_of(read.floor.own) : 0);
  const double most = settled + (own ? sum_of(history.size()) : 0);
  const double rounding = own ? kRounding * (1 + most) : 0;
  if (number >= least - rounding && number <= most + rounding) return std::nullopt;
  return fmt::format("the weighted updates of worker {} (copy {}) are {}, expected {} to {}", worker, copy,
                     number, least, most);
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
      sum = add(shapes_[table].type, sum,
                weighted(table, worker, oldest, updates(worker)[next[worker]++].value));
    }
  }
}

std::optional<std::string> Ledger::check_final(std::uint32_t table, std::uint64_t key, const Floor& floor,
                                               std::span<const double> row) {
  const TableShape& shape = shapes_[table];
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    const std::vector<Push>& history = tables_[table].histories[key * workers_ + worker];
    for (std::uint32_t copy = 0; copy < shape.copies; ++copy) {
      const double expected = consistency::rules_of(shape.model).weighs_means
                                  ? weighted_sum(table, key, worker, copy, kAll)
                              : history.empty() ? 0
                                                : static_cast<double>(history.back().sum) * (copy + 1);
      const double number = row[worker * shape.copies + copy];
      if (replaced_[worker]) continue;
      const std::size_t ended = floor.pushes.empty() ? 0 : floor.pushes[worker * shape.copies + copy];
      if (const std::optional<Range> range = range_if_back(table, key, worker, ended);
          range && number >= static_cast<double>(range->least) * (copy + 1) &&
          number <= static_cast<double>(range->most) * (copy + 1)) {
        continue;
      }
      if (formers_[worker] && is_replaced_well(table, key, worker, row)) continue;
      if (number == expected && !formers_[worker]) continue;
      // If somebody has died, some of the last pushes may be missing.
      const std::size_t least = expects_losses_ ? floor.pushes[worker * shape.copies + copy] : history.size();
      const bool is_sum = number == 0 || std::any_of(history.begin(), history.end(), [&](const Push& push) {
                            return number == static_cast<double>(push.sum) * (copy + 1);
                          });
      const double needed = least == 0 ? 0 : static_cast<double>(history[least - 1].sum) * (copy + 1);
      if (least < history.size() && is_sum && number >= needed) continue;
      return fmt::format("at the end key {} of table {} holds {} of worker {}, which has pushed {}", key,
                         table, number, worker, expected);
    }
  }
  return std::nullopt;
}

}  // namespace verbena::simulation
