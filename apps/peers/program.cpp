#include "apps/peers/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

namespace verbena::apps {

namespace {

constexpr int kCannotRun = 127;  // the status that shells use for it
using Clock = std::chrono::steady_clock;

std::string last_line(const std::string& text) {
  std::istringstream lines(text);
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r-") != std::string::npos) last = line;
  }
  return last;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> Program::start(const std::vector<std::string>& arguments) {
  const std::string& name = arguments.front();
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    return absl::ResourceExhaustedError(fmt::format("cannot start {}: {}", name, std::strerror(error)));
  }
  std::vector<std::string> copies = arguments;
  std::vector<char*> pointers;
  pointers.reserve(copies.size() + 1);
  for (std::string& copy : copies) pointers.push_back(copy.data());
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  // Not fork(): this process would be left with the copy of memory that a device writes to.
  const pid_t pid = ::vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setpgid(0, 0);
    ::dup2(ends[1], STDOUT_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    if (::getppid() == parent) ::execvp(pointers.front(), pointers.data());
    ::_exit(kCannotRun);
  }
  const int error = errno;
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return absl::ResourceExhaustedError(fmt::format("cannot start {}: {}", name, std::strerror(error)));
  }
  return std::unique_ptr<Program>(new Program(name, pid, ends[0]));
}

Program::~Program() {
  kill();
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Program::kill() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);  // it is not reaped yet, so the pid is still its own
  ::kill(pid_, SIGKILL);
  ::waitpid(std::exchange(pid_, -1), nullptr, 0);
}

bool Program::read(std::chrono::milliseconds patience) {
  pollfd file{.fd = descriptor_, .events = POLLIN, .revents = 0};
  if (::poll(&file, 1, static_cast<int>(patience.count())) <= 0) return true;
  std::array<char, 4096> block{};
  const ssize_t got = ::read(descriptor_, block.data(), block.size());
  if (got > 0) output_.append(block.data(), static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && errno == EINTR);
}

absl::Status Program::wait(std::chrono::milliseconds patience) {
  const Clock::time_point end = Clock::now() + patience;
  bool running = true;
  while (running && Clock::now() < end) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    running = read(std::clamp(rest, std::chrono::milliseconds(0), std::chrono::milliseconds(200)));
  }
  if (running) {
    kill();
    return absl::DeadlineExceededError(fmt::format(
        "{} did not end within {} s", name_, std::chrono::ceil<std::chrono::seconds>(patience).count()));
  }
  // Its output has ended, so the program has ended or is about to end.
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotRun && output_.empty()) {
    return absl::NotFoundError(fmt::format("{} cannot be run: is it installed?", name_));
  }
  return absl::UnknownError(
      fmt::format("{} ended with {} {}: {}", name_, WIFSIGNALED(status) ? "signal" : "status",
                  WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), last_line(output_)));
}

bool is_installed(const std::string& program) {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nothing here changes it
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace verbena::apps
