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

/// It is killed when its parent dies, whatever the parent dies of. Its own end and its messages are
/// descriptors to poll.
class ChildProcess {
 public:
  /// Runs this program with `arguments`, and a letter (job::take_letter()) for the rest: a pipe to report to
  /// and, where `rendezvous` is not negative, its end of one. With a role, what runs is arguments[0], a
  /// program of the user's own, without a standard input; it finds the letter by its environment. Call it
  /// while the process has one thread.
  static absl::StatusOr<ChildProcess> start(std::string name, const std::vector<std::string>& arguments,
                                            int rendezvous = -1,
                                            const std::optional<job::ProgramRole>& role = std::nullopt);
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();  ///< kills it if it still runs

  /// "worker 1 (pid 4711)"
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool running() const { return pid_ > 0; }
  [[nodiscard]] int end_descriptor() const { return end_; }           ///< readable when it has ended
  [[nodiscard]] int message_descriptor() const { return messages_; }  ///< -1 when it has closed its end

  /// Hands over the whole lines that are there, without waiting.
  void read_lines(const std::function<void(std::string_view line)>& handle);
  void signal(int number) const;
  /// Its wait status if it has ended; then running() is false.
  std::optional<int> reap();

 private:
  ChildProcess(std::string name, pid_t pid, int end, int messages)
      : name_(std::move(name)), pid_(pid), end_(end), messages_(messages) {}

  std::string name_;
  pid_t pid_ = -1;
  int end_ = -1;
  int messages_ = -1;
  job::LineStream lines_;
};

/// "was killed by SIGKILL", "ended with status 3"
std::string describe_end(int wait_status);

}  // namespace verbena::apps
