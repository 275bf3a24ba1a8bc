// Knows what of each worker's pushes travels in which message, in tables whose rows are not just sums of all
// that is pushed, and checks what is read: update rules other than addition, rows that are there only after
// some pushes, updates that are kept back, and server functions.
//
// Each worker has a column of its own in each row. It pushes positive numbers there, so that a number that is
// read says which of its messages it holds. The other columns tell what the rule has made of all messages,
// and what a function has seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "consistency/model.hpp"
#include "consistency/rules.hpp"
#include "protocol/filter_rule.hpp"
#include <verbena/keys.hpp>

namespace verbena::simulation {

enum class RowRule : std::uint8_t {
  kAdd,
  kMaximum,     ///< a row is the largest of what was pushed; a worker sees its own pushes at once
  kSteps,       ///< adds, and counts its steps; a worker sees its own pushes when they are applied
  kClockSteps,  ///< the same, with one step for each clock
};

/// As in TableOptions::rule.
constexpr std::string_view name_of(RowRule rule) {
  switch (rule) {
    case RowRule::kAdd:
      return "add";
    case RowRule::kMaximum:
      return "simulation-maximum";
    case RowRule::kSteps:
      return "simulation-steps";
    case RowRule::kClockSteps:
      break;
  }
  return "simulation-clock-steps";
}

struct RowTable {
  ConsistencyModel model;
  RowRule rule = RowRule::kAdd;
  std::uint64_t rows = 1;
  bool sparse = false;
  std::uint32_t least = 1;      ///< messages with a key until it has its row. REQUIRES, if more: kAdd
  double probability = 1;       ///< of a message to give its key a row. REQUIRES, if less: kAdd
  std::string filter = "none";  ///< REQUIRES, if the rule steps or rows are admitted: none, or significant
  std::string encoding = "auto";
  std::uint64_t cache_rows = UINT64_MAX;

  [[nodiscard]] consistency::Rules rules() const {
    return consistency::rules_of(model).with_one_step(rule == RowRule::kClockSteps);
  }
  [[nodiscard]] bool takes_steps() const { return rule == RowRule::kSteps || rule == RowRule::kClockSteps; }
  /// Whether the filter keeps back what values lose when it rounds them. The table is of doubles then, of
  /// whole numbers otherwise. REQUIRES, if so: kAdd
  [[nodiscard]] bool rounds() const { return filter.ends_with("bf16") || filter.ends_with("int8"); }
  /// Whether it is known which updates the filter sends.
  [[nodiscard]] bool is_foreseeable() const {
    return filter == "none" || filter == "bf16" || filter == "int8" ||
           (filter.starts_with("significant") && !rounds());
  }
  /// Whether functions may set marks: it is known what they find.
  [[nodiscard]] bool has_marks() const {
    return rules().holds_updates_back && is_foreseeable() && !rounds() && probability == 1;
  }
};

/// A row's columns: these, one for each worker, and the mark.
struct RowColumns {
  static constexpr std::size_t kSteps = 0;    ///< how many steps the rule has taken
  static constexpr std::size_t kSquares = 1;  ///< sum of weight · (sum of the step's update)²
  static constexpr std::size_t kFirst = 2;    ///< of worker 0
  static constexpr std::size_t width(std::uint32_t workers) { return kFirst + workers + 1; }
  /// Of a step's square.
  static constexpr std::int64_t weight(RowRule rule, consistency::Clock clock) {
    return rule == RowRule::kClockSteps ? 1 + clock % 3 : 1;
  }
};

struct RowRead {
  enum class How : std::uint8_t { kPull, kScan, kCall };
  std::uint32_t reader = 0;
  std::uint64_t number = 0;  ///< tells the reads of a worker apart
  std::uint32_t table = 0;
  consistency::Clock clock = 0;          ///< the reader's
  consistency::Clock barrier_clock = 0;  ///< of the reader's last barrier
  How how = How::kPull;
};

class RowLedger {
 public:
  RowLedger(std::vector<RowTable> tables, std::uint32_t workers);

  /// To be called before the push itself.
  void push(std::uint32_t worker, std::uint32_t table, Key key, std::int64_t amount);
  /// The worker's pushes to the key have returned.
  void end_push(std::uint32_t worker, std::uint32_t table, Key key);
  /// All that the worker has pushed to the table travels now, within its clock.
  void send(std::uint32_t worker, std::uint32_t table);
  /// The worker's clock will end with a barrier: nothing is kept back then.
  void begin_barrier(std::uint32_t worker);
  /// The worker calls a function that, when the clock has ended, sets the mark of these rows to the sum of
  /// the workers' columns. REQUIRES: the table has marks
  void mark(std::uint32_t worker, std::uint32_t table, std::span<const Key> keys);
  /// To be called before Session::clock().
  void finish_clock(std::uint32_t worker);
  /// To be called before the session ends.
  void leave(std::uint32_t worker);

