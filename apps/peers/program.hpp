// Runs another program beside ours, reads its output and limits its time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::apps {

/// A program, given by its path or by a name in PATH. It is killed when this object is destroyed, and when
/// the thread that started it ends.
class Program {
 public:
  static absl::StatusOr<std::unique_ptr<Program>> start(const std::vector<std::string>& arguments);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Waits for the program to end; output() is then what it printed. If it takes longer than `patience`, it
  /// is killed and the result is DEADLINE_EXCEEDED. UNKNOWN if it does not end with status 0.
  absl::Status wait(std::chrono::milliseconds patience);
  /// Reads output for at most `patience`. Returns whether the program still runs.
  bool read(std::chrono::milliseconds patience);
  [[nodiscard]] pid_t pid() const { return pid_; }
  /// The program's standard output and standard error so far.
  [[nodiscard]] const std::string& output() const { return output_; }

 private:
  Program(std::string name, pid_t pid, int output) : name_(std::move(name)), pid_(pid), descriptor_(output) {}
  void kill();

  std::string name_;
  pid_t pid_;
  int descriptor_;
  std::string output_;
};

/// Whether there is such a program in PATH.
bool is_installed(const std::string& program);

}  // namespace verbena::apps
