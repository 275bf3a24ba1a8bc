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
  /// `board`: as server 0 has granted it; not mapped if this worker is on another host.
  void set_board(const protocol::ClockBoard& board, std::uint32_t worker);

  /// From now on the others see this worker's clock, if they share the board with it.
  void use(consistency::Clock clock);
  /// REQUIRES: all workers have called use(). Returns false if not all of them share the board: then nothing
  /// is limited.
  [[nodiscard]] bool limit(std::uint32_t clocks);

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
  bool is_used_ = false;
  std::optional<std::uint32_t> most_;
};

}  // namespace verbena::worker
