// Work that is done in a thread of its own while the caller goes on: one piece at a time.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "absl/status/status.h"

namespace verbena::base {

/// Thread safety: all calls come from one thread, its owner's.
class Errand {
 public:
  Errand() = default;
  /// Waits for the work to end.
  ~Errand();
  Errand(const Errand&) = delete;
  Errand& operator=(const Errand&) = delete;

  /// Begins `work`. What it throws becomes its status; if there is no thread for it, it ends at once with
  /// RESOURCE_EXHAUSTED. `wake`, if given, is called when it has ended, in its thread. REQUIRES: not
  /// is_under_way().
  void begin(std::function<absl::Status()> work, std::function<void()> wake = {});
  /// It has begun, and take() has not been called since.
  [[nodiscard]] bool is_under_way() const { return is_under_way_; }
  [[nodiscard]] bool has_ended() const { return has_ended_.load(std::memory_order_acquire); }
  /// How it has ended. REQUIRES: is_under_way() && has_ended()
  absl::Status take();

 private:
  std::thread thread_;
  bool is_under_way_ = false;
  absl::Status status_;  ///< the work's, once it has ended
  /// Release: who sees it sees all that the work has done.
  std::atomic<bool> has_ended_ = false;
};

}  // namespace verbena::base
