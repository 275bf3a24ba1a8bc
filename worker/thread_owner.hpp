// To which thread a session belongs. Asked by every call, so it costs a comparison of two numbers, not a
// system call. A child that fork() makes of the thread is another.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace verbena::worker {

class ThreadOwner {
 public:
  /// The calling thread.
  ThreadOwner() { take_over(); }

  [[nodiscard]] bool is_this_thread() const { return owner_ == here; }
  /// False in a child that fork() has made of it: what threads, connections and shared memory the session has
  /// are the parent's.
  [[nodiscard]] bool is_this_process() const;
  /// From now on it is the calling thread. REQUIRES: what the one before has done happens before this call.
  void take_over();
  /// FAILED_PRECONDITION that names both threads, of a call by one that is not the owner. `whose` begins the
  /// message.
  [[nodiscard]] absl::Status refuse(std::string_view whose) const;

 private:
  /// Another in each thread that lives and has asked for it; 0: it has not. Small, so that the little room
  /// that a library loaded late has of this fastest kind suffices.
  [[gnu::tls_model("initial-exec")]] static constinit inline thread_local std::uint64_t here = 0;
  static std::uint64_t next_number();
  static void become_child();

  std::uint64_t owner_ = 0;
  pid_t process_ = 0;
  pid_t number_ = 0;  ///< the owner's, as the system shows it
  std::string name_;
};

}  // namespace verbena::worker