  /// A read of these keys begins.
  void begin(std::uint32_t reader, std::uint64_t number, std::uint32_t table, std::span<const Key> keys);
  /// Returns what is wrong with the rows that it has found; nullopt if nothing is. `rows`: [keys.size(),
  /// width]. A pull finds each key that it was asked for, others those that have rows.
  std::optional<std::string> end(const RowRead& read, std::span<const Key> keys,
                                 std::span<const double> rows);
  /// Returns what shows only at the end.
  [[nodiscard]] std::optional<std::string> check_the_end() const;

  [[nodiscard]] std::uint64_t numbers_checked() const { return numbers_checked_; }

 private:
  static constexpr consistency::Clock kAll = INT64_MAX;

  /// With a worker's update of one row.
  struct Message {
    consistency::Clock clock = 0;
    std::int64_t sum = 0;    ///< of this one and all before it
    double slack = 0;        ///< the sum that has travelled may be so much less, or more
    bool is_certain = true;  ///< it was sent; otherwise it may have been
  };
  /// One worker's part of one row.
  struct Share {
    std::int64_t pushed = 0;
    bool was_touched = false;  ///< since its updates were sent or filtered
    std::vector<Message> messages;
    std::size_t ended = 0;  ///< messages of pushes that have returned
    /// How many messages may have come before the row was there, and were dropped: at most so many, and none
    /// of these numbers.
    std::size_t most_dropped = 0;
    std::set<std::size_t> not_dropped;

    [[nodiscard]] std::int64_t sum(std::size_t count) const {
      return count == 0 ? 0 : messages[count - 1].sum;
    }
    [[nodiscard]] double slack(std::size_t count) const { return count == 0 ? 0 : messages[count - 1].slack; }
    /// The most that may not have travelled.
    [[nodiscard]] double most_unsent() const;
    [[nodiscard]] std::size_t count_below(consistency::Clock clock) const;
    [[nodiscard]] bool may_have_dropped(std::size_t count) const {
      return count <= most_dropped && !not_dropped.contains(count);
    }
  };
  struct Table {
    protocol::FilterRule filter;
    std::vector<Share> shares;                          ///< [row · workers + worker]
    std::vector<bool> sends_all;                        ///< by worker
    std::map<Key, std::set<consistency::Clock>> marks;  ///< clocks whose end sets the row's mark
  };
  struct BegunRead {
    std::vector<Key> keys;
    std::vector<std::size_t> ended;  ///< [key · workers + worker]: as Share has it
  };
  /// How many of a worker's messages a number may hold.
  struct Counts {
    std::size_t least = 0;
    std::size_t most = 0;
    std::size_t applied = 0;  ///< so many are in the row, if there is one; a reader's own may be kept back
  };
  /// For a read of one row.
  struct Bounds {
    consistency::Clock promised = 0;  ///< all of clocks below it are there
    consistency::Clock allowed = 0;   ///< none of this clock or later is
    std::vector<Counts> counts;       ///< by worker
  };

  [[nodiscard]] Share& share(std::uint32_t table, Key key, std::uint32_t worker) {
    return tables_[table].shares[key * workers_ + worker];
  }
  [[nodiscard]] const Share& share(std::uint32_t table, Key key, std::uint32_t worker) const {
    return tables_[table].shares[key * workers_ + worker];
  }
  void close_all(std::uint32_t worker, std::uint32_t table, bool sends_all);
  void close(std::uint32_t worker, std::uint32_t table, Key key, bool sends_all, double largest);
  /// Of a row's updates, if the worker's largest one in the table is no larger than that.
  [[nodiscard]] double rounding_slack(std::uint32_t table, const Share& share, double largest) const;
  void end_clock_of(std::uint32_t worker, bool sends_all);
  [[nodiscard]] bool sees_own_at_once(const RowRead& read) const;
  [[nodiscard]] Bounds bounds(const RowRead& read, Key key, std::span<const std::size_t> ended) const;
  std::optional<std::string> check(const RowRead& read, Key key, const Bounds& bounds,
                                   std::span<const double> row);
  std::optional<std::string> check_column(const RowRead& read, Key key, std::uint32_t worker,
                                          const Counts& counts, double number);
  std::optional<std::string> check_steps(const RowRead& read, Key key, const Bounds& bounds,
                                         std::span<const double> row) const;
  std::optional<std::string> check_mark(const RowRead& read, Key key, const Bounds& bounds,
                                        std::int64_t number) const;
  std::optional<std::string> check_existence(const RowRead& read, const Bounds& bounds, bool is_found) const;
  /// Where updates are held back: how many messages of each worker were dropped. They come in the order of
  /// clocks and workers.
  [[nodiscard]] std::vector<std::size_t> first_messages(std::uint32_t table, Key key) const;
  [[nodiscard]] bool exists_after(std::uint32_t table, Key key, consistency::Clock clock) const;
  [[nodiscard]] std::int64_t mark_before(std::uint32_t table, Key key, consistency::Clock clock) const;

  const std::vector<RowTable> shapes_;
  const std::uint32_t workers_;
  std::vector<Table> tables_;
  std::vector<consistency::Clock> finished_;  ///< by worker: clocks below it may be seen by others
  std::map<std::pair<std::uint32_t, std::uint64_t>, BegunRead> reads_;  ///< by reader and number
  std::uint64_t numbers_checked_ = 0;
};

}  // namespace verbena::simulation
