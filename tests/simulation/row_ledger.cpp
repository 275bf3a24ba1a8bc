#include "tests/simulation/row_ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace verbena::simulation {

using consistency::Clock;

namespace {

/// All sums of a number of each set.
template <class Set>
std::set<std::int64_t> sums_of(const std::vector<Set>& sets) {
  std::set<std::int64_t> sums = {0};
  for (const Set& set : sets) {
    std::set<std::int64_t> more;
    for (const std::int64_t sum : sums) {
      for (const std::int64_t number : set) more.insert(sum + number);
    }
    sums = std::move(more);
  }
  return sums;
}

std::string joined(const std::set<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers)
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : ", ", number);
  return text.empty() ? "nothing" : text;
}

}  // namespace

std::size_t RowLedger::Share::count_below(Clock clock) const {
  const auto end = std::partition_point(messages.begin(), messages.end(),
                                        [&](const Message& message) { return message.clock < clock; });
  return static_cast<std::size_t>(end - messages.begin());
}

double RowLedger::Share::most_unsent() const {
  std::size_t certain = messages.size();
  while (certain > 0 && !messages[certain - 1].is_certain) --certain;
  return static_cast<double>(pushed - sum(certain)) + slack(certain);
}

RowLedger::RowLedger(std::vector<RowTable> tables, std::uint32_t workers)
    : shapes_(std::move(tables)), workers_(workers), finished_(workers, 0) {
  for (const RowTable& shape : shapes_) {
    Share share;
    share.most_dropped = shape.probability < 1 ? SIZE_MAX : shape.least - 1;
    tables_.push_back({.filter = protocol::FilterRule::find(shape.filter).value(),
                       .shares = std::vector<Share>(shape.rows * workers, share),
                       .sends_all = std::vector<bool>(workers, false),
                       .marks = {}});
  }
}

// ---- what workers do

void RowLedger::push(std::uint32_t worker, std::uint32_t table, Key key, std::int64_t amount) {
  Share& share = this->share(table, key, worker);
  share.pushed += amount;
  share.was_touched = true;
}

void RowLedger::end_push(std::uint32_t worker, std::uint32_t table, Key key) {
  Share& share = this->share(table, key, worker);
  share.ended = share.messages.size();
}

void RowLedger::send(std::uint32_t worker, std::uint32_t table) {
  close_all(worker, table, /*sends_all=*/true);
}

void RowLedger::begin_barrier(std::uint32_t worker) {
  for (Table& table : tables_) table.sends_all[worker] = true;
}

void RowLedger::mark(std::uint32_t worker, std::uint32_t table, std::span<const Key> keys) {
  for (const Key key : keys) tables_[table].marks[key].insert(finished_[worker]);
  tables_[table].sends_all[worker] = true;  // the function comes after what the filter would keep back
}

void RowLedger::finish_clock(std::uint32_t worker) {
  end_clock_of(worker, /*sends_all=*/false);
  ++finished_[worker];
}

void RowLedger::leave(std::uint32_t worker) {
  end_clock_of(worker, /*sends_all=*/true);
  finished_[worker] = kAll;
}

void RowLedger::end_clock_of(std::uint32_t worker, bool sends_all) {
  for (std::uint32_t table = 0; table < tables_.size(); ++table) {
    const bool all = sends_all || tables_[table].sends_all[worker];
    tables_[table].sends_all[worker] = false;
    close_all(worker, table, all);
  }
}

void RowLedger::close_all(std::uint32_t worker, std::uint32_t table, bool sends_all) {
  double largest = 0;
  for (Key key = 0; key < shapes_[table].rows; ++key)
    largest = std::max(largest, share(table, key, worker).most_unsent());
  for (Key key = 0; key < shapes_[table].rows; ++key) close(worker, table, key, sends_all, largest);
}

double RowLedger::rounding_slack(std::uint32_t table, const Share& share, double largest) const {
  using Rounding = protocol::FilterRule::Rounding;
  switch (tables_[table].filter.rounding) {
    case Rounding::kNone:
      return 0;
    case Rounding::kBfloat:
      return share.most_unsent() / 256;  // half of the last of 8 bits
    case Rounding::kInt8:
      break;
  }
  return largest / 127 / 2 * (1 + 1e-6);  // half of a multiple, which is a float
}

