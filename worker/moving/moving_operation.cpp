#include "worker/moving/moving_operation.hpp"

#include "worker/moving/moving_rows.hpp"

namespace verbena::worker {

bool MovingOperation::advance() {
  step_again = false;
  awaited = nullptr;
  const std::uint64_t generation_before = rows_.generation;
  const bool has_ended = do_own();
  rows_.send_requests();
  rows_.intents.give_up();
  rows_.replication.begin_refreshes();
  // What has just changed may be what this operation, or another one, waits for.
  if (!has_ended && rows_.generation != generation_before) step_again = true;
  return has_ended;
}

bool MovingOperation::note_if_lost(Key key) {
  const absl::Status* const why = rows_.lost(key);
  if (why == nullptr) return false;
  if (status.ok()) status = *why;
  return true;
}

}  // namespace verbena::worker
