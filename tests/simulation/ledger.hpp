// Knows who has pushed what and when, and checks each read against the promise of its table's model.
//
// Column w · copies + j of a row belongs to worker w: each of its pushes adds (j + 1) · delta there, where
// delta is a positive whole number. So a number that is read says how many of w's pushes it holds. If the
// model promises an order of updates, a last column takes numbers of all workers whose sum tells the order.
// If updates are applied at once, all workers count in the last column (History checks it). If means are
// weighted, the ledger computes the weighted sums itself, and compares.
//
// A process that takes a worker's place is a worker of its own here, with columns of its own: a *spare*,
// until it is one. So it can be told which of the two has made an update: of each clock that the one before
// had not finished at all servers, its updates are there and none of the spare's, or those of the spare.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "consistency/model.hpp"
#include "consistency/weight_of_means.hpp"
#include "tests/linearizability/number_history.hpp"
#include <verbena/value_type.hpp>

namespace verbena::simulation {

struct TableShape {
  ConsistencyModel model;
  ValueType type = ValueType::kInt64;
  std::uint64_t rows = 1;
  std::uint32_t copies = 1;
  bool ordered = false;  ///< has a last column for the order. REQUIRES: BSP or A-BSP, float or double
  bool shared = false;   ///< has a last column for all workers. REQUIRES: sequential
  std::uint64_t cache_rows = UINT64_MAX;
  std::string encoding = "auto";
  bool sparse = false;         ///< has sparse keys
  bool moves = false;          ///< is dynamic
  bool intents = false;        ///< is dynamic, and workers announce what they will use
  bool shipped_ahead = false;  ///< updates may travel before their clock ends

  /// Rows may have replicas, which have a bound of their own (Asp in <verbena/consistency.hpp>).
  [[nodiscard]] bool may_be_replicated() const {
    return moves && !consistency::rules_of(model).pushes_at_once;
  }
  [[nodiscard]] std::uint32_t width(std::uint32_t workers) const {
    return workers * copies + (ordered || shared ? 1 : 0);
  }
  /// How workers count in the shared column.
  [[nodiscard]] linearizability::Digits digits(std::uint32_t workers) const;
};

/// What each read of a row that begins now must hold.
struct Floor {
  std::size_t own = 0;  ///< how many pushes of the reader
  /// How many pushes the reader's earlier reads have seen, [worker · copies + copy].
  std::vector<std::size_t> seen;
  /// How many pushes it must hold by the promise of the model, [worker · copies + copy]. Empty: none.
  std::vector<std::size_t> pushes;
  /// If the model bounds what may be missing: sums, and how much of each may be missing, by worker.
  struct Sum {
    std::int64_t pushed = 0;
    double may_miss = 0;
  };
  std::vector<Sum> sums;
};

struct Read {
  std::uint32_t reader = 0;
  std::uint32_t table = 0;
  consistency::Clock clock = 0;          ///< the reader's
  consistency::Clock barrier_clock = 0;  ///< of the reader's last barrier
  /// If the read says how fresh it is: it holds all updates of clocks below this.
  std::optional<consistency::Clock> claimed;
  Floor floor = {};      ///< as it was when the pull began
  bool monotone = true;  ///< must hold all that an earlier read has seen
  /// Within one pull, too, the reads are in the order of its keys. Not so in real time, for a key that comes
  /// twice: its row may arrive while it is looked for, be read at once for the second place, and later, when
  /// it is newer, for the first.
  bool in_order = true;
};

class Ledger {
 public:
  /// `spares`: workers beyond these.
  Ledger(std::vector<TableShape> tables, std::uint32_t workers, std::uint32_t spares = 0);

  /// To be called before the push itself.
  void push(std::uint32_t worker, std::uint32_t table, std::uint64_t key, std::int64_t delta, double ordered);
  /// To be called before Session::clock(): others may see everything that was pushed until now.
  void finish_clock(std::uint32_t worker) {
    ++finished_[worker];
    clocks_known_[worker].push_back(clocks_);
  }
  /// What the worker has done of its examples in a clock; to be called whenever that changes.
  void set_examples(std::uint32_t worker, consistency::Clock clock,
                    const consistency::ExampleCounts& counts) {
    examples_[worker][clock] = counts;
  }
  /// To be called before the session ends: others may see everything that the worker has pushed.
  void leave(std::uint32_t worker) { finished_[worker] = kAll; }
  /// `spare` takes the place of `former`, which is dead, and begins at that clock.
  void replace(std::uint32_t former, std::uint32_t spare, consistency::Clock clock);
  /// What comes next happens at this time, in nanoseconds.
  void set_time(std::int64_t now) { now_ = now; }
  /// When somebody dies, rows may come back as they were so many nanoseconds before, at most.
  void let_rows_come_back(std::int64_t oldest) { oldest_image_ = oldest; }
  /// Somebody dies: from now on, anybody's pushes that have not ended may never be applied.
  void expect_losses();
  /// The worker is of a node that dies: what it pushes from now on, before it has noticed that, counts for
  /// nobody, and it reads what was there.
  void kill(std::uint32_t worker) { is_dead_[worker] = true; }
  /// The worker's pushes to this key have returned. They have been applied if the model promises that.
  void end_push(std::uint32_t worker, std::uint32_t table, std::uint64_t key);
  /// Session::clock() has returned. Returns what is wrong with that; nullopt if nothing is.
  std::optional<std::string> end_clock(std::uint32_t worker, consistency::Clock clock);

