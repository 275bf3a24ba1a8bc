#include "tests/simulation/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <variant>
#include <vector>

#include "base/return_if_error.hpp"
#include "consistency/model.hpp"
#include "consistency/rules.hpp"
#include "tests/simulation/churn.hpp"
#include "tests/simulation/read_rows.hpp"
#include "tests/simulation/rows.hpp"
#include "tests/simulation/saver.hpp"
#include "tests/simulation/sparse_key.hpp"
#include <verbena/consistency.hpp>
#include <verbena/data_cursor.hpp>
#include <verbena/server_function.hpp>
#include <verbena/table.hpp>

namespace verbena::simulation {

using consistency::Clock;
using std::chrono::microseconds;

namespace {

using AnyTable = std::variant<Table<float>, Table<double>, Table<std::int32_t>, Table<std::int64_t>>;

template <class Values>
std::string list(const Values& values) {
  std::string text;
  for (const auto& value : values)
    fmt::format_to(std::back_inserter(text), "{}{}", text.empty() ? "" : " ", value);
  return text;
}

/// How a clock ends; each of these is a barrier, too, but for the first.
enum class ClockEnd : std::uint8_t { kClock, kBarrier, kCheckpoint };

constexpr Clock kLongestIntent = 40;
constexpr Clock kLongestRest = 4 * Asp::kMostClocksBehind;

/// Keys as a call takes them. Here and in the ledger keys are counted from 0; a sparse table has them
/// anywhere.
class Asked {
 public:
  /// `as_range`: the keys are consecutive, and not empty.
  Asked(const TableShape& table, std::span<const Key> keys, bool as_range)
      : keys_(keys.begin(), keys.end()), as_range_(as_range && !table.sparse) {
    if (!table.sparse) return;
    for (Key& key : keys_) key = sparse_key(key);
  }
  [[nodiscard]] Keys of() const {
    if (as_range_) return KeyRange{keys_.front(), keys_.back() + 1};
    return keys_;
  }

 private:
  std::vector<Key> keys_;
  bool as_range_;
};

/// Pushes the numbers that come with the keys.
struct AddToRows {
  static constexpr std::string_view kName = "simulation-add";
  static constexpr bool kChangesRows = true;
  static constexpr bool kMakesRows = true;
  explicit AddToRows(const FunctionCall& /*call*/) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* /*values*/) {
    std::vector<Value> update(row.width());
    for (std::uint32_t i = 0; i < row.width(); ++i) update[i] = static_cast<Value>(row.numbers()[i]);
    row.push(update.data());
  }
  [[nodiscard]] static FunctionResult result() { return {}; }
};

void register_functions() {
  static_cast<void>(register_server_function<ReadRows>());  // if they are not there yet
  static_cast<void>(register_server_function<AddToRows>());
}

/// What a worker does: random pulls, pushes and pauses between its clocks.
class Workload {
 public:
  Workload(World& world, const Scenario& scenario, Session& session)
      : world_(world),
        scenario_(scenario),
        session_(session),
        identity_(world.identity(session.rank())),
        rank_(identity_.number),
        saver_(world, scenario, session),
        random_(scenario.seed * 1009 + rank_ + 1),
        later_(scenario.seed * 1013 + rank_ + 1),
        calls_(scenario.seed * 1019 + rank_ + 1),
        pulled_(scenario.tables.size()),
        any_moves_(std::any_of(scenario.tables.begin(), scenario.tables.end(),
                               [](const TableShape& table) { return table.moves; })) {
    begin_examples(0);
  }

  absl::Status run();

 private:
  struct AsyncPull {
    std::uint64_t number = 0;
    std::uint32_t table = 0;
    std::vector<Key> keys;
    std::vector<std::byte> values;
    Pending pending;
  };

