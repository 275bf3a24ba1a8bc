// Signals are for the threads of the program that wait for them, and not for threads that a library starts.
#pragma once

#include <csignal>

namespace verbena::base {

/// As long as the object lives, its thread takes no signals; threads that this thread starts meanwhile never
/// take any.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace verbena::base
