// What surrounds a session and is not part of it: the process that started this one and listens to its
// reports, and possibly a server of the worker's own.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include <verbena/session.hpp>

namespace verbena::worker {

/// Outlives the session. Thread safety: as the session.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

  /// `statistics`: counts what the session has done so far.
  virtual void on_iteration(const IterationReport& report,
                            absl::FunctionRef<SessionStatistics()> statistics) = 0;
  /// The session's user gives up. `is_cause`: the session itself could go on.
  virtual void on_given_up(const absl::Status& why, bool is_cause) = 0;
  /// The session is about to say goodbye; `status` is its own.
  virtual void on_end(const absl::Status& status, const SessionStatistics& statistics) = 0;

 protected:
  Surroundings() = default;
};

}  // namespace verbena::worker
