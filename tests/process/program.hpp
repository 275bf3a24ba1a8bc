// Runs a program as a user would, and looks at what it leaves.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace verbena::process_test {

struct Ended {
  int status = 0;  ///< exit status, or 128 + the signal that killed it
  std::string out;
  std::string err;
  double seconds = 0;
};

/// A program under way; killed with its process group when it goes.
class Program {
 public:
  /// `prepare` runs in the new process.
  Program(
      const std::string& path, const std::vector<std::string>& arguments,
      const std::filesystem::path& scratch, const std::function<void()>& prepare = [] {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Its children by what their command line begins with, such as {"server"} or {"worker", "counter"}.
  [[nodiscard]] std::vector<pid_t> children(const std::string& subcommand) const;
  /// Waits until it has so many children of that kind which have opened their memory.
  [[nodiscard]] bool wait_for_children(const std::string& subcommand, std::size_t count) const;
  /// Waits until standard error or output holds `text`.
  [[nodiscard]] bool wait_for_output(const std::string& text) const;
  Ended wait();

 private:
  [[nodiscard]] std::string read(const char* which) const;

  pid_t pid_ = -1;
  std::filesystem::path scratch_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Runs to the end.
Ended run(
    const std::string& path, const std::vector<std::string>& arguments, const std::filesystem::path& scratch,
    const std::function<void()>& prepare = [] {});

/// Waits for what happens by itself, for as long as any host may need.
bool wait_until(const std::function<bool()>& condition,
                std::chrono::duration<double> patience = std::chrono::seconds(60));
/// Whether there is such a process that is not a zombie.
bool alive(pid_t pid);
/// Waits up to `seconds` for all of them to go.
bool gone(const std::vector<pid_t>& pids, double seconds);

}  // namespace verbena::process_test
