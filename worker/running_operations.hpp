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
  /// Takes the first step; keeps it if it has not ended. `session`: its status; a session that has failed is
  /// the operation's end, too.
  void start(std::shared_ptr<Operation> operation, const absl::Status& session);
  /// A step of each, in the order of their start. True if there may be more to do at once.
  bool step(const absl::Status& session);
  void on_dead_server(std::uint32_t server);

  /// The oldest of which `concerned` says so; nullptr: none.
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
