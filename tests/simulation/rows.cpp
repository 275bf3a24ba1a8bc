#include "tests/simulation/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <variant>
#include <vector>

#include "base/return_if_error.hpp"
#include "tests/maximum_rule.hpp"
#include "tests/simulation/read_rows.hpp"
#include "tests/simulation/row_ledger.hpp"
#include "tests/simulation/saver.hpp"
#include "tests/simulation/sparse_key.hpp"
#include <verbena/server_function.hpp>
#include <verbena/table.hpp>
#include <verbena/update_rule.hpp>

namespace verbena::simulation {

using consistency::Clock;
using std::chrono::microseconds;

namespace {

/// Under a name of its own, since other tests register theirs.
struct LargestPushed : testing::Maximum {
  static constexpr std::string_view kName = name_of(RowRule::kMaximum);
};

/// Adds, and counts what it does in the first columns. How many steps it has taken is its state, too.
template <RowRule kRule>
struct Steps {
  static constexpr std::string_view kName = name_of(kRule);
  static constexpr bool kOneStepAClock = kRule == RowRule::kClockSteps;
  static constexpr std::array<NamedParameter, 0> kParameters = {};

  static void constants(const double* /*parameters*/, std::int64_t clock, double* constants) {
    constants[0] = static_cast<double>(RowColumns::weight(kRule, clock));
  }
  static std::size_t state_bytes(ValueType /*type*/, std::uint32_t /*width*/) { return sizeof(std::int64_t); }
  template <class Value>
  static void combine(Value* update, const Value* later, std::uint32_t width) {
    for (std::uint32_t i = 0; i < width; ++i) update[i] += later[i];
  }
  template <class Value>
  static void apply(Value* row, std::byte* state, const Value* update, std::uint32_t width,
                    const double* constants) {
    Value sum = 0;
    for (std::uint32_t i = 0; i < width; ++i) {
      const Value pushed = load_whole(update + i);
      sum += pushed;
      store_whole(row + i, row[i] + pushed);
    }
    auto* const steps = reinterpret_cast<std::int64_t*>(state);
    store_whole(row + RowColumns::kSteps, static_cast<Value>(++*steps));
    store_whole(row + RowColumns::kSquares,
                row[RowColumns::kSquares] + static_cast<Value>(constants[0]) * sum * sum);
  }
  template <class Value>
  static void adopt(const Value* row, std::byte* state, std::uint32_t /*width*/,
                    const double* /*constants*/) {
    const auto steps = static_cast<std::int64_t>(row[RowColumns::kSteps]);
    std::memcpy(state, &steps, sizeof steps);
  }
};

/// Sets the mark to the sum of the workers' columns, as the function finds them.
struct MarkRows {
  static constexpr std::string_view kName = "simulation-mark";
  static constexpr bool kChangesRows = true;
  explicit MarkRows(const FunctionCall& /*call*/) {}
  template <class Value>
  void on_row(const FunctionRow& row, const Value* values) {
    std::vector<Value> marked(values, values + row.width());
    marked.back() = std::accumulate(marked.begin() + RowColumns::kFirst, marked.end() - 1, Value{0});
    row.set(marked.data());
  }
  [[nodiscard]] static FunctionResult result() { return {}; }
};

std::string admission_of(const RowTable& table) {
  if (table.probability < 1) return fmt::format("probability(p={})", table.probability);
  return table.least == 1 ? "always" : fmt::format("count(least={})", table.least);
}

template <class Value>
absl::Status pull_by_handles(const Table<Value>& table, const std::vector<Key>& keys,
                             std::vector<Value>& values) {
  absl::StatusOr<RowHandles> rows = table.locate(keys);
  RETURN_IF_ERROR(rows.status());
  return table.pull(*rows, values);
}

class RowsWorkload {
 public:
  RowsWorkload(World& world, const Scenario& scenario, Session& session)
      : world_(world),
        scenario_(scenario),
        session_(session),
        rank_(session.rank()),
        saver_(world, scenario, session),
        width_(RowColumns::width(session.workers())),
        random_(scenario.seed * 1031 + rank_ + 1) {}

