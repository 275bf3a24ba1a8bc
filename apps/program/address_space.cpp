// Checks, before any library of the program starts, whether there is enough address space for that start.
// Several libraries allocate while they are loaded, and abort or crash under a tight limit (`ulimit -v`):
// before main(), where nothing can be caught. This file is part of the program, not of a library, because
// only a program has a .preinit_array.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>

#include "apps/report/exit_status.hpp"

namespace {

/// The start of the libraries was measured to take 7 MB (2026-11, Debian 12).
constexpr std::uint64_t kStartBytes = std::uint64_t{16} << 20;

/// How much is mapped already: the program's libraries. 0 if /proc does not tell.
std::uint64_t mapped_bytes() {
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 64> text{};
  const ssize_t text_bytes = ::read(file, text.data(), text.size());
  ::close(file);
  std::uint64_t pages = 0;
  if (text_bytes > 0) std::from_chars(text.data(), text.data() + text_bytes, pages);
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

void say(std::string_view text) {
  // If this line cannot be written, the user still sees the status.
  [[maybe_unused]] const ssize_t written_bytes = ::write(STDERR_FILENO, text.data(), text.size());
}

/// Nothing here may allocate, throw, or use what a constructor makes: no constructor has run.
void require_memory_for_the_start(int /*argc*/, char** /*argv*/, char** /*environment*/) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const std::uint64_t needed_bytes = mapped_bytes() + kStartBytes;
  if (limit.rlim_cur >= needed_bytes) return;
  std::array<char, 24> kilobytes{};
  const auto end =
      std::to_chars(kilobytes.data(), kilobytes.data() + kilobytes.size(), needed_bytes >> 10).ptr;
  say("verbena: error: the limit of address space is too low to start; at least `ulimit -v ");
  say({kilobytes.data(), end});
  say("` is needed\n");
  ::_exit(verbena::apps::kExitFailed);
}

using Start = void (*)(int, char**, char**);
[[gnu::section(".preinit_array"), gnu::used, gnu::retain]] const Start kBeforeLibraries =
    require_memory_for_the_start;

}  // namespace