/// What the worker has pushed to the row since its last message becomes one, unless the filter keeps it back.
void RowLedger::close(std::uint32_t worker, std::uint32_t table, Key key, bool sends_all, double largest) {
  using Kind = protocol::FilterRule::Kind;
  Share& share = this->share(table, key, worker);
  const protocol::FilterRule& filter = tables_[table].filter;
  const Clock clock = finished_[worker];
  const std::int64_t unsent = share.pushed - share.sum(share.messages.size());
  const bool was_touched = std::exchange(share.was_touched, false);
  const bool is_in_doubt = !share.messages.empty() && !share.messages.back().is_certain;
  if (unsent == 0 && !is_in_doubt && share.slack(share.messages.size()) == 0) return;
  if (!sends_all && !was_touched) return;  // only rows of the clock are looked at
  if (!sends_all && filter.kind == Kind::kSignificant && shapes_[table].is_foreseeable()) {
    const std::int64_t size = shapes_[table].rule == RowRule::kMaximum ? share.pushed : unsent;
    const double least = filter.least / std::pow(1 + static_cast<double>(clock), filter.power);
    if (static_cast<double>(size) < least) return;
  }
  share.messages.push_back({.clock = clock,
                            .sum = share.pushed,
                            .slack = sends_all ? 0 : rounding_slack(table, share, largest),
                            .is_certain = sends_all || shapes_[table].is_foreseeable()});
}

// ---- reads

void RowLedger::begin(std::uint32_t reader, std::uint64_t number, std::uint32_t table,
                      std::span<const Key> keys) {
  BegunRead& read = reads_[{reader, number}];
  read.keys.assign(keys.begin(), keys.end());
  for (const Key key : keys) {
    for (std::uint32_t worker = 0; worker < workers_; ++worker)
      read.ended.push_back(share(table, key, worker).ended);
  }
}

std::optional<std::string> RowLedger::end(const RowRead& read, std::span<const Key> keys,
                                          std::span<const double> rows) {
  const auto begun = reads_.extract({read.reader, read.number});
  if (begun.empty()) return "a read ended that had not begun";
  const std::vector<Key>& asked = begun.mapped().keys;
  const bool is_pull = read.how == RowRead::How::kPull;
  const auto wrong = [&](Key key, const std::string& what) {
    constexpr std::string_view kHow[] = {"pull", "scan", "call"};
    return fmt::format("worker {} at clock {} reads key {} of table {} ({}) by a {}: {}", read.reader,
                       read.clock, key, read.table, to_string(shapes_[read.table].model),
                       kHow[static_cast<std::size_t>(read.how)], what);
  };
  for (const Key key : keys) {
    if (std::find(asked.begin(), asked.end(), key) == asked.end()) return wrong(key, "nobody wanted it");
    if (!is_pull && std::count(keys.begin(), keys.end(), key) > 1) return wrong(key, "it is there twice");
  }
  const std::size_t width = RowColumns::width(workers_);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const Key key = asked[i];
    const Bounds of_row = bounds(read, key, std::span(begun.mapped().ended).subspan(i * workers_, workers_));
    const auto found =
        is_pull ? keys.begin() + static_cast<std::ptrdiff_t>(i) : std::find(keys.begin(), keys.end(), key);
    if (auto what = check_existence(read, of_row, found != keys.end())) return wrong(key, *what);
    if (found == keys.end()) continue;
    const auto place = static_cast<std::size_t>(found - keys.begin());
    if (auto what = check(read, key, of_row, rows.subspan(place * width, width))) return wrong(key, *what);
  }
  return std::nullopt;
}

/// Where updates are held back, a function sees nothing of its caller's clock, nor what a filter keeps back.
bool RowLedger::sees_own_at_once(const RowRead& read) const {
  const RowTable& shape = shapes_[read.table];
  const bool is_blind = read.how == RowRead::How::kCall && shape.rules().holds_updates_back;
  return !shape.takes_steps() && !is_blind;
}

RowLedger::Bounds RowLedger::bounds(const RowRead& read, Key key, std::span<const std::size_t> ended) const {
  const consistency::Rules rules = shapes_[read.table].rules();
  Bounds bounds;
  bounds.promised = std::max(consistency::min_clock_needed(rules.read_bound, read.clock), read.barrier_clock);
  bounds.allowed = rules.holds_updates_back ? *std::min_element(finished_.begin(), finished_.end()) : kAll;
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    const Share& share = this->share(read.table, key, worker);
    const bool is_own = worker == read.reader && sees_own_at_once(read);
    const Clock promised = is_own ? kAll : bounds.promised;
    Counts counts{.least = 0, .most = share.count_below(bounds.allowed), .applied = 0};
    for (std::size_t i = 0; i < share.messages.size(); ++i) {
      if (share.messages[i].is_certain && share.messages[i].clock < promised) counts.applied = i + 1;
    }
    if (rules.pushes_at_once) counts.applied = std::max(counts.applied, ended[worker]);
    counts.least = is_own ? share.messages.size() : counts.applied;
    if (is_own) counts.most = counts.least;
    bounds.counts.push_back(counts);
  }
  return bounds;
}

