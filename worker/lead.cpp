#include "worker/lead.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace verbena::worker {
namespace {

// At first a worker looks at the board all the time: a block of a small data set takes some tens of
// microseconds, and waking a thread would add some ten. In between the worker yields its processor, and the
// session polls.
constexpr transport::Duration kEagerWait = std::chrono::microseconds(500);
constexpr transport::Duration kEagerTurn = std::chrono::microseconds(20);
constexpr int kLooksBetweenYields = 32;
constexpr int kMostEagerLooks = 200 * kLooksBetweenYields;  // more than a turn has, unless time stands still
// After that it sleeps for a part of the time that it has waited already, so that it is late by that part at
// most. Workers that wait for long must not take the processors from those they wait for.
constexpr int kPartOfWait = 8;
constexpr transport::Duration kLongestSleep = std::chrono::milliseconds(2);

}  // namespace

void Lead::set_board(const protocol::ClockBoard& board, std::uint32_t worker, consistency::Clock clock) {
  board_ = board;
  worker_ = worker;
  board_.tell(worker_, clock);
}

bool Lead::limit(std::uint32_t clocks) {
  if (!board_.is_mapped() || !board_.is_used_by_all()) return false;
  most_ = std::min(clocks, most_.value_or(clocks));
  return true;
}

void Lead::tell(consistency::Clock clock) {
  if (board_.is_mapped()) board_.tell(worker_, clock);
}

std::string Lead::slowest() const {
  const protocol::ClockBoard::Place slowest = board_.slowest();
  return fmt::format("worker {} is at clock {}", slowest.worker, slowest.clock);
}

void Lead::wait(consistency::Clock clock, transport::Transport& transport, transport::Duration waited) const {
  const transport::TimePoint end = transport.now() + kEagerTurn;
  for (int look = 1; waited < kEagerWait && look <= kMostEagerLooks; ++look) {
    if (is_kept(clock)) return;
    if (look % kLooksBetweenYields != 0) continue;
    std::this_thread::yield();
    if (transport.now() >= end) return;
  }
  // In a simulation, time goes on only here.
  transport.wait(transport.now() + std::clamp(waited / kPartOfWait, kEagerTurn, kLongestSleep));
}

}  // namespace verbena::worker
