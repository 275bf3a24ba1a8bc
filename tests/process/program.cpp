#include "tests/process/program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

namespace verbena::process_test {
namespace {

std::string contents(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

/// Called between fork() and exec().
void redirect(int descriptor, const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::dup2(file, descriptor);
}

}  // namespace

Program::Program(const std::string& path, const std::vector<std::string>& arguments,
                 const std::filesystem::path& scratch, const std::function<void()>& prepare)
    : scratch_(scratch) {
  static int count = 0;
  scratch_ /= ".streams." + std::to_string(++count);
  std::filesystem::create_directory(scratch_);
  std::vector<std::string> all = {path};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  pointers.reserve(all.size() + 1);
  for (std::string& argument : all) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);
    redirect(STDOUT_FILENO, scratch_ / "out");
    redirect(STDERR_FILENO, scratch_ / "err");
    prepare();
    ::execv(path.c_str(), pointers.data());
    ::_exit(127);
  }
}

Program::~Program() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Program::signal(int number) const {
  ::kill(pid_, number);
}

std::string Program::read(const char* which) const {
  return contents(scratch_ / which);
}

std::vector<pid_t> Program::children(const std::string& subcommand) const {
  std::vector<pid_t> found;
  std::istringstream pids(
      contents("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children"));
  for (pid_t pid = 0; pids >> pid;) {
    // Compares argv[1]. Between fork() and exec(), a child still has its parent's command line.
    const std::string line = contents("/proc/" + std::to_string(pid) + "/cmdline");
    const std::size_t begin = line.find('\0') + 1;
    if (begin > 0 && line.compare(begin, subcommand.size() + 1, subcommand + '\0') == 0) found.push_back(pid);
  }
  return found;
}

bool Program::wait_for_children(const std::string& subcommand, std::size_t count) const {
  return wait_until([&] { return children(subcommand).size() == count; });
}

bool Program::has_said(const std::string& text) const {
  return (read("out") + read("err")).find(text) != std::string::npos;
}

std::size_t Program::times_said(const std::string& text) const {
  const std::string said = read("out") + read("err");
  std::size_t times = 0;
  for (std::size_t at = said.find(text); at != std::string::npos; at = said.find(text, at + 1)) ++times;
  return times;
}

bool Program::wait_for_output(const std::string& text) const {
  return wait_until([&] { return has_said(text); });
}

Ended Program::wait() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  Ended ended;
  ended.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  ended.out = read("out");
  ended.err = read("err");
  ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  return ended;
}

Ended run(const std::string& path, const std::vector<std::string>& arguments,
          const std::filesystem::path& scratch, const std::function<void()>& prepare) {
  return Program(path, arguments, scratch, prepare).wait();
}

std::string rest_of_line(const std::string& text, const std::string& beginning) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(beginning)) return line.substr(beginning.size());
  }
  return "";
}

bool wait_until(const std::function<bool()>& condition, std::chrono::duration<double> patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool alive(pid_t pid) {
  const std::string status = contents("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = status.rfind(')');
  return name_end != std::string::npos && status.compare(name_end + 2, 1, "Z") != 0;
}

bool gone(const std::vector<pid_t>& pids, double seconds) {
  return wait_until([&] { return std::none_of(pids.begin(), pids.end(), alive); },
                    std::chrono::duration<double>(seconds));
}

}  // namespace verbena::process_test
