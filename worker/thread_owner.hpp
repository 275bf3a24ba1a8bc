// To which thread a session belongs. Asked by every call, so it costs a comparison with an address, not a
// system call.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace verbena::worker {

class ThreadOwner {
 public:
  /// The calling thread.
  ThreadOwner() { take_over(); }

  [[nodiscard]] bool is_this_thread() const { return owner_ == &here; }
  /// From now on it is the calling thread. REQUIRES: what the one before has done happens before this call.
  void take_over();
  /// FAILED_PRECONDITION that names both threads, of a call by one that is not the owner. `whose` begins the
  /// message.
  [[nodiscard]] absl::Status refuse(std::string_view whose) const;

 private:
  /// Its address is another in each thread that lives. Of one byte, so that the little room that a library
  /// loaded late has of this fastest kind suffices.
  [[gnu::tls_model("initial-exec")]] static constinit inline thread_local char here = 0;

  const char* owner_ = nullptr;
  pid_t number_ = 0;  ///< the owner's, as the system shows it
  std::string name_;
};

}  // namespace verbena::worker
