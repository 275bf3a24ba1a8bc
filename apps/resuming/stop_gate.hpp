// After which iteration the workers of a job over several hosts end that is asked to stop, as seen from one
// process. Rank 0 decides (JointStop). It tells all processes to hold: from then on no worker begins another
// iteration, and each process answers which ones its workers have begun. All end after the largest of these.
//
// So workers wait at the end of an iteration, where others may need them: but only for the answers, which are
// given by threads that do not train, and never for other workers: docs/decisions/0068-saved-on-a-signal.md.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

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
  void begin(std::uint32_t worker, std::int64_t iteration, bool is_catching_up);
  enum class Turn : std::uint8_t { kGoesOn, kEnds, kWaits };
  /// It has finished `iteration`, and is not catching up. kWaits: it must not begin another one before it has
  /// asked again. INTERNAL: all are to end after one that lies before this one.
  absl::StatusOr<Turn> ask(std::uint32_t worker, std::int64_t iteration, bool is_last);
  /// As ask(), but waits; whether the worker ends. CANCELLED: give_up() was called. DEADLINE_EXCEEDED: rank 0
  /// does not decide.
  absl::StatusOr<bool> ends_after(std::uint32_t worker, std::int64_t iteration, bool is_last);

  // Who hears rank 0.

  /// Nobody begins another iteration until rank 0 has decided. `signal`: because of which.
  void hold(int signal);
  /// All end after this one.
  void end_after(std::int64_t iteration);
  /// It is too late for that: all go on to the end.
  void release();
  /// Another process is to be these workers, and begins with the iteration after that one: they come to its
  /// end whatever is decided, and that is what is answered from now on. False: they were told to hold.
  [[nodiscard]] bool let_another_go_on(std::int64_t after);
  /// Ends the waits of all workers.
  void give_up();

  /// It was told to hold, and not released.
  [[nodiscard]] bool is_held() const;
  /// The signal because of which a worker has ended; 0: none has.
  [[nodiscard]] int ended_by() const;

 private:
  struct Place {
    std::optional<std::int64_t> begun;  ///< nullopt: it is not where the one before it was
    bool has_finished = false;
  };

  /// Holding the mutex.
  absl::StatusOr<Turn> turn_of(Place& place, std::int64_t iteration, bool is_last);
  /// Not holding it.
  void answer_if_due();

  const std::function<void(const Begun&)> answer_;
  const std::chrono::milliseconds patience_;
  mutable std::mutex mutex_;  ///< of all that follows; not Abseil's, which the thread sanitizer does not see
  std::condition_variable decided_;  ///< after_, is_released_ or has_given_up_
  std::vector<Place> places_;
  int signal_ = 0;  ///< of hold(); 0: it was not called
  bool has_answered_ = false;
  bool is_released_ = false;
  bool has_given_up_ = false;
  bool has_ended_ = false;                  ///< a worker
  std::optional<std::int64_t> left_after_;  ///< another process goes on after that
  std::optional<std::int64_t> after_;
};

}  // namespace verbena::apps