  /// To be called when a pull begins.
  [[nodiscard]] Floor floor(std::uint32_t reader, std::uint32_t table, std::uint64_t key) const;

  /// Returns what is wrong with the row that was read; nullopt if nothing is.
  std::optional<std::string> check(const Read& read, std::uint64_t key, std::span<const double> row);
  /// Returns what is wrong with a row at the end, which must hold each update once; nullopt if nothing is. If
  /// somebody has died, it must hold those that had ended when its pull began, when `floor` was taken. A
  /// worker that does not know yet that its node is dead may push even after that.
  std::optional<std::string> check_final(std::uint32_t table, std::uint64_t key, const Floor& floor,
                                         std::span<const double> row);

  [[nodiscard]] std::uint64_t numbers_checked() const { return numbers_checked_; }
  [[nodiscard]] const std::vector<TableShape>& shapes() const { return shapes_; }

 private:
  static constexpr consistency::Clock kAll = INT64_MAX;

  struct Push {
    consistency::Clock clock = 0;
    std::int64_t sum = 0;  ///< of this push and all before it
    std::int64_t ended_at = INT64_MAX;
    bool may_be_missing = false;  ///< in a row that has come back, although it had ended
  };
  /// A worker's updates of one clock to the last column, added up as its update buffer does.
  struct OrderedUpdate {
    consistency::Clock clock = 0;
    double value = 0;
  };
  struct Table {
    std::vector<std::vector<Push>> histories;  ///< [row · workers + worker]
    std::vector<std::vector<OrderedUpdate>> ordered;
    std::vector<std::size_t>
        seen;  ///< [((row · workers + reader) · workers + worker) · copies + copy]: pushes
    std::vector<std::size_t> ended;            ///< [row · workers + worker]: pushes that have returned
    std::vector<std::size_t> seen_by_anybody;  ///< [(row · workers + worker) · copies + copy]: pushes
  };

  std::optional<std::string> check_column(const Read& read, std::uint64_t key, std::uint32_t worker,
                                          double number, std::uint32_t copy);
  std::optional<std::string> check_column_from(const Read& read, std::uint64_t key, std::uint32_t worker,
                                               double number, std::uint32_t copy, consistency::Clock start);
  /// Of a row that may have come back since: sums of what it must hold, and of what it may; nullopt: it
  /// cannot lack a push that had ended. `ended`: so many pushes had.
  struct Range {
    std::int64_t least = 0;
    std::int64_t most = 0;
  };
  [[nodiscard]] std::optional<Range> range_if_back(std::uint32_t table, std::uint64_t key,
                                                   std::uint32_t worker, std::size_t ended) const;
  /// It is not there yet, or is replaced.
  [[nodiscard]] bool is_away(std::uint32_t worker) const {
    return replaced_[worker].has_value() || (worker >= at_a_time_ && !formers_[worker]);
  }
  [[nodiscard]] consistency::Clock finished_before(std::uint32_t worker) const;
  [[nodiscard]] std::vector<consistency::Clock> possible_starts(std::uint32_t worker) const;
  /// What a worker has pushed to a key in clocks below that one.
  [[nodiscard]] std::int64_t sum_below(std::uint32_t table, std::uint64_t key, std::uint32_t worker,
                                       consistency::Clock clock) const;
  [[nodiscard]] bool is_replaced_well(std::uint32_t table, std::uint64_t key, std::uint32_t worker,
                                      std::span<const double> row) const;
  std::optional<std::string> check_weighted_column(const Read& read, std::uint64_t key, std::uint32_t worker,
                                                   double number, std::uint32_t copy) const;
  [[nodiscard]] consistency::Clock applied_before(std::uint32_t reader, std::uint32_t worker) const;
  /// What the server must add for an update that a worker has made at a clock.
  [[nodiscard]] double weighted(std::uint32_t table, std::uint32_t worker, consistency::Clock clock,
                                double update) const;
  /// The sum of all that must be added to a column of `worker` for clocks below `below`.
  [[nodiscard]] double weighted_sum(std::uint32_t table, std::uint64_t key, std::uint32_t worker,
                                    std::uint32_t copy, consistency::Clock below) const;
  [[nodiscard]] double ordered_sum(std::uint32_t table, std::uint64_t key, consistency::Clock below) const;

  const std::vector<TableShape> shapes_;
  const std::uint32_t at_a_time_;                            ///< workers without spares
  const std::uint32_t workers_;                              ///< with spares
  std::vector<std::optional<std::uint32_t>> formers_;        ///< by worker: whose place it has taken
  std::vector<std::optional<consistency::Clock>> starts_;    ///< by worker: at which clock it did
  std::vector<std::optional<consistency::Clock>> replaced_;  ///< by worker: at which clock another one did
  std::vector<bool> is_dead_;                                ///< by worker
  std::vector<Table> tables_;
  bool expects_losses_ = false;
  std::int64_t now_ = 0;
  std::optional<std::int64_t> oldest_image_;
  std::vector<consistency::Clock> finished_;  ///< by worker: clocks below it may be seen by others
  std::vector<consistency::Clock> clocks_;    ///< by worker: the clock that it is at
  /// [worker][clock − 1]: what clocks_ was when the worker called Session::clock() to begin that clock.
  std::vector<std::vector<std::vector<consistency::Clock>>> clocks_known_;
  std::vector<std::map<consistency::Clock, consistency::ExampleCounts>> examples_;  ///< by worker
  std::uint64_t numbers_checked_ = 0;
};

}  // namespace verbena::simulation