  absl::Status run() {
    register_row_rules();
    RETURN_IF_ERROR(open_tables());
    world_.joined(rank_);
    RETURN_IF_ERROR(resume());
    for (Clock clock = session_.current_clock(); clock < scenario_.clocks; ++clock) {
      for (std::uint64_t more = below(random_, 8); more > 0; --more) RETURN_IF_ERROR(do_something());
      if (clock == scenario_.leaves_at[rank_]) return absl::OkStatus();
      const bool saves = saver_.is_due(clock);
      RETURN_IF_ERROR(end_clock(
          saves || (scenario_.barrier_every > 0 && (clock + 1) % scenario_.barrier_every == 0), saves));
    }
    RETURN_IF_ERROR(end_clock(/*barrier=*/true));
    RETURN_IF_ERROR(end_calls());
    RETURN_IF_ERROR(look_at_all());
    saver_.finish();
    return absl::OkStatus();
  }

 private:
  struct OpenTable {
    RowTable shape;
    std::variant<Table<std::int64_t>, Table<double>> table;
    std::vector<std::int64_t> pushed;  ///< by this worker, by row
  };

  absl::Status open_tables() {
    for (const RowTable& shape : scenario_.row_tables)
      RETURN_IF_ERROR(shape.rounds() ? open<double>(shape) : open<std::int64_t>(shape));
    return absl::OkStatus();
  }

  template <class Value>
  absl::Status open(const RowTable& shape) {
    const auto opened =
        session_.table<Value>({.name = fmt::format("rows {}", tables_.size()),
                               .key_space = shape.sparse ? KeySpace::kSparse : KeySpace::kDense,
                               .rows = shape.sparse ? 0 : shape.rows,
                               .width = static_cast<std::uint32_t>(width_),
                               .consistency = shape.model,
                               .rule = std::string(name_of(shape.rule)),
                               .seed = shape.sparse ? scenario_.seed : 0,
                               .admission = admission_of(shape),
                               .filter = shape.filter,
                               .encoding = shape.encoding,
                               .cache_rows = shape.cache_rows});
    RETURN_IF_ERROR(opened.status());
    tables_.push_back({shape, *opened, std::vector<std::int64_t>(shape.rows, 0)});
    return absl::OkStatus();
  }

  /// What this worker has pushed to each row.
  [[nodiscard]] Saver::State state() const {
    Saver::State state;
    for (const OpenTable& table : tables_)
      state.insert(state.end(), table.pushed.begin(), table.pushed.end());
    return state;
  }

  /// If the job goes on from a checkpoint, each row must hold what it held at the cut, and no more.
  absl::Status resume() {
    const absl::StatusOr<std::optional<Saver::State>> saved = saver_.resume();
    if (!saved.ok() || !*saved) return saved.status();
    auto next = (*saved)->begin();
    for (OpenTable& table : tables_) {
      for (std::int64_t& pushed : table.pushed) pushed = static_cast<std::int64_t>(*next++);
    }
    barrier_clock_ = session_.current_clock();
    RETURN_IF_ERROR(look_at_all());
    return end_clock(/*barrier=*/true);  // until then nobody pushes
  }

  absl::Status do_something() {
    const std::uint32_t table = some_table();
    const RowTable& shape = tables_[table].shape;
    switch (below(random_, 10)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return push(table);
      case 4:
        world_.compute(microseconds(below(random_, 200)));
        return absl::OkStatus();
      case 5:
        if (shape.sparse) return scan(table);
        break;
      case 6:
        if (world_.knows_functions()) return call(table, some_keys(table), chance(random_, 0.3));
        break;
      case 7:
        if (world_.knows_functions() && shape.has_marks()) return mark(table);
        break;
      default:
        break;
    }
    return pull(table, some_keys(table));
  }

  absl::Status push(std::uint32_t table) {
    OpenTable& to = tables_[table];
    // What is dropped, or lost by rounding, must be told from what is there.
    const bool are_rare = to.shape.least > 1 || to.shape.probability < 1 || to.shape.rounds();
    const std::uint64_t most = are_rare ? 10'000 : 9;
    const std::vector<Key> rows = some_keys(table);
    std::vector<std::int64_t> updates(rows.size() * width_, 0);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto amount = static_cast<std::int64_t>(1 + below(random_, most));
      std::int64_t& pushed = to.pushed[rows[i]];
      pushed += amount;
      updates[i * width_ + RowColumns::kFirst + rank_] = to.shape.rule == RowRule::kMaximum ? pushed : amount;
      RETURN_IF_ERROR(
          world_.note(PushBegins{.worker = rank_, .table = table, .key = rows[i], .delta = amount}));
    }
    trace("pushes to", table, rows);
    if (to.shape.rules().pushes_at_once) RETURN_IF_ERROR(world_.note(UpdatesSent{rank_, table}));
    RETURN_IF_ERROR(std::visit(
        [&]<class Value>(const Table<Value>& typed) {
          return typed.push(keys_of(table, rows), std::vector<Value>(updates.begin(), updates.end()));
        },
        to.table));
    return world_.note(PushEnded{rank_, table, rows});
  }

