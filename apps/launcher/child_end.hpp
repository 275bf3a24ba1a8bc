// How the end of a child process is to be understood by the process that has started it.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "apps/launcher/memory_kills.hpp"
#include "job/child_message.hpp"

namespace verbena::apps {

/// What its parent knows of a child that has ended.
struct ChildHistory {
  bool asked_to_end = false;      ///< by a signal of ours
  bool killed = false;            ///< by us
  bool reported_failure = false;  ///< it has said itself why it fails
  bool must_finish = false;       ///< it is a worker, and a user's own program
  bool finished = false;  ///< its worker has said that it has left the job; a copy of a server: ended well
};

/// "was killed by SIGKILL", "ended with status 3"
std::string describe_end(int wait_status);

/// nullopt: there is nothing to be said about the end that was not said, or caused by us. `name`: of the
/// child in messages. `before`: counted before the child was started.
std::optional<job::FailedMessage> judge_end(const std::string& name, int wait_status,
                                            const ChildHistory& history, const MemoryKills& before);

}  // namespace verbena::apps
