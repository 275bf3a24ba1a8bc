#include "apps/launcher/child_end.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>

#include "apps/launcher/stop_signals.hpp"
#include "apps/report/exit_status.hpp"

namespace verbena::apps {

using job::Cause;
using job::FailedMessage;

std::string describe_end(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const char* name = ::sigabbrev_np(WTERMSIG(wait_status));
    return name == nullptr ? fmt::format("was killed by signal {}", WTERMSIG(wait_status))
                           : fmt::format("was killed by SIG{}", name);
  }
  return fmt::format("ended with status {}", WEXITSTATUS(wait_status));
}

std::optional<FailedMessage> judge_end(const std::string& name, int wait_status, const ChildHistory& history,
                                       const MemoryKills& before) {
  const std::string what = fmt::format("{} {}", name, describe_end(wait_status));
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    // One of ours that came before the process was ready for it, or that of a user's own program.
    const bool asks = number == SIGTERM || number == kSaveSignal || number == kEndSignal;
    const bool by_us = (number == SIGKILL && history.killed) || (asks && history.asked_to_end);
    if (by_us) return std::nullopt;
    const std::string guess = number == SIGKILL ? guess_at_kill(before, count_memory_kills()) : "";
    return FailedMessage{absl::AbortedError(what + guess), Cause::kKilled};
  }
  if (const int status = WEXITSTATUS(wait_status); status != 0) {
    // This can also be the cause while all are being stopped: what the others reported about this end may
    // have come first.
    const bool by_us = history.asked_to_end && status == kExitSignalBase + SIGTERM;
    if (by_us || history.reported_failure) return std::nullopt;
    return FailedMessage{absl::AbortedError(what), Cause::kSilentEnd};
  }
  if (history.must_finish && !history.finished && !history.asked_to_end && !history.reported_failure) {
    return FailedMessage{
        absl::FailedPreconditionError(fmt::format(
            "{} ended before a session of it had: a program calls verbena::Session::from_environment(), and "
            "lets that session end before it ends itself",
            name)),
        Cause::kOwnError};
  }
  return std::nullopt;
}

}  // namespace verbena::apps
