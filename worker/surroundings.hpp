// What a session has around it that is not the session's: whoever has started the process and listens, and
// maybe a server of its own.
#pragma once

#include "absl/status/status.h"
#include <verbena/session.hpp>

namespace verbena::worker {

/// Ends after the session. Thread safety: as the session.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;

  virtual void on_iteration(const IterationReport& report) = 0;
  /// The session's user gives up. `is_cause`: the session itself could go on.
  virtual void on_given_up(const absl::Status& why, bool is_cause) = 0;
  /// The session is about to say goodbye; `status` is its own.
  virtual void on_end(const absl::Status& status, const SessionStatistics& statistics) = 0;

 protected:
  Surroundings() = default;
};

}  // namespace verbena::worker
