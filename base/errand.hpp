// Work that is done beside its caller's, in a thread of its own: one piece at a time.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "absl/status/status.h"

namespace verbena::base {

/// Who does the work of errands: one that stands in (base/stand_in.hpp), or threads.
class ErrandRunner {
 public:
  /// Work that has begun. The destructor waits for it to end.
  class Run {
   public:
    virtual ~Run() = default;
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   protected:
    Run() = default;
  };

  virtual ~ErrandRunner() = default;
  /// Calls `work` once, beside the caller. It throws nothing.
  virtual std::unique_ptr<Run> begin(std::function<void()> work) = 0;
};

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
  bool is_under_way_ = false;
  absl::Status status_;  ///< the work's, once it has ended
  /// Release: who sees it sees all that the work has done.
  std::atomic<bool> has_ended_ = false;
  std::unique_ptr<ErrandRunner::Run> run_;  ///< the last member: it ends before what its work uses
};

}  // namespace verbena::base
