#include "python/bindings/signals.hpp"

#include <pthread.h>

#include <csignal>
#include <utility>

#include "python/bindings/lock.hpp"

namespace verbena::python {
namespace {

std::uint64_t forks = 0;

}  // namespace

absl::Status look_for_signals() {
  const Locked locked;
  const bool has_raised = PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0;
  return has_raised ? absl::CancelledError("interrupted by a signal") : absl::OkStatus();
}

std::thread thread_without_signals(std::function<void()> run) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread(std::move(run));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

std::uint64_t process_number() {
  static const int kRegistered = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(kRegistered);
  return forks;
}

}  // namespace verbena::python