  absl::Status open_tables();
  void begin_examples(std::uint64_t first);
  [[nodiscard]] Saver::State state() const;
  absl::Status resume();
  absl::Status step_aside();
  absl::Status do_something();
  absl::Status read_by_call(std::uint32_t table);
  absl::Status iterate(std::uint64_t most_mini_batches);
  absl::StatusOr<ExampleRange> next_mini_batch();
  absl::Status push();
  template <class Value>
  absl::Status hold_and_add(Table<Value>& table, std::span<const Key> keys, std::span<const Value> updates);
  absl::Status pull();
  absl::Status start_pull();
  absl::Status end_pulls();
  absl::Status localize();
  absl::Status intend(std::uint32_t table);
  absl::Status intend_over(Clock to);
  absl::Status clock(ClockEnd end);
  absl::Status note_that_it_is_there();
  absl::Status pass_clock(ClockEnd end);
  absl::Status push_for_nothing();
  absl::Status pull_what_was_pushed_to_it();
  absl::Status pull_what_came_back();
  absl::Status check_that_intents_end();
  absl::Status check_owners(std::uint32_t table, Key key, bool is_lost);
  absl::StatusOr<std::uint64_t> check_all_rows();
  absl::Status note(Event event) { return world_.note(std::move(event)); }
  /// Whether an operation has failed because a row was lost, which may happen in this job. Tells the world.
  [[nodiscard]] bool is_loss(const absl::Status& status) {
    const bool is_of_a_row =
        (status.code() == absl::StatusCode::kDataLoss || status.code() == absl::StatusCode::kUnavailable) &&
        status.message().substr(0, 4) == "row ";
    if (!scenario_.outlives_nodes || !is_of_a_row) return false;
    world_.lost();
    trace([&] { return fmt::format("worker {}: {}", rank_, std::string(status.message())); });
    return true;
  }
  absl::Status note_wrong(const std::string& what) { return note(Complaint{what}); }
  /// Notes that a pull begins. Returns its number.
  absl::StatusOr<std::uint64_t> begin_pull(std::uint32_t table, std::span<const Key> keys);
  /// Notes that the pull has ended. `pull` has its number, its table and what the read says of itself.
  template <class Value>
  absl::Status end_pull(PullEnded pull, std::span<const Key> keys, std::span<const Value> values);
  template <class Line>
  void trace(Line line) {
    if (world_.traces()) world_.trace(line());
  }
  absl::Status pull_and_check(std::uint32_t table, const Asked& asked, std::span<const Key> keys);
  /// What to add to the shared column for one more push; 0 once the column has no room.
  [[nodiscard]] double count(std::uint32_t table, Key key);
  [[nodiscard]] std::vector<Key> some_keys(std::uint32_t table);
  [[nodiscard]] KeyRange some_range(std::uint32_t table);
  [[nodiscard]] std::size_t width(std::uint32_t table) const {
    return shape(table).width(session_.workers() + scenario_.spares);
  }
  [[nodiscard]] const TableShape& shape(std::uint32_t table) const { return scenario_.tables[table]; }
  /// Not under eager pushes: one that is on its way may be older than a row that was read meanwhile, and
  /// replaces it.
  [[nodiscard]] bool reads_are_monotone(std::uint32_t table) const {
    // Nor is a cached row as new as what a call has read.
    const bool may_be_older = scenario_.calls && rules(table).cache != consistency::CacheRule::kNever;
    return !scenario_.async_pulls && !rules(table).pushes_eagerly && !may_be_older;
  }
  [[nodiscard]] bool only_reads() const { return session_.rank() < scenario_.readers; }
  [[nodiscard]] std::uint32_t some_table() {
    return static_cast<std::uint32_t>(below(random_, tables_.size()));
  }
  [[nodiscard]] consistency::Rules rules(std::uint32_t table) const {
    return consistency::rules_of(shape(table).model);
  }

