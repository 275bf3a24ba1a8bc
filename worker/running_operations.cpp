#include "worker/running_operations.hpp"

#include <utility>

namespace verbena::worker {
namespace {

void end_with_session(Operation& operation, const absl::Status& session) {
  operation.status = session;
  operation.ended = true;
}

}  // namespace

void RunningOperations::start(std::shared_ptr<Operation> operation, const absl::Status& session) {
  // Tables still refer to operations that have ended with the session; no other operation may look at those.
  if (!session.ok()) return end_with_session(*operation, session);
  if (operation->step()) return;
  running_.push_back(std::move(operation));
}

bool RunningOperations::step(const absl::Status& session) {
  bool ended = false;
  for (auto it = running_.begin(); it != running_.end();) {
    Operation& operation = **it;
    if (!session.ok()) {
      end_with_session(operation, session);
    } else if (!operation.step()) {
      ended |= operation.step_again;
      ++it;
      continue;
    }
    it = running_.erase(it);
    ended = true;
  }
  return ended;
}

void RunningOperations::on_dead_server(std::uint32_t server) {
  for (const std::shared_ptr<Operation>& operation : running_) operation->on_dead_server(server);
}

}  // namespace verbena::worker
