// What concerns signals, threads and processes while the library waits.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/status/status.h"

namespace verbena::python {

/// How often a thread that waits looks for signals.
inline constexpr auto kSignalInterval = std::chrono::milliseconds(50);

/// Runs the handlers of signals that have come, as Python does between two instructions. CANCELLED: one has
/// raised an exception, Ctrl-C's usual one for example, which errors.hpp's check() throws. For threads of the
/// interpreter's that have given up its lock.
absl::Status look_for_signals();

/// A thread that takes no signals: they are for those that the interpreter knows.
std::thread thread_without_signals(std::function<void()> run);

/// Differs between a process and its children that fork() makes. Without a system call.
std::uint64_t process_number();

}  // namespace verbena::python
