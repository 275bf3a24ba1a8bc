// What a process says and hears at a rendezvous over a network, and the thread that carries it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/meeting/hearing.hpp"
#include "job/meeting/role.hpp"
#include "job/meeting/shared_end.hpp"
#include "job/rendezvous.hpp"
#include "transport/transport.hpp"

namespace verbena::job {

/// Its thread alone uses the transport; what it shares with others (the role, what is heard) is under the
/// lock. Thread safety: any thread may call, but for start() and leave(). No call may come from the role.
class Talk {
 public:
  using Stopped = Rendezvous::Stopped;

  /// All must outlive it. `size`: of the job at its beginning.
  Talk(std::uint32_t size, transport::Transport& transport, MeetingRole& role, Hearing& hearing,
       SharedEnd& end)
      : size_(size), transport_(transport), role_(role), hearing_(hearing), end_(end) {}

  void start();
  /// Says goodbye, and ends the thread. To be called once it has been started, before the object goes.
  void leave();

  void say(std::string_view words);
  /// Waits until what was said has left, for a short time.
  void wait_until_said();
  /// As Rendezvous::fence().
  absl::Status fence(std::chrono::milliseconds patience, const Stopped& stopped);
  /// The rank that rank 0 gives to one that joins. Errors as of fence().
  absl::StatusOr<std::uint32_t> wait_for_place(std::chrono::milliseconds patience, const Stopped& stopped);

  /// The thread calls it soon, with the lock held, in the order in which it was asked.
  void ask(std::function<void()> errand);
  /// Calls it at once, with the lock held.
  template <class Call>
  auto with_lock(Call call) {
    const std::lock_guard lock(mutex_);
    return call();
  }

 private:
  void run();
  /// Until `done`, or until nothing can come any more. DEADLINE_EXCEEDED without a message; CANCELLED when
  /// stopped.
  absl::Status wait(std::unique_lock<std::mutex>& lock, transport::TimePoint deadline, const Stopped& stopped,
                    const std::function<bool()>& done);

  const std::uint32_t size_;
  transport::Transport& transport_;
  MeetingRole& role_;
  Hearing& hearing_;
  SharedEnd& end_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::function<void()>> errands_;
  std::string words_;  ///< that this process has said and the thread has not taken
  bool has_said_all_ = true;
  std::uint64_t fences_begun_ = 0;
  std::thread thread_;
};

}  // namespace verbena::job
