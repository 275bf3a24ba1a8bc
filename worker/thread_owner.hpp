// The thread to which a session belongs. Every call checks it, so a check compares two numbers and makes no
// system call. A child process made by fork() counts as another thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace verbena::worker {

class ThreadOwner {
 public:
  /// The calling thread becomes the owner.
  ThreadOwner() { take_over(); }

  [[nodiscard]] bool is_this_thread() const { return owner_ == here; }
  /// False in a child process that fork() has made: the session's threads, connections and shared memory are
  /// the parent's.
  [[nodiscard]] bool is_this_process() const;
  /// From now on the calling thread is the owner. REQUIRES: what the previous owner has done happens before
  /// this call.
  void take_over();
  /// For a call by a thread that is not the owner: FAILED_PRECONDITION that names both threads. `whose`
  /// begins the message.
  [[nodiscard]] absl::Status refuse(std::string_view whose) const;

 private:
  /// A different number in each live thread that has asked for one; 0: this thread has not. Not of the kind
  /// that is the fastest in a shared library: for that kind a library that is loaded late finds room only if
  /// others have left some.
  static constinit inline thread_local std::uint64_t here = 0;
  static std::uint64_t next_number();
  static void become_child();

  std::uint64_t owner_ = 0;
  pid_t process_ = 0;
  pid_t number_ = 0;  ///< the owner's thread number, as the system shows it
  std::string name_;
};

}  // namespace verbena::worker
