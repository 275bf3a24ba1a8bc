// Signals that ask a process to end, as a descriptor to poll.
#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>

namespace verbena::apps {

/// Blocks the signals in this thread and in those that it starts later; restores the mask when it goes.
class StopSignals {
 public:
  explicit StopSignals(std::initializer_list<int> signals);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// The next one that has arrived.
  std::optional<int> take();

 private:
  sigset_t before_ = {};
  int descriptor_ = -1;
};

}  // namespace verbena::apps
