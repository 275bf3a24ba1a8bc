// The promise of each model as a workload that checks its own reads.
#pragma once

#include <string>

#include "worker/session.hpp"

namespace verbena::testing {

#define RETURN_IF_ERROR(expression) \
  if (absl::Status status_ = (expression); !status_.ok()) return status_

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

}  // namespace verbena::testing
