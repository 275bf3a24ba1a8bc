// The interpreter's lock, which a thread must have that touches objects of Python's.
#pragma once

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <utility>

namespace verbena::python {

/// As long as it lives, other threads may run Python, and this one must not touch its objects.
/// REQUIRES: this thread has the lock.
class Unlocked {
 public:
  Unlocked() { give_up(); }
  ~Unlocked() { take(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  friend class Locked;

  static void give_up() { thread_state = PyEval_SaveThread(); }

  /// Not once the interpreter ends in another thread: then this one, which is a daemon thread, sleeps until
  /// the process has ended, as Python 3.14 has it. Before that version Python ends the thread instead, by
  /// unwinding its stack, and on the way would be destructors, which let nothing pass.
  static void take() {
    try {
      PyEval_RestoreThread(std::exchange(thread_state, nullptr));
    } catch (abi::__forced_unwind&) {
      for (;;) ::pause();  // it must not be left
    }
  }

  /// Of this thread, when it has given up the lock. Kept here, since at the interpreter's end nobody else
  /// knows it any more.
  static inline constinit thread_local PyThreadState* thread_state = nullptr;
};

/// The opposite, in a thread that has the lock already or has given it up by Unlocked.
class Locked {
 public:
  Locked() : was_unlocked_(Unlocked::thread_state != nullptr) {
    if (was_unlocked_) Unlocked::take();
  }
  ~Locked() {
    if (was_unlocked_) Unlocked::give_up();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  bool was_unlocked_;
};

}  // namespace verbena::python
