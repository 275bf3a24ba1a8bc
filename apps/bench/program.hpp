// Another program that runs beside ours: its output read, its time bounded.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::apps::bench {

/// Found by PATH. Killed when it goes, and when the thread that started it ends.
class Program {
 public:
  static absl::StatusOr<std::unique_ptr<Program>> start(const std::vector<std::string>& arguments);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Waits for its end; what it printed is output(). DEADLINE_EXCEEDED, and it is killed, when that takes
  /// longer; UNKNOWN if it does not end with status 0.
  absl::Status wait(std::chrono::milliseconds patience);
  /// Reads for so long at most; whether it still runs.
  bool read(std::chrono::milliseconds patience);
  /// Standard output and error so far.
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

}  // namespace verbena::apps::bench
