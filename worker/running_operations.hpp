// The operations under way in a session.
#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>

#include "absl/status/status.h"
#include "worker/operation.hpp"

namespace verbena::worker {

/// Thread safety: none; belongs to its session.
class RunningOperations {
 public:
  /// Steps the operation once, and keeps it if it has not ended. `session`: the session's status. If the
  /// session has failed, the operation ends, too.
  void start(std::shared_ptr<Operation> operation, const absl::Status& session);
  /// Steps each operation, in the order in which they were started. Returns true if there may be more to do
  /// at once.
  bool step(const absl::Status& session);
  void on_dead_server(std::uint32_t server);
  void on_lost_server(const ServerLink& link) {
    for (const std::shared_ptr<Operation>& operation : running_) {
      operation->reads.forget(link);
      operation->on_lost_server(link);
    }
  }

  /// The oldest operation for which `concerned` returns true; nullptr if there is none.
  template <class Concerned>
  [[nodiscard]] std::shared_ptr<Operation> oldest(const Concerned& concerned) const {
    const auto found = std::find_if(running_.begin(), running_.end(),
                                    [&](const auto& operation) { return concerned(*operation); });
    return found == running_.end() ? nullptr : *found;
  }

 private:
  std::list<std::shared_ptr<Operation>> running_;
};

}  // namespace verbena::worker