  absl::Status pull(std::uint32_t table, const std::vector<Key>& rows) {
    const std::uint64_t number = reads_begun_++;
    RETURN_IF_ERROR(world_.note(PullBegins{rank_, number, table, rows}));
    trace("pulls", table, rows);
    const std::vector<Key> keys = keys_of(table, rows);
    const bool by_handles = tables_[table].shape.sparse && scenario_.pulls_by_handles;
    const absl::StatusOr<std::vector<double>> found = std::visit(
        [&]<class Value>(const Table<Value>& typed) -> absl::StatusOr<std::vector<double>> {
          std::vector<Value> values(rows.size() * width_);
          RETURN_IF_ERROR(by_handles ? pull_by_handles(typed, keys, values) : typed.pull(keys, values));
          return std::vector<double>(values.begin(), values.end());
        },
        tables_[table].table);
    RETURN_IF_ERROR(found.status());
    return end_read(RowRead::How::kPull, number, table, rows, *found);
  }

  absl::Status scan(std::uint32_t table) {
    const std::uint64_t number = reads_begun_++;
    const std::vector<Key> all = all_rows(table);
    RETURN_IF_ERROR(world_.note(PullBegins{rank_, number, table, all}));
    trace("scans", table, all);
    std::vector<Key> rows;
    std::vector<double> found;
    RETURN_IF_ERROR(std::visit(
        [&]<class Value>(const Table<Value>& typed) {
          return typed.scan([&](Key key, std::span<const Value> values) -> absl::Status {
            rows.push_back(row_of(table, key));
            found.insert(found.end(), values.begin(), values.end());
            const std::uint32_t other = some_table();
            return chance(random_, 0.1) ? pull(other, some_keys(other)) : absl::OkStatus();
          });
        },
        tables_[table].table));
    return end_read(RowRead::How::kScan, number, table, std::move(rows), std::move(found));
  }

  /// Each key of `rows` once.
  absl::Status call(std::uint32_t table, std::vector<Key> rows, bool of_all) {
    if (of_all) rows = all_rows(table);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    // The function is to see what this worker has pushed.
    if (!tables_[table].shape.rules().holds_updates_back)
      RETURN_IF_ERROR(world_.note(UpdatesSent{rank_, table}));
    const std::uint64_t number = reads_begun_++;
    RETURN_IF_ERROR(world_.note(PullBegins{rank_, number, table, rows}));
    trace("calls for", table, rows);
    absl::StatusOr<FunctionResult> read = std::visit(
        [&](const auto& typed) {
          return typed.call(ReadRows::kName, of_all ? Keys(kAllKeys) : Keys(keys_of(table, rows)));
        },
        tables_[table].table);
    RETURN_IF_ERROR(read.status());
    std::vector<Key> found;
    for (const Key key : read->keys) found.push_back(row_of(table, key));
    return end_read(RowRead::How::kCall, number, table, std::move(found), std::move(read->numbers));
  }

  absl::Status mark(std::uint32_t table) {
    std::vector<Key> rows = some_keys(table);
    const bool of_all = chance(random_, 0.5);
    if (of_all) rows = all_rows(table);
    RETURN_IF_ERROR(world_.note(RowsMarked{rank_, table, rows}));
    trace("marks", table, rows);
    marks_.push_back(std::visit(
        [&](const auto& typed) {
          return typed.call_async(MarkRows::kName, of_all ? Keys(kAllKeys) : Keys(keys_of(table, rows)));
        },
        tables_[table].table));
    // It may be a call that could not begin. Otherwise it ends after its clock.
    return marks_.back().done() ? marks_.back().result().status() : absl::OkStatus();
  }

  /// `saves`: with a checkpoint, which is a barrier.
  absl::Status end_clock(bool barrier, bool saves = false) {
    if (barrier) RETURN_IF_ERROR(world_.note(BarrierBegins{rank_}));
    RETURN_IF_ERROR(world_.note(ClockBegins{rank_}));
    if (world_.traces())
      world_.trace(fmt::format("worker {} at clock {}: {}", rank_, session_.current_clock(),
                               barrier ? "barrier" : "clock"));
    RETURN_IF_ERROR(saves ? saver_.save(state()) : barrier ? session_.barrier() : session_.clock());
    if (barrier) barrier_clock_ = session_.current_clock();
    return chance(random_, 0.3) ? end_calls() : absl::OkStatus();
  }

