// An operation of a dynamic table: a pull, a push, or a move of rows to this worker's node.
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
  /// One step of this operation alone. Returns true when it has ended.
  virtual bool do_own() = 0;
  /// Returns true if the row is lost; then the operation ends with this error.
  bool note_if_lost(Key key);

  MovingRows& rows_;
  /// There is nothing to do until MovingRows::generation differs from this. 0, which generation never is:
  /// look again at the next poll.
  std::uint64_t seen_generation_ = 0;
};

}  // namespace verbena::worker
