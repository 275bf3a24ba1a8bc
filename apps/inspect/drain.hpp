// Asks the launcher of a run on this host to let a process of a server step aside.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "apps/inspect/running_jobs.hpp"
#include "apps/report/drain_request.hpp"
#include "transport/secret.hpp"

namespace verbena::apps::inspect {

/// Returns when it has stepped aside, what has become of the run, for people. FAILED_PRECONDITION: it may
/// not; other errors: the launcher does not answer, or no process of this host has started the job.
absl::StatusOr<std::string> drain(const FoundJob& job, std::shared_ptr<const transport::Secret> secret,
                                  const DrainRequest& request, std::chrono::milliseconds patience);

}  // namespace verbena::apps::inspect
