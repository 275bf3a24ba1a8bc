// What a process that the launcher starts is told beside its command line. That is made of what the user has
// written, so nothing of ours stands on it: no argument can be taken for one of ours, and nobody reads ours
// in a list of processes.
#pragma once

#include <optional>

#include "absl/status/statusor.h"

namespace verbena::apps {

/// Descriptors that the process inherits, −1 where there is none.
struct LaunchLetter {
  int report_to = -1;   ///< a pipe to who has started it
  int rendezvous = -1;  ///< a socket

  /// Whether this process was started by another of ours, and not by hand.
  [[nodiscard]] bool launched() const { return report_to >= 0; }
};

/// A descriptor to become the standard input of a new process; it is the caller's to close.
absl::StatusOr<int> write_letter(const LaunchLetter& letter);

/// The letter that is this process's standard input, if it is one, which is empty afterwards; else a letter
/// that says nothing. To be called once, at the beginning.
absl::StatusOr<LaunchLetter> take_letter();

}  // namespace verbena::apps
