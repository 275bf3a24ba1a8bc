// Where weights and factors live while they are trained: in tables of the parameter server for a worker, in
// this process for the plain loop. Both take the same steps of the same update rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/ctr/model.hpp"
#include "apps/data/score_histogram.hpp"
#include "apps/training_watch.hpp"
#include "base/return_if_error.hpp"
#include "protocol/admission.hpp"
#include "protocol/eviction.hpp"
#include "protocol/filter_rule.hpp"
#include "protocol/initial_values.hpp"
#include "protocol/push_encoding.hpp"
#include "protocol/update_rule.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::apps::ctr {

/// How parameters are trained. The texts are those of TableOptions.
struct Rules {
  std::string weights;                                   ///< update rule of the weights, which begin as zeros
  std::string factors;                                   ///< update rule of the factors
  std::string initial_factors;                           ///< what factors begin as
  std::uint32_t rank = 0;                                ///< factors of a feature; 0: none
  std::uint64_t seed = 1;                                ///< of the factors
  std::string weight_admission{protocol::kAdmitAlways};  ///< when a feature gets a weight
  std::string factor_admission{protocol::kAdmitAlways};  ///< when it gets factors
  std::string eviction{protocol::kEvictNever};           ///< when a feature loses both again
  std::string filter{protocol::kNoFilter};               ///< which gradients are kept back
  std::string encoding{protocol::kUsualEncoding};        ///< of gradients
};

/// Sets to zero the factors of features that have never been trained: they would only add noise to a
/// prediction.
void zero_untrained(const protocol::InitialValues& initial_factors, std::span<const Key> keys,
                    std::size_t rank, std::vector<float>& factors);

/// However they are trained.
class Parameters {
 public:
  virtual ~Parameters() = default;
  /// The parameters of these keys; the factors only if the machine has any.
  virtual absl::Status read(std::span<const Key> keys, Numbers& parameters) = 0;
  /// Training goes on from these parameters: those whose weight, or one of whose factors, is not 0. Called by
  /// all workers equally often, each with keys of its own, perhaps none, before the first step.
  virtual absl::Status start_from(std::span<const Key> keys, const Numbers& parameters) = 0;
  /// Called around the computing of a mini-batch of so many examples.
  virtual void computing_begins() {}
  virtual void computing_ends(std::uint64_t /*examples*/) {}
  /// This worker has finished a mini-batch.
  virtual absl::Status clock() = 0;
  /// Afterwards reads see the steps of all workers, until the next barrier.
  virtual absl::Status barrier() = 0;
  /// See Session::is_catching_up(): nothing need be trained or scored.
  [[nodiscard]] virtual bool is_catching_up() const { return false; }
  /// Adds up the counts of all workers; the first worker's histogram then has them. All workers must call it.
  virtual absl::Status merge(ScoreHistogram& scores) = 0;
  /// Calls use(key, weight, factors) for each key that has parameters. The bias has no factors that mean
  /// anything.
  virtual absl::Status for_each(absl::FunctionRef<absl::Status(Key, float, std::span<const float>)> use) = 0;
  /// What the servers' tables take, by name; none without servers.
  using MemoryOfTables = std::vector<std::pair<std::string, TableMemory>>;
  virtual absl::StatusOr<MemoryOfTables> memory() { return MemoryOfTables{}; }
};

/// Those that are trained by mini-batches.
class StreamedParameters : public Parameters {
 public:
  /// Takes a step along the gradients. REQUIRES: the keys are those of the read before.
  virtual absl::Status step(std::span<const Key> keys, const Numbers& gradients) = 0;
};

/// Where the workers' score histograms are added up.
class ScoreTable {
 public:
  /// Collective, before the first merge of any worker.
  static absl::StatusOr<ScoreTable> open(Session& session);
  /// As Parameters::merge().
  absl::Status merge(Session& session, ScoreHistogram& scores);

 private:
  Table<std::int64_t> table_;  ///< counts of the histograms that are being merged; otherwise zeros
};

/// What parameters of a job have in common, however they are trained. `Kind`: what they are.
template <class Kind>
class InTables : public Kind {
 public:
  void computing_begins() override { watch_.computing_begins(); }
  void computing_ends(std::uint64_t examples) override { watch_.computing_ends(examples); }
  absl::Status clock() override {
    watch_.clock_ends();
    return session_.clock();
  }
  absl::Status barrier() override { return session_.barrier(); }
  [[nodiscard]] bool is_catching_up() const override { return session_.is_catching_up(); }
  absl::Status merge(ScoreHistogram& scores) override { return scores_.merge(session_, scores); }

