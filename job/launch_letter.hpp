// What a process that the launcher starts is told beside its command line. That is made of what the user has
// written, so nothing of ours stands on it: no argument can be taken for one of ours, and nobody reads ours
// in a list of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include <verbena/session.hpp>

namespace verbena::job {

/// What a program of a user's own has to be told, which has none of our options.
struct ProgramRole {
  std::uint32_t rank = 0;  ///< of this worker
  std::uint32_t workers = 1;
  std::uint32_t servers = 1;   ///< which come first at the rendezvous
  std::string scheme = "shm";  ///< of the transport
  std::string device;
  std::uint32_t device_port = 0;
  bool shares_cores = false;
  ReadPath read_path = ReadPath::kAuto;
  double update_budget_mb_per_s = 0;
  std::uint32_t silence_timeout_ms = 5000;
  friend bool operator==(const ProgramRole&, const ProgramRole&) = default;
};

struct LaunchLetter {
  // Descriptors that the process inherits, −1 where there is none.
  int report_to = -1;   ///< a pipe to who has started it
  int rendezvous = -1;  ///< a socket
  std::optional<ProgramRole> program = std::nullopt;

  /// Whether this process was started by another of ours, and not by hand.
  [[nodiscard]] bool launched() const { return report_to >= 0; }
};

/// The environment variable that has the letter's descriptor in a program of a user's own, whose standard
/// input is no business of ours.
inline constexpr const char* kLetterVariable = "VERBENA_LETTER";

/// A descriptor to become the standard input of a new process, or to be inherited by it; it is the caller's
/// to close.
absl::StatusOr<int> write_letter(const LaunchLetter& letter);

/// The letter that is this process's standard input, if it is one, which is empty afterwards; else a letter
/// that says nothing. To be called once, at the beginning.
absl::StatusOr<LaunchLetter> take_letter();

/// Likewise the letter that kLetterVariable names, and forgets the variable; nothing where that is not set.
/// FAILED_PRECONDITION where it is, and there is no letter: this process is part of a job, and cannot take
/// its place. Not beside threads that look at the environment.
absl::StatusOr<std::optional<LaunchLetter>> take_letter_by_environment();

}  // namespace verbena::job
