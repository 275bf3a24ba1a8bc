// Finds out, for a server that has inherited the keys of a dead home, who owns the rows of these keys: asks
// all servers that are left, and passes on what they say (docs/decisions/0065-homes-fail-over.md).
#pragma once

#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "protocol/messages.hpp"
#include "worker/moving/moving_operation.hpp"

namespace verbena::worker {

class HomeCensus final : public MovingOperation {
 public:
  /// `heir` wants it. One census of a table is made at a time: the first of MovingRows::censuses.
  HomeCensus(MovingRows& rows, const protocol::Census& census, ServerLink& heir);

  /// Others wait for it, and this worker's own moves may, too.
  [[nodiscard]] bool must_end_before(Milestone milestone) const override {
    return milestone == Milestone::kLeaving;
  }
  void on_dead_server(std::uint32_t server) override { open_[server] = 0; }
  absl::Status on_answer(const ServerLink& link, const protocol::KeyAnswers::Answer& answer);

 private:
  bool do_own() override;
  /// Nobody wants it any more: the heir is gone, or this worker must say nothing more.
  [[nodiscard]] bool is_in_vain() const;
  /// True if all have been asked.
  bool ask();
  /// True if all has been passed on.
  bool pass_on();
  [[nodiscard]] bool waits_for_answers() const;

  const protocol::Census census_;
  ServerLink& heir_;
  const KeyRange range_;
  std::uint32_t asked_ = 0;        ///< the server that is asked now; those before it have been
  Key next_;                       ///< from which key on it is to be asked
  std::vector<std::size_t> open_;  ///< by server: how many answers it owes
  std::deque<protocol::KeyAnswers::Answer> found_;  ///< that have not been passed on
};

}  // namespace verbena::worker