std::optional<std::string> RowLedger::check_existence(const RowRead& read, const Bounds& bounds,
                                                      bool is_found) const {
  const RowTable& shape = shapes_[read.table];
  if (read.how == RowRead::How::kPull) return std::nullopt;
  std::size_t least = 0;
  std::size_t most = 0;
  for (const Counts& counts : bounds.counts) {
    least += counts.applied;
    most += counts.most;
  }
  // What is rounded to nothing does not travel.
  const bool must_be = !shape.sparse || (shape.probability == 1 && !shape.rounds() && least >= shape.least);
  const bool may_be = !shape.sparse || most >= shape.least;
  if (is_found ? may_be : !must_be) return std::nullopt;
  return fmt::format("it {} found, though {} to {} messages with it have come, of which it needs {}",
                     is_found ? "is" : "is not", least, most, shape.least);
}

std::optional<std::string> RowLedger::check(const RowRead& read, Key key, const Bounds& bounds,
                                            std::span<const double> row) {
  numbers_checked_ += row.size();
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    const double number = row[RowColumns::kFirst + worker];
    if (auto what = check_column(read, key, worker, bounds.counts[worker], number)) return what;
  }
  if (auto what = check_steps(read, key, bounds, row)) return what;
  return check_mark(read, key, bounds, static_cast<std::int64_t>(row.back()));
}

std::optional<std::string> RowLedger::check_column(const RowRead& read, Key key, std::uint32_t worker,
                                                   const Counts& counts, double number) {
  const RowTable& shape = shapes_[read.table];
  Share& share = this->share(read.table, key, worker);
  const std::size_t messages = share.messages.size();
  const bool is_own = worker == read.reader && sees_own_at_once(read);
  const std::int64_t unsent = is_own ? share.pushed - share.sum(messages) : 0;
  const double arithmetic = shape.rounds() ? 1e-6 : 0;  // what additions of fractions lose
  const auto fits = [&](std::size_t dropped) {
    for (std::size_t held = counts.least; held <= counts.most; ++held) {
      const std::int64_t sum = held <= dropped ? 0 : share.sum(held) - share.sum(dropped);
      const double slack = is_own ? 0 : share.slack(held);  // its reader adds what is kept back
      if (std::abs(static_cast<double>(sum + unsent) - number) <= slack + arithmetic) return true;
    }
    return false;
  };
  bool is_right = false;
  std::vector<std::size_t> not_dropped;
  if (shape.rules().holds_updates_back && shape.probability == 1) {
    is_right = fits(first_messages(read.table, key)[worker]);
  } else {
    for (std::size_t dropped = 0; dropped <= messages; ++dropped) {
      if (!share.may_have_dropped(dropped)) continue;
      if (fits(dropped)) {
        is_right = true;
      } else {
        not_dropped.push_back(dropped);
      }
    }
    // Or all, and some that are to come.
    const bool may_be_all = share.most_dropped > messages && number == static_cast<double>(unsent);
    is_right |= may_be_all;
    if (is_right && !may_be_all) share.most_dropped = std::min(share.most_dropped, messages);
  }
  if (is_right) {
    share.not_dropped.insert(not_dropped.begin(), not_dropped.end());
    return std::nullopt;
  }
  std::set<std::int64_t> sums;
  for (std::size_t held = counts.least; held <= counts.most; ++held) sums.insert(share.sum(held) + unsent);
  return fmt::format(
      "it holds {} of worker {}, which has pushed {} in {} messages; expected {}{}{}", number, worker,
      share.pushed, messages, shape.rounds() ? "about " : "", joined(sums),
      shape.least > 1 ? fmt::format(", less what of {} messages was dropped", shape.least - 1) : "");
}

