// A process that the launcher has started from its own program file.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "job/launch_letter.hpp"
#include "job/line_stream.hpp"

namespace verbena::apps {

/// It is killed when its parent dies, for whatever reason. Its end and its messages can be polled through
/// descriptors.
class ChildProcess {
 public:
  /// Runs this program with `arguments`. It gets `letter` (job::take_letter()), completed with a pipe to
  /// report to, and inherits the descriptors in it. With a role for a user's own program in it that is run
  /// instead, arguments[0], without a standard input; it finds the letter through its environment. The thread
  /// that calls it must live as long as the process, which is killed when the thread ends.
  static absl::StatusOr<ChildProcess> start(std::string name, const std::vector<std::string>& arguments,
                                            job::LaunchLetter letter);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();  ///< kills it if it still runs

  /// "worker 1 (pid 4711)"
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool running() const { return pid_ > 0; }
  [[nodiscard]] pid_t pid() const { return pid_; }                    ///< -1: it has ended
  [[nodiscard]] int end_descriptor() const { return end_; }           ///< readable when it has ended
  [[nodiscard]] int message_descriptor() const { return messages_; }  ///< -1 when it has closed its end

  /// Passes the complete lines that have arrived to `handle`, without waiting.
  void read_lines(const std::function<void(std::string_view line)>& handle);
  void signal(int number) const;
  /// Its wait status if it has ended; then running() is false.
  std::optional<int> reap();
  /// What it has used in all. REQUIRES: reap() has found its end.
  [[nodiscard]] double processor_seconds() const { return processor_seconds_; }

 private:
  ChildProcess(std::string name, pid_t pid, int end, int messages)
      : name_(std::move(name)), pid_(pid), end_(end), messages_(messages) {}

  std::string name_;
  pid_t pid_ = -1;
  int end_ = -1;
  int messages_ = -1;
  double processor_seconds_ = 0;
  job::LineStream lines_;
};

}  // namespace verbena::apps
