#include "apps/launcher/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include "job/launch_letter.hpp"

// This C library's header lacks the extern "C".
extern "C" {
#include <sys/pidfd.h>
}

namespace verbena::apps {
namespace {

constexpr const char* kProgram = "/proc/self/exe";
constexpr int kCannotRun = 127;  // as shells report it

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

/// The pointers that exec() needs for a list. The list must outlive them.
std::vector<char*> pointers_to(std::vector<std::string>& list) {
  std::vector<char*> pointers;
  pointers.reserve(list.size() + 1);
  for (std::string& one : list) pointers.push_back(one.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// This process's environment with the variable for `letter`; replaces the letter that this process itself
/// may have got.
std::vector<std::string> environment_with_letter(int letter) {
  const std::string variable = fmt::format("{}=", job::kLetterVariable);
  std::vector<std::string> all;
  for (char** each = ::environ; *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with(variable)) all.emplace_back(*each);
  }
  all.push_back(fmt::format("{}{}", variable, letter));
  return all;
}

/// Between fork() and exec(): no memory is allocated here.
[[noreturn]] void become(pid_t parent, int standard_input, char* const* arguments, char* const* environment) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kCannotRun);  // the parent died before prctl() took effect
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::dup2(standard_input, STDIN_FILENO);
  if (environment != nullptr) {  // a user's own program starts as it would from a shell
    std::signal(SIGPIPE, SIG_DFL);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  if (environment == nullptr) ::execv(kProgram, arguments);
  if (environment != nullptr) ::execve(arguments[0], arguments, environment);
  ::_exit(kCannotRun);
}

absl::Status cannot_start(const std::string& name, int error) {
  return absl::ResourceExhaustedError(fmt::format("cannot start {}: {}", name, std::strerror(error)));
}

}  // namespace

absl::StatusOr<ChildProcess> ChildProcess::start(std::string name, const std::vector<std::string>& arguments,
                                                 job::LaunchLetter letter_to_it) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    const int error = errno;
    return cannot_start(name, error);
  }
  letter_to_it.report_to = ends[1];
  const bool is_program = letter_to_it.program.has_value();
  const absl::StatusOr<int> letter = job::write_letter(letter_to_it);
  if (!letter.ok()) {
    for (const int end : ends) ::close(end);
    return letter.status();
  }
  std::vector<std::string> all;
  if (!is_program) all.emplace_back("verbena");
  all.insert(all.end(), arguments.begin(), arguments.end());
  const std::vector<char*> pointers = pointers_to(all);
  std::vector<std::string> variables = environment_with_letter(*letter);
  const std::vector<char*> environment = pointers_to(variables);

  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) {
    for (const int inherited :
         {ends[1], letter_to_it.rendezvous, letter_to_it.stop_word, letter_to_it.decided}) {
      if (inherited >= 0) ::fcntl(inherited, F_SETFD, 0);
    }
    if (!is_program) become(parent, *letter, pointers.data(), nullptr);
    ::fcntl(*letter, F_SETFD, 0);
    become(parent, ::open("/dev/null", O_RDONLY | O_CLOEXEC), pointers.data(), environment.data());
  }
  int error = errno;
  ::close(ends[1]);
  ::close(*letter);
  if (pid < 0) {
    ::close(ends[0]);
    return cannot_start(name, error);
  }
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const int end = ::pidfd_open(pid, 0);
  error = errno;
  ChildProcess child(fmt::format("{} (pid {})", name, pid), pid, end, ends[0]);
  if (end < 0) return cannot_start(child.name_, error);
  return child;
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : name_(std::move(other.name_)),
      pid_(std::exchange(other.pid_, -1)),
      end_(std::exchange(other.end_, -1)),
      messages_(std::exchange(other.messages_, -1)),
      processor_seconds_(other.processor_seconds_),
      lines_(std::move(other.lines_)) {}

ChildProcess::~ChildProcess() {
  if (running()) {
    ::kill(pid_, SIGKILL);  // our child is not reaped: so the pid still belongs to it
    ::waitpid(pid_, nullptr, 0);
  }
  if (messages_ >= 0) ::close(messages_);
  if (end_ >= 0) ::close(end_);
}

void ChildProcess::read_lines(const std::function<void(std::string_view)>& handle) {
  if (messages_ >= 0 && !lines_.read(messages_, handle)) ::close(std::exchange(messages_, -1));
}

void ChildProcess::signal(int number) const {
  if (running()) ::pidfd_send_signal(end_, number, nullptr, 0);
}

std::optional<int> ChildProcess::reap() {
  int status = 0;
  rusage used{};
  if (!running() || ::wait4(pid_, &status, WNOHANG, &used) != pid_) return std::nullopt;
  pid_ = -1;
  processor_seconds_ = seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
  return status;
}

}  // namespace verbena::apps
