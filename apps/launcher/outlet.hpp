// Where a worker or server process reports to: the launcher, or people.
#pragma once

#include <chrono>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "apps/report/display.hpp"
#include "apps/report/run_record.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {

/// send() may be called from any thread.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void send(const job::ChildMessage& message) = 0;
  /// A descriptor that polls as broken when nobody listens any more; -1 if that cannot happen.
  [[nodiscard]] virtual int descriptor() const { return -1; }
};

/// Reports to the launcher, through a pipe; `descriptor` is its writing end.
class PipeOutlet : public Outlet {
 public:
  explicit PipeOutlet(int descriptor) : descriptor_(descriptor) {}
  void send(const job::ChildMessage& message) override;
  [[nodiscard]] int descriptor() const override { return descriptor_; }

 private:
  const int descriptor_;
  absl::Mutex mutex_;  // a line is written in one piece
};

/// Shows people what the workers of this process do. The objectives are for their part of the data only.
class ConsoleOutlet : public Outlet {
 public:
  /// `settings` name this process.
  ConsoleOutlet(RunSettings settings, RunRecord::Objectives objectives);
  /// Prints a line about this process.
  void note(std::string_view text);
  void send(const job::ChildMessage& message) override;
  /// Prints the summary's table on standard output.
  void finish();

 private:
  [[nodiscard]] double now() const;
  void handle(const job::ChildMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RunSettings settings_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  absl::Mutex mutex_;
  RunRecord record_ ABSL_GUARDED_BY(mutex_);
  Display display_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::apps
