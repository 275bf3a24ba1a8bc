// Processes that a process of a job on several hosts starts on its own host because rank 0 has asked for them
// (docs/elasticity.md): each runs what this one was told to run, with another rank, and is one of the job
// like all others. They do not end with this one.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "apps/launcher/stop_signals.hpp"

namespace verbena::apps {

/// The words of a command line that joins the job of another one, as the process of that rank.
std::vector<std::string> words_to_join(std::span<const std::string> words, std::uint32_t rank);

/// Thread safety: any thread may call.
class StartedProcesses {
 public:
  /// Without waiting. That it cannot be started is said in the log: rank 0 finds that it does not come.
  void start(std::uint32_t rank);
  /// To all that have not ended.
  void signal(int number);
  /// Waits for their ends, however they end: rank 0 says what becomes of them. Signals that come meanwhile
  /// are theirs. After `patience` they are asked to end.
  void wait(StopSignals& signals, std::optional<std::chrono::milliseconds> patience);

 private:
  [[nodiscard]] bool are_running();

  std::mutex mutex_;
  std::set<pid_t> running_;
};

}  // namespace verbena::apps