std::optional<std::string> RowLedger::check_steps(const RowRead& read, Key key, const Bounds& bounds,
                                                  std::span<const double> row) const {
  const RowTable& shape = shapes_[read.table];
  std::set<std::int64_t> steps;
  std::set<std::int64_t> squares;
  if (!shape.takes_steps()) {
    steps = squares = {0};
  } else if (shape.rules().holds_updates_back) {
    std::map<Clock, std::int64_t> sums;  // of all workers' messages of a clock
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      const Share& share = this->share(read.table, key, worker);
      for (std::size_t i = 0; i < share.messages.size(); ++i)
        sums[share.messages[i].clock] += share.sum(i + 1) - share.sum(i);
    }
    for (Clock clock = bounds.promised; clock <= bounds.allowed; ++clock) {
      std::int64_t taken = 0;
      std::int64_t sum_of_squares = 0;
      for (const auto& [when, sum] : sums) {
        if (when >= clock) break;
        ++taken;
        sum_of_squares += RowColumns::weight(shape.rule, when) * sum * sum;
      }
      steps.insert(taken);
      squares.insert(sum_of_squares);
    }
  } else {
    // Each message is a step.
    std::vector<std::set<std::int64_t>> steps_of(workers_);
    std::vector<std::set<std::int64_t>> squares_of(workers_);
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      const Share& share = this->share(read.table, key, worker);
      std::int64_t sum_of_squares = 0;
      for (std::size_t held = 0; held <= bounds.counts[worker].most; ++held) {
        const std::int64_t update = held == 0 ? 0 : share.sum(held) - share.sum(held - 1);
        sum_of_squares += update * update;
        if (held < bounds.counts[worker].least) continue;
        steps_of[worker].insert(static_cast<std::int64_t>(held));
        squares_of[worker].insert(sum_of_squares);
      }
    }
    steps = sums_of(steps_of);
    squares = sums_of(squares_of);
  }
  const auto taken = static_cast<std::int64_t>(row[RowColumns::kSteps]);
  const auto sum_of_squares = static_cast<std::int64_t>(row[RowColumns::kSquares]);
  if (!steps.contains(taken)) return fmt::format("{} steps were taken, expected {}", taken, joined(steps));
  if (!squares.contains(sum_of_squares)) {
    return fmt::format("the sum of the steps' weighted squares is {}, expected {}", sum_of_squares,
                       joined(squares));
  }
  return std::nullopt;
}

std::vector<std::size_t> RowLedger::first_messages(std::uint32_t table, Key key) const {
  std::vector<std::pair<Clock, std::uint32_t>> order;
  for (std::uint32_t worker = 0; worker < workers_; ++worker) {
    for (const Message& message : share(table, key, worker).messages)
      order.emplace_back(message.clock, worker);
  }
  std::sort(order.begin(), order.end());
  std::vector<std::size_t> dropped(workers_, 0);
  for (std::size_t i = 0; i < std::min<std::size_t>(order.size(), shapes_[table].least - 1); ++i)
    ++dropped[order[i].second];
  return dropped;
}

bool RowLedger::exists_after(std::uint32_t table, Key key, Clock clock) const {
  if (!shapes_[table].sparse) return true;
  std::size_t messages = 0;
  for (std::uint32_t worker = 0; worker < workers_; ++worker)
    messages += share(table, key, worker).count_below(clock + 1);
  return messages >= shapes_[table].least;
}

/// What the mark is before the updates of the clock.
std::int64_t RowLedger::mark_before(std::uint32_t table, Key key, Clock clock) const {
  const auto marks = tables_[table].marks.find(key);
  if (marks == tables_[table].marks.end()) return 0;
  const std::vector<std::size_t> dropped = first_messages(table, key);
  std::int64_t mark = 0;
  for (const Clock when : marks->second) {
    if (when >= clock) break;
    if (!exists_after(table, key, when)) continue;
    mark = 0;
    for (std::uint32_t worker = 0; worker < workers_; ++worker) {
      const Share& share = this->share(table, key, worker);
      const std::size_t held = share.count_below(when + 1);
      if (held > dropped[worker]) mark += share.sum(held) - share.sum(dropped[worker]);
    }
  }
  return mark;
}

std::optional<std::string> RowLedger::check_mark(const RowRead& read, Key key, const Bounds& bounds,
                                                 std::int64_t number) const {
  std::set<std::int64_t> marks = {0};
  if (shapes_[read.table].rules().holds_updates_back) {
    marks.clear();
    for (Clock clock = bounds.promised; clock <= bounds.allowed; ++clock)
      marks.insert(mark_before(read.table, key, clock));
  }
  if (marks.contains(number)) return std::nullopt;
  return fmt::format("its mark is {}, expected {}", number, joined(marks));
}

std::optional<std::string> RowLedger::check_the_end() const {
  for (std::uint32_t table = 0; table < shapes_.size(); ++table) {
    const RowTable& shape = shapes_[table];
    if (shape.least == 1 || shape.probability < 1) continue;
    for (Key key = 0; key < shape.rows; ++key) {
      std::size_t messages = 0;
      std::vector<std::set<std::int64_t>> dropped(workers_);
      for (std::uint32_t worker = 0; worker < workers_; ++worker) {
        const Share& share = this->share(table, key, worker);
        messages += share.messages.size();
        for (std::size_t count = 0; count <= share.messages.size(); ++count) {
          if (share.may_have_dropped(count)) dropped[worker].insert(static_cast<std::int64_t>(count));
        }
      }
      const auto expected = static_cast<std::int64_t>(std::min<std::size_t>(shape.least - 1, messages));
      const std::set<std::int64_t> sums = sums_of(dropped);
      if (sums.contains(expected)) continue;
      return fmt::format("of key {} of table {} ({}) {} messages were dropped, expected {}", key, table,
                         to_string(shape.model), joined(sums), expected);
    }
  }
  return std::nullopt;
}

}  // namespace verbena::simulation
