// What the launcher tells a process that it starts, in addition to the command line. The command line holds
// only what the user has written, and no argument of ours: so no argument can be taken for one of ours, and
// nobody can read ours in a list of processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include <verbena/session.hpp>

namespace verbena::job {

/// What a user's own program must be told, because it has none of our options.
struct ProgramRole {
  std::uint32_t rank = 0;  ///< of this worker
  std::uint32_t workers = 1;
  std::uint32_t servers = 1;   ///< which come first at the rendezvous
  std::uint32_t node = 0;      ///< the server that is this worker's own
  std::string scheme = "shm";  ///< of the transport
  bool tls = false;
  std::string device;
  std::uint32_t device_port = 0;
  bool shares_cores = false;
  ReadPath read_path = ReadPath::kAuto;
  double update_budget_mb_per_s = 0;
  std::uint32_t silence_timeout_ms = 5000;
  std::uint32_t copies = 0;  ///< of each server besides itself; at the rendezvous they come after all servers
  // With copies:
  std::string store;  ///< where the process that says which of them serves has its store
  /// See cluster::ConfigurationSource.
  bool ends_who_is_left_out = true;
  std::uint32_t longest_absence_ms = 0;
  friend bool operator==(const ProgramRole&, const ProgramRole&) = default;
};

struct LaunchLetter {
  // Descriptors that the process inherits, −1 where there is none.
  int report_to = -1;   ///< a pipe to the process that has started it
  int rendezvous = -1;  ///< a socket
  int stop_word = -1;   ///< memory by which the job's workers agree where to stop; the job is saved before
  int decided = -1;     ///< memory with the number of the newest configuration; servers have copies
  bool joins = false;   ///< a copy of a server that joins a job that runs
  bool replaces_workers = false;  ///< for a server: other processes take the places of workers that die
  std::uint32_t incarnation = 0;  ///< of a worker: how many processes have been this one before
  std::optional<ProgramRole> program = std::nullopt;

  /// Whether another process of ours started this one, and not a user by hand.
  [[nodiscard]] bool launched() const { return report_to >= 0; }
};

/// The environment variable that holds the letter's descriptor in a user's own program. The standard input of
/// that program belongs to the user.
inline constexpr const char* kLetterVariable = "VERBENA_LETTER";

/// Returns a descriptor that is to become the standard input of a new process, or to be inherited by it. The
/// caller must close it.
absl::StatusOr<int> write_letter(const LaunchLetter& letter);

/// Returns the letter that is this process's standard input, if it is a letter; standard input is empty
/// afterwards. Otherwise returns a letter that says nothing. Call it once, at the beginning.
absl::StatusOr<LaunchLetter> take_letter();

/// Returns the letter that kLetterVariable names, and unsets the variable; nullopt if the variable is not
/// set. FAILED_PRECONDITION if it is set and there is no letter: this process is part of a job, and cannot
/// take its place. Must not run at the same time as threads that read the environment.
absl::StatusOr<std::optional<LaunchLetter>> take_letter_by_environment();

}  // namespace verbena::job