  absl::Status end_calls() {
    for (; !marks_.empty(); marks_.pop_front()) RETURN_IF_ERROR(marks_.front().result().status());
    return absl::OkStatus();
  }

  /// All updates are there, in the same rows whatever way they are read.
  absl::Status look_at_all() {
    for (std::uint32_t table = 0; table < tables_.size(); ++table) {
      RETURN_IF_ERROR(pull(table, all_rows(table)));
      if (tables_[table].shape.sparse) RETURN_IF_ERROR(scan(table));
      if (world_.knows_functions()) RETURN_IF_ERROR(call(table, {}, /*of_all=*/true));
    }
    return absl::OkStatus();
  }

  absl::Status end_read(RowRead::How how, std::uint64_t number, std::uint32_t table, std::vector<Key> rows,
                        std::vector<double> values) {
    if (world_.traces()) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        std::string row;
        for (std::size_t j = 0; j < width_; ++j)
          fmt::format_to(std::back_inserter(row), " {}", values[i * width_ + j]);
        world_.trace(fmt::format("worker {} finds row {} of table {}:{}", rank_, rows[i], table, row));
      }
    }
    return world_.note(RowsFound{{.reader = rank_,
                                  .number = number,
                                  .table = table,
                                  .clock = session_.current_clock(),
                                  .barrier_clock = barrier_clock_,
                                  .how = how},
                                 std::move(rows),
                                 std::move(values)});
  }

  [[nodiscard]] std::uint32_t some_table() {
    return static_cast<std::uint32_t>(below(random_, tables_.size()));
  }
  /// Rows, of which some may come twice.
  [[nodiscard]] std::vector<Key> some_keys(std::uint32_t table) {
    std::vector<Key> rows(1 + below(random_, chance(random_, 0.5) ? 2 : 12));
    for (Key& row : rows) row = below(random_, tables_[table].shape.rows);
    return rows;
  }
  [[nodiscard]] std::vector<Key> all_rows(std::uint32_t table) const {
    std::vector<Key> rows(tables_[table].shape.rows);
    std::iota(rows.begin(), rows.end(), Key{0});
    return rows;
  }
  [[nodiscard]] std::vector<Key> keys_of(std::uint32_t table, std::vector<Key> rows) const {
    if (tables_[table].shape.sparse) std::transform(rows.begin(), rows.end(), rows.begin(), sparse_key);
    return rows;
  }
  /// Of a key that is none of the table's: the number of rows.
  [[nodiscard]] Key row_of(std::uint32_t table, Key key) const {
    const RowTable& shape = tables_[table].shape;
    if (!shape.sparse) return key;
    Key row = 0;
    while (row < shape.rows && sparse_key(row) != key) ++row;
    return row;
  }
  void trace(const char* what, std::uint32_t table, const std::vector<Key>& rows) const {
    if (!world_.traces()) return;
    std::string list;
    for (const Key row : rows) fmt::format_to(std::back_inserter(list), " {}", row);
    world_.trace(fmt::format("worker {} at clock {} {} rows{} of table {}", rank_, session_.current_clock(),
                             what, list, table));
  }

  World& world_;
  const Scenario& scenario_;
  Session& session_;
  const std::uint32_t rank_;
  Saver saver_;
  const std::size_t width_;
  std::mt19937_64 random_;
  std::vector<OpenTable> tables_;
  std::deque<PendingResult> marks_;
  std::uint64_t reads_begun_ = 0;
  Clock barrier_clock_ = 0;
};

}  // namespace

void register_row_rules() {
  // If they are not there yet.
  static_cast<void>(register_update_rule<LargestPushed>());
  static_cast<void>(register_update_rule<Steps<RowRule::kSteps>>());
  static_cast<void>(register_update_rule<Steps<RowRule::kClockSteps>>());
  static_cast<void>(register_server_function<ReadRows>());
  static_cast<void>(register_server_function<MarkRows>());
}

absl::Status run_rows(World& world, const Scenario& scenario, Session& session) {
  return RowsWorkload(world, scenario, session).run();
}

}  // namespace verbena::simulation
