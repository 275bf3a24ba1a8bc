// How many clocks a worker may be ahead of the slowest one (Session::limit_lead()), where all workers share
// memory with server 0: they look at one another's clocks there (protocol/clock_board.hpp).
//
// Thread safety: none; belongs to its session.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "consistency/rules.hpp"
#include "protocol/clock_board.hpp"
#include "transport/transport.hpp"

namespace verbena::worker {

class Lead {
 public:
  /// The board that server 0 has granted. From now on others see there that this worker uses it. Not called
  /// where the board cannot be mapped.
  /// `clock`: of this worker.
  void set_board(const protocol::ClockBoard& board, std::uint32_t worker, consistency::Clock clock);
  /// There is none any more. REQUIRES: !is_limited()
  void forget_board() { board_ = {}; }

  /// REQUIRES: all workers have joined, and told their clocks. Returns false if not all of them use the
  /// board: then nothing is limited. All workers get the same answer.
  [[nodiscard]] bool limit(std::uint32_t clocks);
  [[nodiscard]] bool is_limited() const { return most_.has_value(); }

  /// This worker's clock has begun; the updates that it has made before are where others look for them.
  void tell(consistency::Clock clock);
  /// Whether this worker, at that clock, is few enough clocks ahead.
  [[nodiscard]] bool is_kept(consistency::Clock clock) const {
    return !most_ || board_.all_at(clock - *most_);
  }
  /// For messages.
  [[nodiscard]] std::string slowest() const;
  /// Returns when is_kept(), or before. `waited`: how long this worker has waited for it already.
  void wait(consistency::Clock clock, transport::Transport& transport, transport::Duration waited) const;

 private:
  protocol::ClockBoard board_;
  std::uint32_t worker_ = 0;
  std::optional<std::uint32_t> most_;
};

}  // namespace verbena::worker
