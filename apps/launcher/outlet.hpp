// Where a worker or server process says what it has to say: to the launcher, or to people.
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
  /// Polls as broken when nobody listens any more; -1 if that cannot happen.
  [[nodiscard]] virtual int descriptor() const { return -1; }
};

/// To the launcher, through a pipe whose writing end is `descriptor`.
class PipeOutlet : public Outlet {
 public:
  explicit PipeOutlet(int descriptor) : descriptor_(descriptor) {}
  void send(const job::ChildMessage& message) override;
  [[nodiscard]] int descriptor() const override { return descriptor_; }

 private:
  const int descriptor_;
  absl::Mutex mutex_;  // a line is written in one piece
};

/// To people: what the workers of this process do. Objectives are those of their part of the data.
class ConsoleOutlet : public Outlet {
 public:
  /// `settings` have the process that it is.
  ConsoleOutlet(RunSettings settings, RunRecord::Objectives objectives);
  /// A line about this process.
  void note(std::string_view text);
  void send(const job::ChildMessage& message) override;
  /// The summary's table, to standard output.
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
