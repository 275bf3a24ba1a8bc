// Signals that ask a process to end, as a descriptor to poll.
#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>

namespace verbena::apps {

/// What the launcher sends to the processes of a run that is to be saved before it ends. A terminal or a
/// batch system sends its signals to all processes of the run at once: so these ignore them, and the launcher
/// alone decides.
inline constexpr int kSaveSignal = SIGUSR1;  ///< save, and then end
inline constexpr int kEndSignal = SIGUSR2;   ///< end now

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
