// Who has pushed what and when: knows everything, and checks each read against the promise of its table's
// model.
//
// Column w · copies + j of a row belongs to worker w: each of its pushes adds (j + 1) · delta there, delta
// being a positive whole number. So a number read says how many of w's pushes it holds. Where updates are
// applied in a promised order, a last column takes numbers of all workers whose sum tells the order; where
// they are applied at once, one that all workers count in (History checks it). Where means are weighted, the
// ledger adds up what is to be added, and compares.
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
  bool moves = false;          ///< is dynamic
  bool intents = false;        ///< and workers say what they will use
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

/// What a row must hold when it is read from now on.
struct Floor {
  std::size_t own = 0;  ///< pushes of the reader
  /// What reads before the pull have seen: pushes, [worker · copies + copy].
  std::vector<std::size_t> seen;
  /// Where the model promises something of it: pushes, [worker · copies + copy].
  std::vector<std::size_t> pushes;
  /// Where the model bounds what is not seen: sums and how much of them may be missing, by worker.
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
  /// Where the read says how fresh it is: it holds all updates of clocks below this.
  std::optional<consistency::Clock> claimed;
  Floor floor = {};      ///< when the pull began
  bool monotone = true;  ///< nothing that an earlier read has seen is missing
  /// The reads of one pull are earlier and later, too, in the order of its keys. Not so in real time: while
  /// one that comes twice is looked for, it may arrive, be read in its second place at once, and later,
  /// newer, in its first.
  bool in_order = true;
};

class Ledger {
 public:
  Ledger(std::vector<TableShape> tables, std::uint32_t workers);

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
  /// The same, before the session ends.
  void leave(std::uint32_t worker) { finished_[worker] = kAll; }
  /// From now on what has not ended may never be applied, whoever has pushed it: somebody dies.
  void expect_losses() { expects_losses_ = true; }
  /// A push has returned; it has been applied if the model promises that.
  void end_push(std::uint32_t worker, std::uint32_t table, std::uint64_t key);
  /// Session::clock() has returned: what is wrong with that.
  std::optional<std::string> end_clock(std::uint32_t worker, consistency::Clock clock);

  /// To be called when a pull begins.
  [[nodiscard]] Floor floor(std::uint32_t reader, std::uint32_t table, std::uint64_t key) const;

  /// What is wrong with the row that was read; nothing if it is as promised.
  std::optional<std::string> check(const Read& read, std::uint64_t key, std::span<const double> row);
  /// What is wrong with a row that must hold each update once. Where somebody has died: those that had ended
  /// when its pull began, which is what `floor` is of. Who does not know yet that its node is dead may push
  /// until after it.
  std::optional<std::string> check_final(std::uint32_t table, std::uint64_t key, const Floor& floor,
                                         std::span<const double> row);

  [[nodiscard]] std::uint64_t numbers_checked() const { return numbers_checked_; }
  [[nodiscard]] const std::vector<TableShape>& shapes() const { return shapes_; }

 private:
  static constexpr consistency::Clock kAll = INT64_MAX;

  struct Push {
    consistency::Clock clock = 0;
    std::int64_t sum = 0;  ///< of this push and all before it
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
  std::optional<std::string> check_weighted_column(const Read& read, std::uint64_t key, std::uint32_t worker,
                                                   double number, std::uint32_t copy) const;
  [[nodiscard]] consistency::Clock applied_before(std::uint32_t reader, std::uint32_t worker) const;
  /// What is to be added for an update that a worker has made at a clock.
  [[nodiscard]] double weighted(std::uint32_t table, std::uint32_t worker, consistency::Clock clock,
                                double update) const;
  /// Of a column of `worker`, from clocks below `below`.
  [[nodiscard]] double weighted_sum(std::uint32_t table, std::uint64_t key, std::uint32_t worker,
                                    std::uint32_t copy, consistency::Clock below) const;
  [[nodiscard]] double ordered_sum(std::uint32_t table, std::uint64_t key, consistency::Clock below) const;

  const std::vector<TableShape> shapes_;
  const std::uint32_t workers_;
  std::vector<Table> tables_;
  bool expects_losses_ = false;
  std::vector<consistency::Clock> finished_;  ///< by worker: clocks below it may be seen by others
  std::vector<consistency::Clock> clocks_;    ///< by worker: at which it computes
  /// [worker][clock − 1]: what clocks_ was when the worker began to begin that clock.
  std::vector<std::vector<std::vector<consistency::Clock>>> clocks_known_;
  std::vector<std::map<consistency::Clock, consistency::ExampleCounts>> examples_;  ///< by worker
  std::uint64_t numbers_checked_ = 0;
};

}  // namespace verbena::simulation
