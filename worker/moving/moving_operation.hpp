// What is under way of a table whose rows move: a pull, a push, rows on their way to this worker's node.
#pragma once

#include <cstdint>
#include <string>

#include "worker/operation.hpp"

namespace verbena::worker {

class MovingRows;

class MovingOperation : public Operation {
 public:
  MovingOperation(MovingRows& rows, const char* name) : Operation(name), rows_(rows) {}
  [[nodiscard]] std::string other_wait() const override {
    return "other workers to end moves of rows that it needs";
  }

 protected:
  bool advance() final;
  /// One step of it alone: true when it has ended.
  virtual bool do_own() = 0;
  /// True if the row is lost, which is how the operation ends then.
  bool note_if_lost(Key key);

  MovingRows& rows_;
  /// There is nothing to do until MovingRows::generation is another. 0, which it never is: look again at the
  /// next poll.
  std::uint64_t seen_generation_ = 0;
};

}  // namespace verbena::worker
