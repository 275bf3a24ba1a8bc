#include "worker/lead.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace verbena::worker {
namespace {

// A worker first looks at the board all the time: a block of a small data set takes some ten microseconds,
// and waking a thread takes longer. In between, others may have this thread's processor.
constexpr int kTurns = 1000;
constexpr int kLooksATurn = 32;
// After that it sleeps for a part of the time that it has waited already, so that it is late by that part at
// most. Workers that wait for long must not take the processors from those they wait for.
constexpr int kPartOfWait = 8;
constexpr transport::Duration kShortestSleep = std::chrono::microseconds(50);
constexpr transport::Duration kLongestSleep = std::chrono::milliseconds(2);

}  // namespace

void Lead::set_board(const protocol::ClockBoard& board, std::uint32_t worker) {
  board_ = board;
  worker_ = worker;
}

void Lead::use(consistency::Clock clock) {
  is_used_ = board_.is_mapped();
  tell(clock);
}

bool Lead::limit(std::uint32_t clocks) {
  if (!is_used_ || !board_.is_used_by_all()) return false;
  most_ = std::min(clocks, most_.value_or(clocks));
  return true;
}

void Lead::tell(consistency::Clock clock) {
  if (is_used_) board_.tell(worker_, clock);
}

std::string Lead::slowest() const {
  const protocol::ClockBoard::Place slowest = board_.slowest();
  return fmt::format("worker {} is at clock {}", slowest.worker, slowest.clock);
}

void Lead::wait(consistency::Clock clock, transport::Transport& transport, transport::Duration waited) const {
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int look = 0; look < kLooksATurn; ++look) {
      if (is_kept(clock)) return;
    }
    std::this_thread::yield();
  }
  transport.wait(transport.now() + std::clamp(waited / kPartOfWait, kShortestSleep, kLongestSleep));
}

}  // namespace verbena::worker