 protected:
  InTables(Session& session, TrainingWatch& watch) : session_(session), watch_(watch) {}
  absl::Status open_scores() {
    absl::StatusOr<ScoreTable> scores = ScoreTable::open(session_);
    if (!scores.ok()) return scores.status();
    scores_ = *std::move(scores);
    return absl::OkStatus();
  }

  Session& session_;

 private:
  TrainingWatch& watch_;
  ScoreTable scores_;
};

class TableParameters final : public InTables<StreamedParameters> {
 public:
  /// Opens the tables, with that model of consistency. `session` and `watch` must outlive it.
  static absl::StatusOr<TableParameters> open(Session& session, const ConsistencyModel& consistency,
                                              const Rules& rules, TrainingWatch& watch);

  absl::Status read(std::span<const Key> keys, Numbers& parameters) override;
  absl::Status step(std::span<const Key> keys, const Numbers& gradients) override;
  absl::Status start_from(std::span<const Key> keys, const Numbers& parameters) override;
  absl::Status for_each(absl::FunctionRef<absl::Status(Key, float, std::span<const float>)> use) override;
  absl::StatusOr<MemoryOfTables> memory() override;

 private:
  using InTables::InTables;

  Table<float> weights_;
  std::optional<Table<float>> factors_;
  protocol::InitialValues initial_factors_;
};

/// A table of the plain loop: rows found by a hash table.
class LocalTable {
 public:
  /// REQUIRES: the texts are right.
  LocalTable(const std::string& rule, const std::string& initial, std::uint64_t seed, std::uint32_t width,
             const std::string& admission);

  /// The rows of these keys, [keys, width]. Those that there are not have the initial values.
  void read(std::span<const Key> keys, std::span<float> values);
  /// One step for each of the keys, those of the last read().
  void step(std::span<const Key> keys, std::span<const float> gradients);
  void set(Key key, std::span<const float> values);
  /// No step has changed the row.
  [[nodiscard]] bool is_initial(Key key) const;
  void set_clock(std::int64_t clock) {
    clock_ = clock;
    rule_.set_clock(clock);
  }
  /// The row's values; empty: there is none.
  [[nodiscard]] std::span<const float> row(Key key) const;
  [[nodiscard]] const absl::flat_hash_map<Key, std::uint32_t>& rows() const { return row_of_; }

 private:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  std::uint32_t add(Key key);
  [[nodiscard]] float* values_of(std::uint32_t row) { return &values_[std::size_t{row} * width_]; }

  protocol::UpdateRule rule_;
  const protocol::InitialValues initial_;
  const std::uint32_t width_;
  const std::size_t state_words_;
  absl::flat_hash_map<Key, std::uint32_t> row_of_;
  std::vector<float> values_;
  std::vector<double> states_;        ///< what the rule keeps, by row
  std::vector<std::uint32_t> found_;  ///< the rows of the last read; kNone: there was none
  protocol::Admission admission_;
  std::int64_t clock_ = 0;
};

class LocalParameters final : public StreamedParameters {
 public:
  explicit LocalParameters(const Rules& rules);

  absl::Status read(std::span<const Key> keys, Numbers& parameters) override;
  absl::Status step(std::span<const Key> keys, const Numbers& gradients) override;
  absl::Status start_from(std::span<const Key> keys, const Numbers& parameters) override;
  absl::Status clock() override;
  absl::Status barrier() override { return clock(); }
  absl::Status merge(ScoreHistogram& /*scores*/) override {
    RETURN_IF_ERROR(barrier());
    return barrier();
  }
  absl::Status for_each(absl::FunctionRef<absl::Status(Key, float, std::span<const float>)> use) override;

 private:
  /// As that of a single worker, whose barriers end clocks, too: by chance, the same features get rows.
  std::int64_t clock_ = 0;
  LocalTable weights_;
  std::optional<LocalTable> factors_;
  std::vector<float> no_factors_;  ///< zeros, of a feature without factors
};

}  // namespace verbena::apps::ctr
