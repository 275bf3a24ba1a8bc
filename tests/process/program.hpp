// Runs a program as a user would, and looks at what it prints and how it ends.
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

/// A running program. The destructor kills it together with its process group.
class Program {
 public:
  /// `prepare` runs in the new process, before exec().
  Program(
      const std::string& path, const std::vector<std::string>& arguments,
      const std::filesystem::path& scratch, const std::function<void()>& prepare = [] {});
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// The children whose first argument is this, for example "server" or "worker".
  [[nodiscard]] std::vector<pid_t> children(const std::string& subcommand) const;
  /// Waits until there are exactly so many of these children. Returns false if that takes too long.
  [[nodiscard]] bool wait_for_children(const std::string& subcommand, std::size_t count) const;
  /// Whether standard output or standard error contains `text`.
  [[nodiscard]] bool has_said(const std::string& text) const;
  /// How often both of them do.
  [[nodiscard]] std::size_t times_said(const std::string& text) const;
  /// Waits until it has said it. Returns false if that takes too long.
  [[nodiscard]] bool wait_for_output(const std::string& text) const;
  Ended wait();

 private:
  [[nodiscard]] std::string read(const char* which) const;

  pid_t pid_ = -1;
  std::filesystem::path scratch_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Runs a program to its end.
Ended run(
    const std::string& path, const std::vector<std::string>& arguments, const std::filesystem::path& scratch,
    const std::function<void()>& prepare = [] {});

/// The rest of the first line of `text` that begins so; empty: there is none.
std::string rest_of_line(const std::string& text, const std::string& beginning);

/// Waits until the condition holds; by default for as long as any host may need. Returns false if that takes
/// longer.
bool wait_until(const std::function<bool()>& condition,
                std::chrono::duration<double> patience = std::chrono::seconds(60));
/// Whether there is such a process, and it is not a zombie.
bool alive(pid_t pid);
/// Waits up to `seconds` until all of them have gone.
bool gone(const std::vector<pid_t>& pids, double seconds);

}  // namespace verbena::process_test
