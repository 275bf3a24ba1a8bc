// After which iteration the workers of a job over several hosts end that is asked to stop, as seen from one
// process. Rank 0 decides (JointStop). It tells all processes to hold: from then on no worker begins another
// iteration, and each process answers which ones its workers have begun. All end after the largest of these.
//
// So workers wait at the end of an iteration, where others may need them: but only for the answers, which are
// given by threads that do not train, and never for other workers: docs/decisions/0068-saved-on-a-signal.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace verbena::apps {

/// Thread safety: any thread may call; each worker belongs to a thread.
class StopGate {
 public:
  /// What a process answers.
  struct Begun {
    std::int64_t iteration = 0;  ///< the largest that any of its workers has begun; 0: none has begun one
    bool has_finished = false;   ///< one of them has trained to the end
  };
  /// Longer than rank 0 needs to decide, or to find that it cannot.
  static constexpr std::chrono::seconds kPatience{30};

  /// `answer`: called once after hold(), by its thread or by a worker's. `is_late`: the process takes the
  /// place of one that may have begun more than this one knows of.
  StopGate(std::uint32_t workers, bool is_late, std::function<void(const Begun&)> answer,
           std::chrono::milliseconds patience = kPatience);

  // A worker, by its number in the process.

  /// It begins with this iteration. `is_catching_up`: as Session has it.
  void begin(std::uint32_t worker, std::int64_t iteration, bool is_catching_up) ABSL_LOCKS_EXCLUDED(mutex_);
  enum class Turn : std::uint8_t { kGoesOn, kEnds, kWaits };
  /// It has finished `iteration`, and is not catching up. kWaits: it must not begin another one before it has
  /// asked again. INTERNAL: all are to end after one that lies before this one.
  absl::StatusOr<Turn> ask(std::uint32_t worker, std::int64_t iteration, bool is_last)
      ABSL_LOCKS_EXCLUDED(mutex_);
  /// As ask(), but waits; whether the worker ends. CANCELLED: give_up() was called. DEADLINE_EXCEEDED: rank 0
  /// does not decide.
  absl::StatusOr<bool> ends_after(std::uint32_t worker, std::int64_t iteration, bool is_last)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Who hears rank 0.

  /// Nobody begins another iteration until rank 0 has decided. `signal`: because of which.
  void hold(int signal) ABSL_LOCKS_EXCLUDED(mutex_);
  /// All end after this one.
  void end_after(std::int64_t iteration) ABSL_LOCKS_EXCLUDED(mutex_);
  /// It is too late for that: all go on to the end.
  void release() ABSL_LOCKS_EXCLUDED(mutex_);
  /// Ends the waits of all workers.
  void give_up() ABSL_LOCKS_EXCLUDED(mutex_);

  /// It was told to hold, and not released.
  [[nodiscard]] bool is_held() const ABSL_LOCKS_EXCLUDED(mutex_);
  /// The signal because of which a worker has ended; 0: none has.
  [[nodiscard]] int ended_by() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Place {
    std::optional<std::int64_t> begun;  ///< nullopt: it is not where the one before it was
    bool has_finished = false;
  };

  absl::StatusOr<Turn> turn_of(Place& place, std::int64_t iteration, bool is_last)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void answer_if_due() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::function<void(const Begun&)> answer_;
  const std::chrono::milliseconds patience_;
  mutable absl::Mutex mutex_;
  std::vector<Place> places_ ABSL_GUARDED_BY(mutex_);
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;  ///< of hold(); 0: it was not called
  bool has_answered_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_released_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_given_up_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;  ///< a worker
  std::optional<std::int64_t> after_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace verbena::apps
