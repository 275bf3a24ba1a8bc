// The time of targets that run over a simulated network in one thread.
#pragma once

#include <algorithm>
#include <chrono>

#include "apps/simulation/network.hpp"

namespace verbena::fuzz {

/// Advances a little with each call of the network, and to the end of a wait at once.
class VirtualTime final : public simulation::Pacer {
 public:
  [[nodiscard]] transport::TimePoint now() const override { return now_; }
  void step(simulation::TaskId /*task*/) override { now_ += std::chrono::microseconds(5); }
  void block(simulation::TaskId /*task*/, transport::TimePoint until) override {
    now_ = std::max(now_, until);
  }
  void wake(simulation::TaskId /*task*/) override {}

 private:
  transport::TimePoint now_;
};

}  // namespace verbena::fuzz
