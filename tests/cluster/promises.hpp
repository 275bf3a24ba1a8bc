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

/// Works for `clocks` clocks as this worker of the job and checks what each pull must and may see under
/// `model`, the worker's own updates exactly, and at the end that every update of every worker is there once.
/// INTERNAL says what was seen. `within_clocks`: others' updates may come before their clock has ended.
absl::Status check_reads(Session& session, const ConsistencyModel& model, std::int64_t clocks,
                         bool within_clocks = false);

/// Under BSP all workers push to the same rows, and each checks that the sums are those, bit for bit, of one
/// process that adds clock by clock, worker by worker.
absl::Status check_sequential(Session& session, std::int64_t clocks);

/// Of a table of zeros as wide as there are workers: each counts in a column of its own.
class OwnCounts {
 public:
  OwnCounts(const Session& session, Table<std::int64_t>& table);
  /// One more at each of the keys; to be pushed.
  std::vector<std::int64_t> count(std::span<const Key> keys);
  /// Pulls. This worker sees its own counts exactly, and those of others never go back.
  absl::Status check(std::span<const Key> keys);
  /// REQUIRES: all have pushed. Everything is there once.
  absl::Status check_all();

 private:
  Table<std::int64_t>& table_;
  const std::uint32_t me_;
  std::vector<std::int64_t> pushed_;  ///< by key
  std::vector<std::int64_t> seen_;    ///< by key and worker
};

/// After a job whose worker `name` has gone: each worker was told that it is over, and the first one by whom.
absl::Status check_end_by_name(const ClusterResult& result, std::string_view name);

}  // namespace verbena::testing
