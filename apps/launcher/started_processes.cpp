#include "apps/launcher/started_processes.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

namespace verbena::apps {
namespace {

constexpr int kSliceMs = 20;

/// This process's own.
std::vector<std::string> own_words() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

}  // namespace

std::vector<std::string> words_to_join(std::span<const std::string> words, std::uint32_t rank) {
  constexpr std::array<std::string_view, 3> kWithValue = {"--process", "--join-servers", "--join-workers"};
  std::vector<std::string> all;
  for (auto word = words.begin(); word != words.end(); ++word) {
    const bool is_separate = std::ranges::find(kWithValue, *word) != kWithValue.end();
    const bool is_joined = std::ranges::any_of(
        kWithValue, [&](std::string_view name) { return word->starts_with(std::string(name) + "="); });
    if (is_separate && std::next(word) != words.end()) ++word;
    if (!is_separate && !is_joined && *word != "--join") all.push_back(*word);
  }
  all.insert(all.end(), {"--join", "--process", std::to_string(rank)});
  return all;
}

void StartedProcesses::start(std::uint32_t rank) {
  std::vector<std::string> words = words_to_join(own_words(), rank);
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);  // threads of this process have blocked some
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const std::lock_guard lock(mutex_);  // so that a signal that comes meanwhile reaches it
  const int error = ::posix_spawn(&pid, "/proc/self/exe", nullptr, &attributes, pointers.data(), ::environ);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    spdlog::warn("cannot start the process of rank {}: {}", rank, std::strerror(error));
    return;
  }
  running_.insert(pid);
}

void StartedProcesses::signal(int number) {
  const std::lock_guard lock(mutex_);
  for (const pid_t pid : running_) ::kill(pid, number);  // not reaped: so the number is still its own
}

bool StartedProcesses::are_running() {
  const std::lock_guard lock(mutex_);
  std::erase_if(running_, [](pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) == pid; });
  return !running_.empty();
}

void StartedProcesses::wait(StopSignals& signals, std::optional<std::chrono::milliseconds> patience) {
  const auto start = std::chrono::steady_clock::now();
  while (are_running()) {
    pollfd wanted = {signals.descriptor(), POLLIN, 0};
    ::poll(&wanted, 1, kSliceMs);
    if (const std::optional<int> number = signals.take()) signal(*number);
    if (patience && std::chrono::steady_clock::now() >= start + *patience) {
      signal(SIGTERM);
      patience.reset();
    }
  }
}

}  // namespace verbena::apps
