// The promise of each model as a workload that checks its own reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/return_if_error.hpp"
#include "tests/cluster/cluster.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace verbena::testing {

inline absl::Status wrong(const std::string& what) {
  return absl::InternalError(what);
}

/// A table of so many rows, for tests that do the same with keys of both kinds.
class TestRows {
 public:
  TestRows(KeySpace key_space, std::uint64_t rows);
  /// Describes the table: name, keys and rows.
  [[nodiscard]] TableOptions options(std::string name) const;
  /// The key of a row that the test counts from 0.
  [[nodiscard]] Key key(std::uint64_t row) const { return keys_[row]; }
  [[nodiscard]] std::vector<Key> keys(std::span<const std::uint64_t> rows) const;
  [[nodiscard]] std::span<const Key> all() const { return keys_; }
  /// All keys, as a range if they are one.
  [[nodiscard]] Keys everything() const;

 private:
  KeySpace key_space_;
  std::vector<Key> keys_;
};

/// Works for `clocks` clocks as this worker of the job. Checks what each pull must and may see under `model`
/// (of the worker's own updates exactly all), and at the end that each update of each worker is there once.
/// Returns INTERNAL with what was seen if it is wrong. `within_clocks`: others' updates may come before their
/// clock has ended.
absl::Status check_reads(Session& session, const ConsistencyModel& model, std::int64_t clocks,
                         bool within_clocks = false, KeySpace key_space = KeySpace::kDense);

/// Under BSP all workers push to the same rows. Each checks that the sums are, bit for bit, those of one
/// process that adds the updates clock by clock and worker by worker.
absl::Status check_sequential(Session& session, std::int64_t clocks, KeySpace key_space = KeySpace::kDense);

/// For a table that begins with zeros and has a column for each worker: each worker counts in its own column.
class OwnCounts {
 public:
  /// `rows`: keys are below; 0: the table says how many.
  OwnCounts(const Session& session, Table<std::int64_t>& table, std::uint64_t rows = 0);
  /// Returns updates that add 1 at each of the keys. The caller must push them.
  std::vector<std::int64_t> count(std::span<const Key> keys);
  /// Pulls the keys. Checks that this worker sees its own counts exactly, and that those of others never go
  /// back.
  absl::Status check(std::span<const Key> keys);
  /// Checks that each update of this worker is there once. REQUIRES: all workers have pushed theirs.
  absl::Status check_all();

 private:
  Table<std::int64_t>& table_;
  const std::uint32_t me_;
  std::vector<std::int64_t> pushed_;  ///< by key
  std::vector<std::int64_t> seen_;    ///< by key and worker
};

/// After a job whose worker `name` has gone: checks that each worker was told that the job is over, and
/// worker 0 also who has gone.
absl::Status check_end_by_name(const ClusterResult& result, std::string_view name);

}  // namespace verbena::testing
