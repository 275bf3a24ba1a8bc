// Signals that ask a process to end, as a descriptor to poll.
#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>

namespace verbena::apps {

/// Blocks the signals in this thread and in threads that it starts later. The destructor restores the mask.
class StopSignals {
 public:
  explicit StopSignals(std::initializer_list<int> signals);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// Returns the next signal that has arrived, if any.
  std::optional<int> take();

 private:
  sigset_t before_ = {};
  int descriptor_ = -1;
};

}  // namespace verbena::apps
