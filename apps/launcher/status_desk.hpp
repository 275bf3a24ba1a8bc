// Tells whoever looks into a job on several hosts how it is, on the host of its rank 0. A run on one host is
// told of by its launcher.
#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "apps/launcher/run_store.hpp"
#include "apps/report/run_status.hpp"
#include "job/run_secret.hpp"

namespace verbena::apps {

/// Thread safety: belongs to one thread at a time.
class StatusDesk {
 public:
  /// `checkpoints`: the folder that they are made in; empty: none are made. Errors: RunSecret::make(),
  /// RunStore::listen().
  static absl::StatusOr<std::unique_ptr<StatusDesk>> open(const std::string& checkpoints);

  void add_descriptors(std::vector<pollfd>& wanted) const { store_.add_descriptors(wanted); }
  /// Answers those who ask; never waits for them. Call it at least each second. `status`: of this moment.
  void serve(absl::FunctionRef<RunStatus()> status);

 private:
  StatusDesk(job::RunSecret secret, std::string checkpoints)
      : secret_(std::move(secret)), checkpoints_(std::move(checkpoints)) {}

  const job::RunSecret secret_;  ///< its file goes with it
  const std::string checkpoints_;
  RunStore store_;
  std::chrono::steady_clock::time_point next_status_;
};

}  // namespace verbena::apps