  World& world_;
  const Scenario& scenario_;
  Session& session_;
  const World::Identity identity_;
  const std::uint32_t rank_;  ///< in the history; of the session only where no process has another's place
  Saver saver_;
  std::mt19937_64 random_;
  std::mt19937_64 later_;  ///< for choices that were added later, so that older seeds keep their meaning
  std::mt19937_64 calls_;  ///< for calls of server functions
  std::vector<AnyTable> tables_;
  std::optional<DataCursor> cursor_;
  std::deque<AsyncPull> pulls_;
  std::uint64_t pulls_begun_ = 0;
  std::vector<std::set<Key>> pulled_;  ///< by table
  std::map<std::pair<std::uint32_t, Key>, std::uint64_t> counted_;
  const bool any_moves_;
  Clock barrier_clock_ = 0;
};

std::vector<Key> keys_of(KeyRange range) {
  std::vector<Key> keys;
  for (Key key = range.first; key < range.last; ++key) keys.push_back(key);
  return keys;
}

absl::Status Workload::open_tables() {
  for (std::uint32_t table = 0; table < pulled_.size(); ++table) {
    const bool sparse = shape(table).sparse;
    const TableOptions options{.name = fmt::format("table {}", table),
                               .key_space = sparse ? KeySpace::kSparse : KeySpace::kDense,
                               .rows = sparse ? 0 : shape(table).rows,
                               .width = static_cast<std::uint32_t>(width(table)),
                               .consistency = shape(table).model,
                               .allocation = shape(table).moves ? Allocation::kDynamic : Allocation::kStatic,
                               .encoding = shape(table).encoding,
                               .cache_rows = shape(table).cache_rows};
    absl::Status status;
    visit_value_type(shape(table).type, [&]<class Value>() {
      auto opened = session_.table<Value>(options);
      status = opened.status();
      if (opened.ok()) tables_.push_back(*opened);
    });
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status Workload::run() {
  register_functions();
  RETURN_IF_ERROR(open_tables());
  world_.joined(session_.rank());
  RETURN_IF_ERROR(note_that_it_is_there());
  RETURN_IF_ERROR(resume());
  Clock rests_until = 0;
  for (Clock clock = session_.current_clock(); clock < scenario_.clocks; ++clock) {
    const bool leaves = clock == scenario_.leaves_at[session_.rank()];
    if (cursor_) {
      RETURN_IF_ERROR(iterate(leaves ? below(random_, 4) : UINT64_MAX));
    } else if (session_.is_catching_up()) {
      // The process before it has done that.
    } else if (clock >= rests_until) {
      if (rests_until > 0 && clock == rests_until) RETURN_IF_ERROR(pull());
      constexpr std::uint64_t kMostOfReaders = 80;
      for (std::uint64_t more = below(random_, only_reads() ? kMostOfReaders : 8); more > 0; --more)
        RETURN_IF_ERROR(do_something());
      if (scenario_.rests && rank_ % 2 == 0 && chance(later_, 0.2)) {
        rests_until = clock + 1 + static_cast<Clock>(below(later_, kLongestRest));
        RETURN_IF_ERROR(intend_over(rests_until));
      }
    }
    if (leaves) {
      RETURN_IF_ERROR(end_pulls());
      trace([&] { return fmt::format("worker {} leaves at clock {}", rank_, clock); });
      return absl::OkStatus();
    }
    const bool barrier = scenario_.barrier_every > 0 && (clock + 1) % scenario_.barrier_every == 0;
    RETURN_IF_ERROR(this->clock(saver_.is_due(clock) ? ClockEnd::kCheckpoint
                                : barrier            ? ClockEnd::kBarrier
                                                     : ClockEnd::kClock));
    if (world_.is_to_step_aside(rank_) && !session_.is_catching_up()) return step_aside();
  }
  RETURN_IF_ERROR(clock(ClockEnd::kBarrier));
  RETURN_IF_ERROR(pull_what_came_back());
  RETURN_IF_ERROR(check_that_intents_end());
  const absl::StatusOr<std::uint64_t> digest = check_all_rows();
  RETURN_IF_ERROR(digest.status());
  world_.final_rows(*digest);
  saver_.finish();
  return absl::OkStatus();
}

absl::Status Workload::step_aside() {
  RETURN_IF_ERROR(end_pulls());
  const Clock clock = session_.current_clock();
  RETURN_IF_ERROR(session_.step_aside());
  world_.stepped_aside(rank_, clock);
  return absl::OkStatus();
}

void Workload::begin_examples(std::uint64_t first) {
  if (scenario_.examples.empty()) return;
  cursor_.emplace(session_,
                  DataCursor::Options{scenario_.examples[session_.rank()], scenario_.mini_batch, first});
}

/// The next example, and what count() has counted.
Saver::State Workload::state() const {
  Saver::State state = {cursor_ ? cursor_->next_example() : 0};
  for (const auto& [where, counted] : counted_)
    state.insert(state.end(), {where.first, where.second, counted});
  return state;
}

/// If the job goes on from a checkpoint, each row must hold what it held at the cut, and no more.
absl::Status Workload::resume() {
  const absl::StatusOr<std::optional<Saver::State>> saved = saver_.resume();
  if (!saved.ok() || !*saved) return saved.status();
  const Saver::State& state = **saved;
  begin_examples(state.front());
  for (std::size_t i = 1; i + 2 < state.size(); i += 3)
    counted_[{static_cast<std::uint32_t>(state[i]), state[i + 1]}] = state[i + 2];
  barrier_clock_ = session_.current_clock();
  // Where another process was before, others may have gone on.
  if (!identity_.former) {
    RETURN_IF_ERROR(note(ClockEnded{rank_, barrier_clock_}));
    RETURN_IF_ERROR(check_all_rows().status());
  }
  return clock(ClockEnd::kBarrier);  // until then nobody pushes
}

absl::Status Workload::do_something() {
  if (scenario_.calls && world_.knows_functions() && chance(calls_, 0.2)) {
    const auto table = static_cast<std::uint32_t>(below(calls_, tables_.size()));
    // Where updates are held back, a function does not see the caller's, as the ledger wants a read to.
    if (!shape(table).moves && !rules(table).holds_updates_back) return read_by_call(table);
  }
  if (any_moves_ && chance(random_, 0.4)) return localize();
  switch (below(random_, scenario_.async_pulls ? 6 : 5)) {
    case 0:
    case 1:
      return only_reads() ? pull() : push();
    case 2:
    case 3:
      return pull();
    case 4:
      world_.compute(microseconds(below(random_, 200)));
      return absl::OkStatus();
    default:
      return chance(random_, 0.7) ? start_pull() : end_pulls();
  }
}

absl::Status Workload::iterate(std::uint64_t most_mini_batches) {
  for (std::uint64_t i = 0; i < most_mini_batches; ++i) {
    const absl::StatusOr<ExampleRange> batch = next_mini_batch();
    RETURN_IF_ERROR(batch.status());
    if (batch->empty()) break;
    world_.compute(scenario_.mini_batch_time);
    for (std::uint64_t more = below(random_, 3); more > 0; --more) RETURN_IF_ERROR(do_something());
  }
  return absl::OkStatus();
}

absl::StatusOr<ExampleRange> Workload::next_mini_batch() {
  const Clock clock = session_.current_clock();
  RETURN_IF_ERROR(note(ExamplesAsked{rank_, clock}));
  absl::StatusOr<ExampleRange> batch = cursor_->next();
  RETURN_IF_ERROR(batch.status());
  trace([&] {
    return batch->empty() ? fmt::format("worker {} at clock {}: the iteration is over, {} examples are left",
                                        rank_, clock, cursor_->left())
                          : fmt::format("worker {} at clock {} takes examples {} to below {}", rank_, clock,
                                        batch->first, batch->last);
  });
  RETURN_IF_ERROR(note(ExamplesTaken{rank_, clock, batch->first, batch->last}));
  return batch;
}

std::vector<Key> Workload::some_keys(std::uint32_t table) {
  std::vector<Key> keys(1 + below(random_, chance(random_, 0.4) ? 1 : 20));
  for (Key& key : keys) key = below(random_, shape(table).rows);
  return keys;
}

KeyRange Workload::some_range(std::uint32_t table) {
  const Key first = below(random_, shape(table).rows);
  return {first, first + 1 + below(random_, shape(table).rows - first)};
}

double Workload::count(std::uint32_t table, Key key) {
  const linearizability::Digits digits = shape(table).digits(session_.workers());
  std::uint64_t& counted = counted_[{table, key}];
  if (counted == digits.most_pushes()) return 0;
  ++counted;
  return digits.update(rank_);
}

/// Adds to the rows in place if they can be held, which takes some time; pushes to the others.
template <class Value>
absl::Status Workload::hold_and_add(Table<Value>& table, std::span<const Key> keys,
                                    std::span<const Value> updates) {
  const std::uint32_t row = table.width();
  std::vector<Value*> rows(keys.size());
  absl::StatusOr<HeldRows> held = table.hold(keys, rows);
  RETURN_IF_ERROR(held.status());
  std::vector<Key> others;
  std::vector<Value> others_updates;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::span<const Value> update = updates.subspan(i * row, row);
    if (rows[i] == nullptr) {
      others.push_back(keys[i]);
      others_updates.insert(others_updates.end(), update.begin(), update.end());
      continue;
    }
    std::vector<Value> values(rows[i], rows[i] + row);
    // Longer if workers die, so that some die while they hold rows; but no images are made of these.
    const bool is_long = scenario_.outlives_nodes && scenario_.backup_every_ms == 0;
    world_.compute(microseconds(below(later_, is_long ? 1000 : 30)));
    for (std::size_t at = 0; at < row; ++at) rows[i][at] = values[at] + update[at];
  }
  RETURN_IF_ERROR(held->release());
  return table.push(others, others_updates);
}

absl::Status Workload::push() {
  const std::uint32_t table = some_table();
  const bool as_range = chance(random_, 0.5);
  const KeyRange range = some_range(table);
  const std::vector<Key> keys = as_range ? keys_of(range) : some_keys(table);
  const Asked asked(shape(table), keys, as_range);
  trace([&] {
    return fmt::format("worker {} at clock {} pushes to keys {} of table {}", rank_, session_.current_clock(),
                       list(keys), table);
  });
  const std::uint32_t copies = shape(table).copies;
  return std::visit(
      [&]<class Value>(Table<Value>& to) -> absl::Status {
        std::vector<Value> updates(keys.size() * width(table), 0);
        for (std::size_t i = 0; i < keys.size(); ++i) {
          Value* const row = &updates[i * width(table)];
          const auto delta = static_cast<std::int64_t>(1 + below(random_, 9));
          for (std::uint32_t copy = 0; copy < copies; ++copy)
            row[rank_ * copies + copy] = static_cast<Value>(delta * (copy + 1));
          // The sizes differ so much that sums in different orders differ.
          const float ordered = std::ldexp(static_cast<float>(1 + below(random_, 100003)),
                                           static_cast<int>(below(random_, 60)) - 30);
          const double last = shape(table).ordered  ? static_cast<double>(ordered)
                              : shape(table).shared ? count(table, keys[i])
                                                    : 0;
          if (last != 0) row[width(table) - 1] = static_cast<Value>(last);
          RETURN_IF_ERROR(note(PushBegins{rank_, table, keys[i], delta, last}));
        }
        if (scenario_.async_pulls && chance(random_, 0.3)) {
          // The push begins after all pulls so far, or runs beside them.
          OperationOptions options;
          if (chance(random_, 0.5)) {
            for (const AsyncPull& pull : pulls_) options.after.push_back(pull.pending);
          }
          return to.push_async(asked.of(), updates, options).wait();
        }
        // What a call changes is seen where rows are read from the server, by pulls that begin after it.
        const bool is_seen =
            !rules(table).holds_updates_back && rules(table).cache == consistency::CacheRule::kNever;
        if (scenario_.calls && world_.knows_functions() && is_seen && !shape(table).moves &&
            chance(calls_, 0.3) && pulls_.empty()) {
          const std::vector<double> numbers(updates.begin(), updates.end());
          const Asked as_list(shape(table), keys, /*as_range=*/false);
          const absl::Status called = to.call(AddToRows::kName, as_list.of(), numbers).status();
          // Some server may have this clock of the process before.
          const bool is_refused = identity_.former && absl::IsFailedPrecondition(called);
          if (!is_refused) {
            RETURN_IF_ERROR(called);
            return note(PushEnded{rank_, table, keys});
          }
        }
        const bool holds = shape(table).moves && chance(later_, 0.3);
        const absl::Status status =
            holds ? hold_and_add(to, keys, std::span<const Value>(updates)) : to.push(asked.of(), updates);
        if (is_loss(status)) return absl::OkStatus();
        RETURN_IF_ERROR(status);
        return note(PushEnded{rank_, table, keys});
      },
      tables_[table]);
}

absl::StatusOr<std::uint64_t> Workload::begin_pull(std::uint32_t table, std::span<const Key> keys) {
  const std::uint64_t number = pulls_begun_++;
  RETURN_IF_ERROR(note(PullBegins{rank_, number, table, {keys.begin(), keys.end()}}));
  return number;
}

template <class Value>
absl::Status Workload::end_pull(PullEnded pull, std::span<const Key> keys, std::span<const Value> values) {
  pulled_[pull.table].insert(keys.begin(), keys.end());
  pull.worker = rank_;
  pull.barrier_clock = barrier_clock_;
  pull.keys.assign(keys.begin(), keys.end());
  pull.rows.assign(values.begin(), values.end());
  return note(std::move(pull));
}

absl::Status Workload::pull_and_check(std::uint32_t table, const Asked& asked, std::span<const Key> keys) {
  const absl::StatusOr<std::uint64_t> number = begin_pull(table, keys);
  RETURN_IF_ERROR(number.status());
  const Clock clock = session_.current_clock();
  return std::visit(
      [&]<class Value>(Table<Value>& from) -> absl::Status {
        std::vector<Value> values(keys.size() * width(table));
        const std::vector<std::uint64_t> lags = from.staleness().reads_by_lag;
        if (const absl::Status status = from.pull(asked.of(), values); !status.ok())
          return is_loss(status) ? absl::OkStatus() : status;
        trace([&] {
          return fmt::format("worker {} at clock {} has pulled keys {} of table {}: {}", rank_, clock,
                             list(keys), table, list(values));
        });
        PullEnded pull{
            .pull = *number, .table = table, .clock = clock, .monotone = reads_are_monotone(table)};
        // If other pulls are under way, they count in the same histogram.
        if (keys.size() == 1 && pulls_.empty()) {
          const std::vector<std::uint64_t>& now = from.staleness().reads_by_lag;
          const auto differs = std::mismatch(lags.begin(), lags.end(), now.begin()).first;
          const auto lag = static_cast<Clock>(differs - lags.begin());
          if (lag + 1 < static_cast<Clock>(lags.size())) pull.claimed = clock - lag;
        }
        return end_pull<Value>(std::move(pull), keys, values);
      },
      tables_[table]);
}

/// A call that reads rows as a pull would.
absl::Status Workload::read_by_call(std::uint32_t table) {
  std::vector<Key> keys(1 + below(calls_, 20));
  for (Key& key : keys) key = below(calls_, shape(table).rows);
  const Asked asked(shape(table), keys, /*as_range=*/false);
  const absl::StatusOr<std::uint64_t> number = begin_pull(table, keys);
  RETURN_IF_ERROR(number.status());
  return std::visit(
      [&]<class Value>(Table<Value>& from) -> absl::Status {
        const absl::StatusOr<FunctionResult> read = from.call(ReadRows::kName, asked.of());
        RETURN_IF_ERROR(read.status());
        std::vector<Value> values(keys.size() * width(table), 0);
        for (std::size_t i = 0; i < keys.size(); ++i) {
          const auto found = std::find(read->keys.begin(), read->keys.end(), asked.of()[i]);
          if (found == read->keys.end()) continue;  // a sparse table has no such row
          const auto at = static_cast<std::size_t>(found - read->keys.begin()) * width(table);
          for (std::size_t j = 0; j < width(table); ++j)
            values[i * width(table) + j] = static_cast<Value>(read->numbers[at + j]);
        }
        trace([&] {
          return fmt::format("worker {} at clock {} has called for keys {} of table {}: {}", rank_,
                             session_.current_clock(), list(keys), table, list(values));
        });
        const std::set<Key> pulled = pulled_[table];  // a call subscribes to nothing
        const absl::Status status = end_pull<Value>(
            {.pull = *number, .table = table, .clock = session_.current_clock(), .monotone = false}, keys,
            values);
        pulled_[table] = pulled;
        return status;
      },
      tables_[table]);
}

absl::Status Workload::pull() {
  const std::uint32_t table = some_table();
  if (chance(random_, 0.5)) {
    const std::vector<Key> keys = keys_of(some_range(table));
    return pull_and_check(table, Asked(shape(table), keys, /*as_range=*/true), keys);
  }
  const std::vector<Key> keys = some_keys(table);
  return pull_and_check(table, Asked(shape(table), keys, /*as_range=*/false), keys);
}

absl::Status Workload::start_pull() {
  const std::uint32_t table = some_table();
  std::vector<Key> keys = some_keys(table);
  trace([&] {
    return fmt::format("worker {} at clock {} begins to pull keys {} of table {}", rank_,
                       session_.current_clock(), list(keys), table);
  });
  return std::visit(
      [&]<class Value>(Table<Value>& from) -> absl::Status {
        std::vector<std::byte> bytes(keys.size() * width(table) * sizeof(Value));
        const std::span<Value> values(reinterpret_cast<Value*>(bytes.data()), keys.size() * width(table));
        const absl::StatusOr<std::uint64_t> number = begin_pull(table, keys);
        RETURN_IF_ERROR(number.status());
        OperationOptions options;
        if (!pulls_.empty() && chance(random_, 0.3)) options.after = {pulls_.back().pending};
        // The operation copies the keys.
        Pending pending =
            from.pull_async(Asked(shape(table), keys, /*as_range=*/false).of(), values, options);
        pulls_.push_back({*number, table, std::move(keys), std::move(bytes), std::move(pending)});
        return absl::OkStatus();
      },
      tables_[table]);
}

absl::Status Workload::localize() {
  std::uint32_t table = some_table();
  while (!shape(table).moves) table = (table + 1) % static_cast<std::uint32_t>(tables_.size());
  if (shape(table).intents && chance(random_, 0.8)) return intend(table);
  const bool as_range = chance(random_, 0.3);
  const KeyRange range = some_range(table);
  const std::vector<Key> keys = as_range ? keys_of(range) : some_keys(table);
  const bool wait = chance(random_, 0.5);
  trace([&] {
    return fmt::format("worker {} at clock {} localizes keys {} of table {}{}", rank_,
                       session_.current_clock(), list(keys), table, wait ? "" : " and goes on");
  });
  return std::visit(
      [&]<class Value>(Table<Value>& in) -> absl::Status {
        OperationOptions options;
        if (!pulls_.empty() && chance(random_, 0.2)) options.after = {pulls_.back().pending};
        Pending pending = as_range ? in.localize(range, options) : in.localize(keys, options);
        const absl::Status status = wait ? pending.wait() : absl::OkStatus();
        return is_loss(status) ? absl::OkStatus() : status;
      },
      tables_[table]);
}

absl::Status Workload::intend(std::uint32_t table) {
  const bool as_range = chance(random_, 0.3);
  const KeyRange range = some_range(table);
  const std::vector<Key> keys = as_range ? keys_of(range) : some_keys(table);
  const Clock from = session_.current_clock() + static_cast<Clock>(below(random_, 6)) - 1;
  const Clock to =
      from + static_cast<Clock>(below(random_, chance(random_, 0.2) ? std::uint64_t{kLongestIntent} : 4));
  trace([&] {
    return fmt::format("worker {} at clock {} intends to use keys {} of table {} in clocks {} to below {}",
                       rank_, session_.current_clock(), list(keys), table, from, to);
  });
  return std::visit(
      [&](auto& in) { return as_range ? in.intent(range, from, to) : in.intent(keys, from, to); },
      tables_[table]);
}

/// Announces that it will use all rows of tables with intents, in all clocks up to `to` + 1.
absl::Status Workload::intend_over(Clock to) {
  for (std::uint32_t table = 0; table < tables_.size(); ++table) {
    if (!shape(table).intents) continue;
    const Clock now = session_.current_clock();
    RETURN_IF_ERROR(std::visit(
        [&](auto& in) {
          return in.intent(KeyRange{0, shape(table).rows}, now, to + 2);
        },
        tables_[table]));
  }
  return absl::OkStatus();
}

absl::Status Workload::end_pulls() {
  for (; !pulls_.empty(); pulls_.pop_front()) {
    AsyncPull& pull = pulls_.front();
    if (const absl::Status status = pull.pending.wait(); !status.ok()) {
      if (!is_loss(status)) return status;
      continue;
    }
    const PullEnded ended{
        .pull = pull.number, .table = pull.table, .clock = session_.current_clock(), .monotone = false};
    const absl::Status status = std::visit(
        [&]<class Value>(const Table<Value>&) -> absl::Status {
          const std::span<const Value> values(reinterpret_cast<const Value*>(pull.values.data()),
                                              pull.values.size() / sizeof(Value));
          return end_pull<Value>(ended, pull.keys, values);
        },
        tables_[pull.table]);
    RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

/// It takes another's place, and goes on from here.
absl::Status Workload::note_that_it_is_there() {
  if (!identity_.former || session_.is_catching_up()) return absl::OkStatus();
  return note(Replacement{*identity_.former, rank_, session_.current_clock()});
}

absl::Status Workload::pass_clock(ClockEnd end) {
  trace([&] { return fmt::format("worker {} passes clock {}", rank_, session_.current_clock()); });
  // What it pushes now must not count.
  if (end == ClockEnd::kClock && chance(later_, 0.3)) RETURN_IF_ERROR(push_for_nothing());
  RETURN_IF_ERROR(end == ClockEnd::kClock     ? session_.clock()
                  : end == ClockEnd::kBarrier ? session_.barrier()
                                              : saver_.save({}));
  if (end != ClockEnd::kClock) barrier_clock_ = session_.current_clock();
  return note_that_it_is_there();
}

absl::Status Workload::push_for_nothing() {
  const std::uint32_t table = some_table();
  const std::vector<Key> keys = some_keys(table);
  return std::visit(
      [&]<class Value>(Table<Value>& to) {
        const std::vector<Value> updates(keys.size() * width(table), 1);
        return to.push(Asked(shape(table), keys, /*as_range=*/false).of(), updates);
      },
      tables_[table]);
}

absl::Status Workload::clock(ClockEnd end) {
  if (session_.is_catching_up()) return pass_clock(end);
  RETURN_IF_ERROR(end_pulls());
  RETURN_IF_ERROR(note(ClockBegins{rank_}));
  trace([&] {
    return fmt::format("worker {} at clock {}: {}", rank_, session_.current_clock(),
                       end == ClockEnd::kClock     ? "clock"
                       : end == ClockEnd::kBarrier ? "barrier"
                                                   : "checkpoint");
  });
  const absl::Status status = end == ClockEnd::kClock     ? session_.clock()
                              : end == ClockEnd::kBarrier ? session_.barrier()
                                                          : saver_.save(state());
  if (!status.ok() && !is_loss(status)) return status;
  RETURN_IF_ERROR(note(ClockEnded{rank_, session_.current_clock()}));
  if (end == ClockEnd::kClock) return absl::OkStatus();
  barrier_clock_ = session_.current_clock();
  return pull_what_was_pushed_to_it();
}

/// ESSP: rows that a worker has read are pushed to it, so that after a barrier it needs no one-sided reads
/// for them.
absl::Status Workload::pull_what_was_pushed_to_it() {
  if (!world_.reads(session_.rank())) return absl::OkStatus();
  for (std::uint32_t table = 0; table < tables_.size(); ++table) {
    // A row of a sparse table that was not there yet has no subscription.
    if (!rules(table).pushes_eagerly || shape(table).cache_rows < shape(table).rows || shape(table).sparse ||
        pulled_[table].empty()) {
      continue;
    }
    const std::vector<Key> keys(pulled_[table].begin(), pulled_[table].end());
    const std::optional<std::uint64_t> before = world_.reads(session_.rank());
    if (!before) return absl::OkStatus();
    RETURN_IF_ERROR(pull_and_check(table, Asked(shape(table), keys, /*as_range=*/false), keys));
    if (const std::uint64_t reads = world_.reads(session_.rank()).value_or(*before) - *before; reads > 0) {
      return note_wrong(fmt::format(
          "worker {} needed {} reads at clock {} for rows of table {} ({}) to which it has subscribed", rank_,
          reads, session_.current_clock(), table, to_string(shape(table).model)));
    }
  }
  return absl::OkStatus();
}

/// ESSP with a cache for fewer rows than there are: a row that is cached now is pushed from the next clocks
/// on, also if it was cached and evicted before.
absl::Status Workload::pull_what_came_back() {
  const auto is_meant = [&](std::uint32_t table) {
    const std::uint64_t room_in_each_part = 2ULL * scenario_.servers * scenario_.lanes;
    return rules(table).pushes_eagerly && !shape(table).sparse &&
           shape(table).cache_rows < shape(table).rows && shape(table).cache_rows >= room_in_each_part &&
           world_.reads(session_.rank()).has_value();
  };
  for (std::uint32_t table = 0; table < tables_.size(); ++table) {
    if (!is_meant(table)) continue;
    const std::vector<Key> one = {shape(table).rows / 2};
    const Asked asked(shape(table), one, /*as_range=*/true);
    if (!session_.is_catching_up()) RETURN_IF_ERROR(pull_and_check(table, asked, one));
    const bool is_late = session_.is_catching_up();
    RETURN_IF_ERROR(clock(ClockEnd::kBarrier));  // subscribes
    RETURN_IF_ERROR(clock(ClockEnd::kBarrier));
    if (is_late || !world_.reads(session_.rank())) continue;
    const std::uint64_t before = *world_.reads(session_.rank());
    RETURN_IF_ERROR(pull_and_check(table, asked, one));
    if (world_.reads(session_.rank()).value_or(before) == before) continue;
    return note_wrong(
        fmt::format("worker {} had to read key {} of table {} ({}), which it caches, at clock {}", rank_,
                    one.front(), table, to_string(shape(table).model), session_.current_clock()));
  }
  return absl::OkStatus();
}

/// When the intents of all others are over, a worker gets the rows that it intends to use, and no replicas.
absl::Status Workload::check_that_intents_end() {
  const auto meant =
      std::find_if(scenario_.tables.begin(), scenario_.tables.end(),
                   [](const TableShape& table) { return table.intents && table.may_be_replicated(); });
  if (meant == scenario_.tables.end()) return absl::OkStatus();
  for (Clock clock = 0; clock < kLongestIntent + 10; ++clock) {
    world_.compute(microseconds(below(random_, 20)));
    RETURN_IF_ERROR(this->clock(ClockEnd::kClock));
  }
  RETURN_IF_ERROR(clock(ClockEnd::kBarrier));
  const bool looks = rank_ + 1 == session_.workers();
  // Intents that could not end in time end soon: replicas count in the last round only.
  constexpr int kRounds = 4;
  std::uint64_t before = 0;
  for (int round = 0; round < kRounds; ++round) {
    if (round == kRounds - 1) before = session_.statistics().rows_replicated;
    const Clock now = session_.current_clock();
    if (looks) {
      RETURN_IF_ERROR(std::visit(
          [&](auto& in) {
            return in.intent(KeyRange{0, meant->rows}, now, now + 1);
          },
          tables_[static_cast<std::size_t>(meant - scenario_.tables.begin())]));
    }
    RETURN_IF_ERROR(clock(ClockEnd::kBarrier));
    RETURN_IF_ERROR(clock(ClockEnd::kBarrier));
  }
  if (session_.statistics().rows_replicated == before) return absl::OkStatus();
  return note_wrong(
      fmt::format("worker {} gets replicas, though nobody else intends to use the rows", rank_));
}

/// A row has one owner, or none while it moves; and none at all if it is lost. But if a node lives that is
/// taken for dead, it takes a worker for dead that lives, until all know whom they do without: a row that
/// this worker moves may be lost for those who ask the node about it meanwhile. And where rows come back, one
/// that a home has given up may come back by its heir.
absl::Status Workload::check_owners(std::uint32_t table, Key key, bool is_lost) {
  const bool may_be_lost_for_some =
      scenario_.backup_every_ms > 0 ||
      std::any_of(scenario_.disasters.begin(), scenario_.disasters.end(),
                  [](const Strike& strike) { return strike.what == Disaster::kNodeIsMissed; });
  const std::optional<std::uint32_t> owners = world_.owners(table, key);
  if (!owners || *owners <= (is_lost && !may_be_lost_for_some ? 0 : 1)) return absl::OkStatus();
  return note_wrong(fmt::format("{} servers own key {} of table {}{}", *owners, key, table,
                                is_lost ? fmt::format(", which is lost as worker {} has heard", rank_) : ""));
}

/// All that was pushed is there, once. Returns a digest of all rows.
absl::StatusOr<std::uint64_t> Workload::check_all_rows() {
  std::uint64_t digest = 0;
  for (std::uint32_t table = 0; table < tables_.size(); ++table) {
    const absl::Status status = std::visit(
        [&]<class Value>(Table<Value>& from) -> absl::Status {
          std::vector<Value> values(shape(table).rows * width(table));
          std::vector<Key> keys(shape(table).rows);
          std::iota(keys.begin(), keys.end(), Key{0});
          const absl::StatusOr<std::uint64_t> number = begin_pull(table, keys);
          RETURN_IF_ERROR(number.status());
          std::vector<Key> lost;
          std::vector<Key> in_doubt;  // they may be there, but without an update of this worker
          absl::Status pulled = from.pull(Asked(shape(table), keys, /*as_range=*/true).of(), values);
          if (is_loss(pulled)) {
            // Pull the rows one by one, to get those that are not lost.
            for (Key key = 0; key < shape(table).rows; ++key) {
              pulled = from.pull(Asked(shape(table), std::span(&key, 1), /*as_range=*/true).of(),
                                 std::span(values).subspan(key * width(table), width(table)));
              if (!is_loss(pulled)) {
                RETURN_IF_ERROR(pulled);
              } else {
                lost.push_back(key);
                if (pulled.code() == absl::StatusCode::kUnavailable) in_doubt.push_back(key);
              }
            }
          } else {
            RETURN_IF_ERROR(pulled);
          }
          for (const Key key : keys) {
            const bool is_lost = std::find(lost.begin(), lost.end(), key) != lost.end();
            const bool is_in_doubt = std::find(in_doubt.begin(), in_doubt.end(), key) != in_doubt.end();
            RETURN_IF_ERROR(check_owners(table, key, is_lost && !is_in_doubt));
            if (!is_lost) world_.is_there(table, key);
          }
          const std::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                       values.size() * sizeof(Value));
          digest = digest * 31 + std::hash<std::string_view>()(bytes);
          return note(TableAtTheEnd{rank_, *number, table, {values.begin(), values.end()}, lost});
        },
        tables_[table]);
    RETURN_IF_ERROR(status);
  }
  return digest;
}

}  // namespace

absl::Status run_workload(World& world, const Scenario& scenario, Session& session) {
  if (scenario.churn) return run_churn(world, scenario, session);
  if (!scenario.row_tables.empty()) return run_rows(world, scenario, session);
  return Workload(world, scenario, session).run();
}

}  // namespace verbena::simulation
